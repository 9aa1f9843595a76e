package gateway

import (
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire/openai"
)

func callOf(t *testing.T, model, text string) *llm.Call {
	t.Helper()
	raw := []byte(`{"model":"` + model + `","messages":[{"role":"user","content":"` + text + `"}]}`)
	env, err := openai.Dialect{}.Peek(llm.Chat, raw)
	if err != nil {
		t.Fatal(err)
	}
	return &llm.Call{Dialect: llm.OpenAI, Op: llm.Chat, Raw: raw, Envelope: env}
}

// Estimates of a model whose vocabulary is not public come nearer to what its
// provider reports; counts of one whose is are what they are.
func TestCountsLearn(t *testing.T) {
	var g Gateway
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 40)
	const truth = 600 // half as many again as is estimated
	first := g.counting.prompt(callOf(t, "claude-x", text), "claude-x")
	for range 60 {
		c := callOf(t, "claude-x", text)
		g.counting.learn("claude-x", g.counting.prompt(c, "claude-x"), llm.Usage{Input: truth, Output: 1})
	}
	after := g.counting.prompt(callOf(t, "claude-x", text), "claude-x")
	if off := float64(after.Tokens)/truth - 1; off < -0.05 || off > 0.05 || first.Tokens == after.Tokens {
		t.Errorf("%d estimated at first, %d after, want about %d", first.Tokens, after.Tokens, truth)
	}
	exact := g.counting.prompt(callOf(t, "gpt-4o", text), "gpt-4o")
	g.counting.learn("gpt-4o", exact, llm.Usage{Input: 2 * int64(exact.Tokens)})
	if again := g.counting.prompt(callOf(t, "gpt-4o", text), "gpt-4o"); again.Tokens != exact.Tokens || !exact.Exact {
		t.Errorf("a count changed from %+v to %+v", exact, again)
	}
	errors := g.CountErrors()
	if errors["o200k_base"] != 0.5 || len(errors) != 2 {
		t.Errorf("%v", errors)
	}
	g.counting.learn("gpt-4o", exact, llm.Usage{Input: 9, Estimated: true}) // teaches nothing
	if g.CountErrors()["o200k_base"] != 0.5 {
		t.Error("an estimate must not teach")
	}
}
