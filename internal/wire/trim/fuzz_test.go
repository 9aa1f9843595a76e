package trim

import (
	"bytes"
	"encoding/json"
	"math/rand"
	"testing"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire/tokens"
)

func FuzzEdits(f *testing.F) {
	for seed := range int64(6) {
		r := &talk{Rand: rand.New(rand.NewSource(seed)), dialect: llm.OpenAI, op: llm.Chat, short: true}
		if seed%2 == 1 {
			r.dialect = llm.Anthropic
		}
		f.Add(r.body(), uint8(seed), uint8(seed), 100)
	}
	for _, s := range []string{
		`{"messages":[1,{},{"role":"user","content":[[],{"type":"text","text":"\ud83d\ud83d\ude00 . x"}]},{"role":"tool","tool_call_id":1}]}`,
		`{"input":[{"type":"x_call","call_id":"a"},{"role":"user","content":"b"},{"type":"x_output","call_id":"a","output":[{"type":"input_text","text":"c"}]},{"id":"r"}]}`,
		`{"prompt":["One. Two.",[1,2],{"a":1},"` + "\xff\xe4" + `"]}`,
		`{"messages":[{"role":"user","content":"a"},{"role":"user","content":"a"},{"role":"user","content":"a"},{"role":"user","content":"a"}]}`,
		"not JSON", `{"messages":[`,
	} {
		f.Add([]byte(s), uint8(0), uint8(0), 1)
	}
	dialects := []llm.Dialect{llm.OpenAI, llm.Anthropic, llm.Gemini, llm.Simulator}
	ops := []llm.Operation{llm.Chat, llm.Responses, llm.Completion, llm.Embeddings}
	models := []string{"gpt-4o", "gpt-4", "claude-sonnet-4-5", "gemini-2.5-pro"}
	f.Fuzz(func(t *testing.T, raw []byte, which, model uint8, budget int) {
		dialect, op := dialects[int(which)%len(dialects)], ops[int(which)/len(dialects)%len(ops)]
		before := bytes.Clone(raw)
		out, _ := checkEdits(t, raw, dialect, op, models[int(model)%len(models)], tokens.Calibration{}, budget)
		if !bytes.Equal(raw, before) {
			t.Fatal("the body has changed")
		}
		if json.Valid(raw) && !json.Valid(out) {
			t.Fatalf("%q became %q", raw, out)
		}
		if !json.Valid(raw) && !bytes.Equal(out, raw) {
			t.Fatalf("%q, which is not JSON, became %q", raw, out)
		}
	})
}
