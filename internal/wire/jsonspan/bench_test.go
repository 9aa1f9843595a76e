package jsonspan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// chat is a typical chat body of about the given length in bytes.
func chat(size int) string {
	var b strings.Builder
	b.WriteString(`{"model":"gpt-4o-mini","stream":true,"temperature":0.7,"max_tokens":512,"messages":[`)
	b.WriteString(`{"role":"system","content":"You are a helpful assistant. Answer in short sentences."}`)
	for i := 0; b.Len() < size-200; i++ {
		role := [...]string{"user", "assistant"}[i%2]
		fmt.Fprintf(&b, `,{"role":"%s","content":"Line %d of the talk.\nIt quotes \"a word\" and goes on for a while, as people do when they explain what they want."}`, role, i)
	}
	b.WriteString(`],"stream_options":{"include_usage":true},"user":"u-1","tools":[],"metadata":{"a":"b"}}`)
	return b.String()
}

// read does with a body what the gateway does.
func read(raw []byte) (model Value, stream bool, limit int64, size int, ok bool) {
	m := Object(raw, 0)
	for m.Next() {
		switch string(m.Key()) {
		case "model":
			model = m.Value()
		case "stream":
			stream = True(raw, m.Value())
		case "max_tokens":
			limit, _ = Int(raw, m.Value())
		case "messages":
			for e := Elements(raw, m.Value()); e.Next(); {
				for in := In(raw, e.Value()); in.Next(); {
					if string(in.Key()) == "content" {
						size += StringLen(raw, in.Value())
					}
				}
			}
		}
	}
	return model, stream, limit, size, m.Err() == nil
}

func TestNoAllocations(t *testing.T) {
	raw := []byte(strings.Replace(chat(4096), `"model"`, `"mod\u0065l"`, 1))
	dst, put := make([]byte, 0, 2*len(raw)), []byte(`"claude"`)
	n := testing.AllocsPerRun(100, func() {
		model, stream, limit, size, ok := read(raw)
		if !ok || !stream || limit != 512 || size < 2000 || Valid(raw, 0) != nil {
			t.Fatal(model, stream, limit, size, ok)
		}
		edits := [...]Edit{{model.Span, put}}
		out := Splice(dst, raw, edits[:])
		out, _ = Unquote(out, raw, model)
		_ = AppendQuote(out, "a\n\"b\"")
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

var texts = []struct {
	name string
	raw  []byte
}{
	{"chat4K", []byte(chat(4096))},
	{"prompt64K", []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("All work and no play makes a dull gateway. ", 1525) + `"}]}`)},
	{"code64K", []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat(`\tif x == \"y\" {\n\t\treturn nil, err\n\t}\n`, 1490) + `"}]}`)},
	{"indented4K", func() []byte { // white space and structure, few letters
		var v any
		_ = json.Unmarshal([]byte(`{"messages":[`+strings.Repeat(`{"a":[1,2.5,true,null],"b":{"c":"d"}},`, 40)+`{}]}`), &v)
		b, _ := json.MarshalIndent(v, "", " ")
		return b
	}()},
}

func bench(b *testing.B, f func(raw []byte) bool) {
	for _, text := range texts {
		b.Run(text.name, func(b *testing.B) {
			b.SetBytes(int64(len(text.raw)))
			b.ReportAllocs()
			for b.Loop() {
				if !f(text.raw) {
					b.Fatal("not valid")
				}
			}
		})
	}
}

func BenchmarkValid(b *testing.B) {
	bench(b, func(raw []byte) bool { return Valid(raw, 0) == nil })
}

func BenchmarkStdValid(b *testing.B) { bench(b, json.Valid) }

// BenchmarkRead is the scan of a body and of its messages, sizes included.
func BenchmarkRead(b *testing.B) {
	bench(b, func(raw []byte) bool {
		_, _, _, _, ok := read(raw)
		return ok
	})
}

func BenchmarkSplice(b *testing.B) {
	raw := texts[0].raw
	dst, put := make([]byte, 0, 2*len(raw)), []byte(`"claude-sonnet"`)
	model, _, _, _, _ := read(raw)
	b.ReportAllocs()
	for b.Loop() {
		edits := [...]Edit{{model.Span, put}}
		if Splice(dst, raw, edits[:]) == nil {
			b.Fatal("refused")
		}
	}
}

func BenchmarkAppendQuote(b *testing.B) {
	dst, s := make([]byte, 0, 1024), "a token of \"text\"\n"
	b.SetBytes(int64(len(s)))
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendQuote(dst[:0], s)
	}
}
