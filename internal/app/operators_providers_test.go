package app_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/lab/fake"
)

// What providers say of their limits is learnt of good answers and refusals in
// both dialects, shown to operators, and never told a client as the gateway's
// own.
func TestOperatorsProviders(t *testing.T) {
	t.Parallel()
	g := start(t, setup{Fake: func(c *fake.Config) { c.RateLimit.Requests, c.RateLimit.Tokens = 2, 100_000 }})
	account := func(provider int) any {
		return within(g.operate("GET", "/admin/v1/providers", "").JSON(t), "providers", provider, "accounts", 0)
	}
	if account(0) != nil || account(1) != nil {
		t.Error("something is known before the first answer")
	}
	a := g.post(chatPath, chatBody)
	for name := range a.Header {
		if strings.Contains(strings.ToLower(name), "ratelimit") && !strings.HasPrefix(name, "Llm_provider-") {
			t.Errorf("the provider's limit is passed off as %s", name)
		}
	}
	openai := account(1)
	if within(openai, "credential") != 1.0 || within(openai, "model") != "sim-small" || within(openai, "retry_at") != nil ||
		within(openai, "limits", "requests", "limit") != 2.0 || within(openai, "limits", "requests", "remaining") != 1.0 || within(openai, "limits", "tokens", "limit") != 100_000.0 {
		t.Errorf("%v", openai)
	}
	if at, err := time.Parse(time.RFC3339, within(openai, "limits", "requests", "reset_at").(string)); err != nil || time.Until(at) > time.Minute {
		t.Errorf("%v %v", at, err)
	}
	g.post(chatPath, chatBody)
	if a := g.post(chatPath, chatBody); a.StatusCode != 429 {
		t.Fatalf("%d", a.StatusCode)
	}
	if openai = account(1); within(openai, "limits", "requests", "remaining") != 0.0 || within(openai, "retry_at") == nil {
		t.Errorf("%v", openai)
	}
	g.post("/v1/messages", `{"model":"haiku","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`)
	if anthropic := account(0); within(anthropic, "limits", "requests", "remaining") != 1.0 {
		t.Errorf("%v", anthropic)
	}
	for name, want := range map[string]float64{"headgate_provider_limit": 2, "headgate_provider_limit_remaining": 0} {
		if got := g.metric(name, `provider="openai"`, `dimension="requests"`); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if wait, other := g.metric("headgate_provider_retry_seconds", `provider="openai"`), g.metric("headgate_provider_retry_seconds", `provider="anthropic"`); wait <= 0 || other != 0 {
		t.Errorf("to wait %v and %v seconds", wait, other)
	}
}
