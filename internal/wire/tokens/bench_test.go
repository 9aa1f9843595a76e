package tokens

import (
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

func BenchmarkCount(b *testing.B) {
	const size = 100 << 10
	texts := []struct {
		name string
		text []byte
	}{
		{"english", english(size)},
		{"chinese", filled(size, seeds()["chinese"]...)},
		{"russian", filled(size, seeds()["russian"]...)},
		{"code", filled(size, seeds()["code"]...)},
		{"json", filled(size, jsons(40)...)},
		{"hostile/a", hostile["letter a"](size)},
		{"hostile/spaces", hostile["spaces"](size)},
		{"hostile/letters", hostile["letters"](size)},
		{"hostile/marks", hostile["marks"](size)},
	}
	for _, o := range oracles() {
		for _, t := range texts {
			b.Run(o.ours.Name()+"/"+t.name, func(b *testing.B) {
				b.SetBytes(int64(len(t.text)))
				b.ReportAllocs()
				for b.Loop() {
					o.ours.Count(t.text)
				}
			})
		}
	}
}

// filled repeats the parts up to size bytes, and cuts at the end of a part.
func filled(size int, parts ...string) []byte {
	var b []byte
	for i := 0; len(b) < size; i++ {
		b = append(append(b, parts[i%len(parts)]...), '\n')
	}
	return b
}

func jsons(n int) (all []string) {
	for _, s := range corpus(9, n*len(kinds)) {
		if s.kind == "json" && strings.HasPrefix(string(s.text), "{") {
			all = append(all, string(s.text))
		}
	}
	return all
}

func BenchmarkEstimate(b *testing.B) {
	for name, text := range map[string][]byte{"english": english(4 << 10), "chinese": filled(4<<10, seeds()["chinese"]...)[:4<<10]} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				EstimateOf(FamilyO200k, text)
			}
		})
	}
}

func BenchmarkPrompt(b *testing.B) {
	for name, body := range map[string][]byte{
		"one/256B": chatBody(string(english(186))), "one/1KiB": chatBody(string(english(954))),
		"one/16KiB": chatBody(string(english(16 << 10))), "one/64KiB": chatBody(string(english(64 << 10))),
		"turns/4KiB": conversation(4 << 10), "turns/64KiB": conversation(64 << 10),
	} {
		for _, model := range []string{"gpt-4o", "claude-sonnet-4-5"} {
			b.Run(model+"/"+name, func(b *testing.B) {
				// As the gateway counts: its first look at the body has found the
				// long strings.
				s := Scratch{Parts: true}
				long := longOf(body)
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					s.Know(long)
					s.Prompt(body, llm.OpenAI, llm.Chat, model, Calibration{}, 16<<10)
				}
			})
		}
	}
}

func BenchmarkCountWithin(b *testing.B) {
	text := joined(1, 1<<20)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		CountWithin(O200k(), text, 64<<10)
	}
}

// longOf are the long strings of a body.
func longOf(body []byte) (all []llm.Span) {
	var long jsonspan.Long
	m := jsonspan.Object(body, 0)
	m.Note(&long)
	for m.Next() {
	}
	for _, s := range long.Spans() {
		all = append(all, llm.Span(s))
	}
	return all
}
