package openai

import (
	"testing"

	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// oracleTap is chatTap as it would be written without a thought for time: what
// lies deep is found by reading what is around it first, again and again.
type oracleTap struct{ chatTap }

func (t *oracleTap) Event(_, data []byte) (s wire.Signal) {
	if isDone(data) {
		return wire.Last | wire.Finished
	}
	all := jsonspan.Object(data, jsonspan.DefaultDepth)
	for all.Next() {
	}
	if all.Err() != nil {
		return wire.Malformed
	}
	choices, usage := -1, false
	for m := jsonspan.Object(data, jsonspan.DefaultDepth); m.Next(); {
		v := m.Value()
		switch key := string(m.Key()); {
		case key == "choices" && v.Kind == jsonspan.KindArray:
			choices = 0
			for e := jsonspan.Elements(data, v); e.Next(); choices++ {
				s |= t.element(data, e.Value())
			}
		case key == "usage" && v.Kind == jsonspan.KindObject:
			usage = true
			t.Report(readUsage(data, v))
		case key == "error" && (v.Kind == jsonspan.KindObject || v.Kind == jsonspan.KindString):
			t.err = wire.InAnswer(readError(data))
			s |= wire.Failed
		}
	}
	if usage && choices == 0 {
		s |= wire.UsageOnly
	}
	if t.finish != "" && t.seen.allDone() {
		s |= wire.Finished
	}
	return s
}

func (t *oracleTap) element(data []byte, v jsonspan.Value) (s wire.Signal) {
	index, finished := int64(0), false
	for m := jsonspan.In(data, v); m.Next(); {
		v := m.Value()
		switch key := string(m.Key()); {
		case key == "delta" && v.Kind == jsonspan.KindObject:
			for m := jsonspan.In(data, v); m.Next(); {
				s |= t.part(data, string(m.Key()), m.Value())
			}
		case key == "text":
			s |= t.produced(data, v)
		case key == "finish_reason" && v.Kind == jsonspan.KindString:
			t.finish, finished = jsonspan.Text(data, v), true
		case key == "index":
			index, _ = jsonspan.Int(data, v)
		}
	}
	before := t.seen
	t.seen.note(index, finished)
	if t.seen != before {
		s |= wire.Structural
	}
	return s
}

func (t *oracleTap) part(data []byte, key string, v jsonspan.Value) wire.Signal {
	switch key {
	case "content", "reasoning_content", "reasoning", "refusal":
		return t.produced(data, v)
	case "tool_calls", "function_call", "audio":
		if v.Kind == jsonspan.KindArray || v.Kind == jsonspan.KindObject {
			t.Produced(toolBytes(data, v))
			return wire.Content
		}
	}
	return 0
}

// The tap sees what the oracle sees, and counts nothing of what is malformed.
func FuzzChatTap(f *testing.F) {
	for _, s := range []string{
		`{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`, `{"choices":[{"index":1,"delta":{"content":"h\u00e9"},"finish_reason":"stop"}],"usage":null}`,
		`{"choices":[{"delta":{"content":"a","reasoning":"b"}},{"index":2,"text":"c"},7,{"index":3,"finish_reason":"length"}],"choices":[],"usage":{"prompt_tokens":3}}`,
		`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{}"}}]}}],"error":{"message":"x"}}`, `{"choices":[{"delta":{"content":"lost"}}],`, `[]`, `{"ch\u006fices":[{"t\u0065xt":"x"}]} `,
	} {
		f.Add([]byte(s), []byte(`{"choices":[{"text":"x"}]}`))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		got, want := &chatTap{}, &oracleTap{}
		for _, data := range [][]byte{first, second, first} {
			s, o := got.Event(nil, data), want.Event(nil, data)
			if s != o || got.Usage() != want.Usage() || got.finish != want.finish || got.seen != want.seen || (got.err == nil) != (want.err == nil) {
				t.Fatalf("%q: signals %b, want %b; %+v, want %+v; %q, want %q", data, s, o, got.Usage(), want.Usage(), got.finish, want.finish)
			}
		}
	})
}
