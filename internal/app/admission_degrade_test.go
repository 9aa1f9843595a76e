package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/lab/fake"
)

// A budget that trims: the provider is asked for no more than there is money
// for, in each dialect's own field and whatever the client had asked for.
func TestBudgetTrims(t *testing.T) {
	t.Parallel()
	g := start(t, setup{
		More: "ledger: {kind: memory}\nquota: {budgets: [{name: purse, per: [model], limit: {tokens: 500}, period: none, exhausted: \"degrade: trim\"}]}\n",
		Fake: func(c *fake.Config) { c.Tokens = fake.Count(3000) },
	})
	for i, c := range []struct{ path, model, more, field string }{
		{chatPath, "gpt-a", ``, ""},
		{chatPath, "gpt-b", `,"max_tokens":2000`, "max_tokens"},
		{chatPath, "gpt-c", `,"max_completion_tokens":2000,"stream":true`, "max_completion_tokens"},
		{chatPath, "gpt-d", `,"n":3`, ""},
		{msgPath, "claude-a", `,"max_tokens":2000`, "max_tokens"},
		{"/v1/responses", "gpt-e", `,"max_output_tokens":2000`, "max_output_tokens"},
	} {
		body := chatOf(c.model, c.more)
		if strings.HasPrefix(c.path, "/v1/resp") {
			body = `{"model":"` + c.model + `","input":"hi"` + c.more + `}`
		}
		a := g.post(c.path, body)
		if a.StatusCode != 200 || a.Header.Get("x-degraded") != "max_tokens" {
			t.Fatalf("%s: %d %v %s", c.model, a.StatusCode, a.Header, a.Bytes)
		}
		var sent map[string]any
		if err := json.Unmarshal(g.upstream().Body, &sent); err != nil {
			t.Fatalf("%v in %s", err, g.upstream().Body)
		}
		bound := 0.0
		for _, field := range []string{"max_tokens", "max_completion_tokens", "max_output_tokens"} {
			if n := number(sent[field]); n > 0 && (c.field == "" || c.field == field) {
				bound = n
			}
		}
		if n := max(1, number(sent["n"])); bound*n > 500 || bound*n < 450 {
			t.Errorf("call %d: the provider was asked for %s", i, g.upstream().Body)
		}
		g.record(a.ID())
		if used := g.used(c.model, "purse/tokens"); used > 500 || used < 450 {
			t.Errorf("%s: %v of 500 tokens are used", c.model, used)
		}
		calls := g.Fake.Stats().Requests
		if a := g.post(c.path, body); a.StatusCode != 429 || g.Fake.Stats().Requests != calls { // too little is left to be worth a call
			t.Errorf("%s: afterwards %d %s", c.model, a.StatusCode, a.Bytes)
		}
	}
}

// A budget that degrades to another model: the call is then one of that model,
// and its limits hold.
func TestBudgetTakesAnotherModel(t *testing.T) {
	t.Parallel()
	g := start(t, setup{
		More: `ledger: {kind: memory}
quota:
  rules: [{name: few, when: 'request.model == "chat"', requests: {rate: 2/day, algorithm: window}}]
  budgets:
    - {name: purse, when: 'request.model == "gpt-4"', limit: {tokens: 200}, period: none, exhausted: "degrade: model:chat"}
`,
	})
	body := chatOf("gpt-4", `,"max_tokens":150`)
	for i, want := range []struct {
		status          int
		model, degraded string
	}{{200, "gpt-4", ""}, {200, "gpt-4", ""}, {200, "gpt-4", ""}, {200, "sim-small", "model"}, {200, "sim-small", "model"}, {429, "", "model"}, {429, "", "model"}} {
		calls := g.Fake.Stats().Requests
		a := g.post(chatPath, body)
		if a.StatusCode != want.status || a.Header.Get("x-degraded") != want.degraded {
			t.Errorf("call %d: %d %q %s", i, a.StatusCode, a.Header.Get("x-degraded"), a.Bytes)
		}
		if want.status == 429 {
			if g.Fake.Stats().Requests != calls || !strings.Contains(string(a.Bytes), `"few"`) {
				t.Errorf("call %d: %s", i, a.Bytes)
			}
		} else if got := g.upstream().Model; got != want.model {
			t.Errorf("call %d: the provider was asked for %s", i, got)
		}
	}
}

// A budget that trims may have to cut the prompt: the provider gets the latest
// turns and what the system says, and the client is told.
func TestBudgetTrimsThePrompt(t *testing.T) {
	t.Parallel()
	g := start(t, setup{More: "ledger: {kind: memory}\nquota: {budgets: [{name: purse, per: [model], limit: {tokens: 600}, period: none, exhausted: \"degrade: trim\"}]}\n"})
	var turns strings.Builder
	for i := range 20 {
		fmt.Fprintf(&turns, `,{"role":"user","content":"question %d about %s"},{"role":"assistant","content":"answer %d"}`, i, strings.Repeat("the weather of today and tomorrow ", 8), i)
	}
	for i, c := range []struct {
		output   int
		degraded string
	}{{100, "prompt"}, {1000, "prompt, max_tokens"}} {
		body := fmt.Sprintf(`{"model":"gpt-%d","max_tokens":%d,"messages":[{"role":"system","content":"be brief"}%s,{"role":"user","content":"and the last one?"}]}`, i, c.output, turns.String())
		a := g.post(chatPath, body)
		var from, to int
		if _, err := fmt.Sscanf(a.Header.Get("x-trimmed"), "from=%d;to=%d", &from, &to); err != nil || a.StatusCode != 200 || a.Header.Get("x-degraded") != c.degraded || from < 1000 || to >= 600 {
			t.Fatalf("%d %v %s", a.StatusCode, a.Header, a.Bytes)
		}
		sent := string(g.upstream().Body)
		if !json.Valid([]byte(sent)) || strings.Contains(sent, "question 0 ") || !strings.Contains(sent, "be brief") || !strings.Contains(sent, "and the last one?") || len(sent) > len(body)/2 {
			t.Errorf("the provider got %s", sent)
		}
		var got struct {
			Max int `json:"max_tokens"`
		}
		if err := json.Unmarshal([]byte(sent), &got); err != nil || got.Max > min(c.output, 600-to) || got.Max < 50 {
			t.Errorf("the provider was asked for %d tokens beside %d", got.Max, to)
		}
		if r := within(g.record(a.ID()), "admission", "degraded"); r != c.degraded {
			t.Errorf("the record says %v", r)
		}
	}
}
