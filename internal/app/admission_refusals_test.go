package app_test

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/lab/fake"
)

// A refused call takes nothing of any other limit, and no provider hears of it.
func TestRefusedTakesNothing(t *testing.T) {
	t.Parallel()
	ledgerYAML, path := ledgerAt(t)
	g := start(t, setup{More: ledgerYAML + `prices: [{model: "*", input: 1, output: 1}]
quota:
  rules:
    - {name: few, when: 'request.model == "gpt-few"', requests: {rate: 1/day, algorithm: window}}
    - {name: small, when: 'request.model == "gpt-small"', tokens: {rate: 100/day, algorithm: window}}
    - {name: all, per: [tenant], requests: {rate: 1000/day, algorithm: window}, tokens: {rate: 1000000/day, algorithm: bucket}, output_tokens: {rate: 1000000/day}, concurrent: 100}
  budgets:
    - {name: purse, per: [key], limit: {usd: 1, tokens: 1000000}, period: none}
    - {name: poor, when: 'request.model == "gpt-poor"', limit: {usd: 0.000001}, period: none}
`})
	if a := g.post(chatPath, chatOf("gpt-few", `,"max_tokens":5`)); a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.Bytes)
	}
	still := func() map[string]float64 {
		got := map[string]float64{}
		for name, s := range g.stands("gpt-few") {
			if !strings.Contains(name, "output") && name != "all/tokens" { // of which a little comes back all the time
				got[name] = s.Remaining
			}
		}
		return got
	}
	before := still()
	for range 20 {
		for model, want := range map[string]string{"gpt-few": "rate_limit_exceeded", "gpt-small": "rate_limit_exceeded", "gpt-poor": "insufficient_quota"} {
			a := g.post(chatPath, chatOf(model, `,"max_tokens":500`))
			if code := a.limited(t); code != want {
				t.Errorf("%s: %s", model, a.Bytes)
			}
			final := a.Header.Get("x-should-retry") == "false"
			if never := model != "gpt-few"; final != never || never != (a.Header.Get("retry-after") == "") {
				t.Errorf("%s: should-retry %q, retry-after %q: %s", model, a.Header.Get("x-should-retry"), a.Header.Get("retry-after"), a.Bytes)
			}
		}
	}
	if after := still(); !maps.Equal(before, after) {
		t.Errorf("60 refusals have changed %v to %v", before, after)
	}
	if n := g.Fake.Stats().Requests; n != 1 {
		t.Errorf("%d calls have reached the provider, want 1", n)
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	if all, _ := entries(t, path); len(all) != 1 {
		t.Errorf("the ledger has %d entries, want that of the one call that was made", len(all))
	}
}

// A shadow rule counts what it would refuse, shows it to nobody, and refuses
// nothing.
func TestShadowRule(t *testing.T) {
	t.Parallel()
	g := start(t, setup{More: "quota: {rules: [{name: trial, requests: {rate: 2/day}, concurrent: 1, shadow: true}]}\n"})
	for range 20 {
		if a := g.post(chatPath, chatBody); a.StatusCode != 200 || a.Header.Get("x-ratelimit-limit") != "" {
			t.Fatalf("%d %v %s", a.StatusCode, a.Header, a.Bytes)
		}
	}
	if got := g.stands("chat"); len(got) != 0 {
		t.Errorf("clients are shown %v", got)
	}
}

// The provider before a model's name is no way around a rule or a condition
// about the model.
func TestLimitsGoByTheModelMeant(t *testing.T) {
	t.Parallel()
	g := start(t, setup{Keys: `- {name: plain, secret: "literal:sk-plain-012345678", tenant: plain}`, More: `access:
  conditions: [{name: no-o1, when: 'request.model == "o1"', require: 'principal.tenant == "tests"'}]
quota:
  rules: [{name: big, when: 'request.model == "gpt-4"', requests: {rate: 3/day, algorithm: window}}]
`})
	got := map[int]int{}
	for i := range 8 {
		model := "gpt-4"
		if i%2 == 0 {
			model = "openai/gpt-4"
		}
		got[g.post(chatPath, chatOf(model, "")).StatusCode]++
	}
	if got[200] != 3 || got[429] != 5 {
		t.Errorf("a limit of 3 let through: %v", got)
	}
	for _, model := range []string{"o1", "openai/o1"} {
		a := g.post(chatPath, chatOf(model, ""), "Authorization", "Bearer sk-plain-012345678")
		if a.StatusCode != 403 || within(a.JSON(t), "error", "code") != "FORBIDDEN_ABAC" {
			t.Errorf("%s: %d %s", model, a.StatusCode, a.Bytes)
		}
	}
	if a := g.post(chatPath, chatOf("openai/o1", "")); a.StatusCode != 200 {
		t.Errorf("whom the condition lets in: %d %s", a.StatusCode, a.Bytes)
	}
	if n := g.Fake.Stats().Requests; n != 4 {
		t.Errorf("%d calls have reached the provider, want 4", n)
	}
}

// What a client says of its own address makes no new one, unless a proxy that
// is trusted says it.
func TestLimitByAddress(t *testing.T) {
	t.Parallel()
	const rule = "quota: {rules: [{name: each, per: [ip], requests: {rate: 2/day, algorithm: window}}]}\n"
	for _, c := range []struct {
		api    string
		passed int
	}{{"", 2}, {"trusted_proxies: [127.0.0.0/8]", 10}} {
		g := start(t, setup{API: c.api, More: rule})
		passed := 0
		for i := range 10 {
			ip := fmt.Sprintf("192.0.2.%d", i)
			if a := g.post(chatPath, chatBody, "X-Forwarded-For", ip, "X-Real-Ip", ip, "Forwarded", "for="+ip); a.StatusCode == 200 {
				passed++
			}
		}
		if passed != c.passed {
			t.Errorf("%q: %d calls passed, want %d", c.api, passed, c.passed)
		}
	}
}

// A call that asks for several answers needs that many times the tokens.
func TestSeveralAnswersNeedMore(t *testing.T) {
	t.Parallel()
	g := start(t, setup{More: "quota: {rules: [{name: out, output_tokens: {rate: 100/day, algorithm: window}}]}\n"})
	if a := g.post(chatPath, chatOf("chat", `,"max_tokens":30,"n":4`)); a.limited(t) == "" || !strings.Contains(string(a.Bytes), "120 output tokens") {
		t.Errorf("%s", a.Bytes)
	}
	a := g.post(chatPath, chatOf("gpt-x+tokens=30", `,"max_tokens":30,"n":3`))
	if a.StatusCode != 200 || a.number(t, "x-ratelimit-remaining-tokens") != 10 {
		t.Errorf("%d with %s remaining: %s", a.StatusCode, a.Header.Get("x-ratelimit-remaining-tokens"), a.Bytes)
	}
	if n := g.Fake.Stats().Requests; n != 1 {
		t.Errorf("%d calls have reached the provider, want 1", n)
	}
}

// A tier's bound holds for each principal of the tier, and a place is free as
// soon as its call has ended.
func TestTierConcurrency(t *testing.T) {
	t.Parallel()
	g := start(t, setup{
		Keys: `- {name: a, secret: "literal:sk-tier-a-01234567", tier: slow}
- {name: b, secret: "literal:sk-tier-b-01234567", tier: slow}`,
		More: "tiers: {slow: {concurrent: 2}}\n",
		Fake: func(c *fake.Config) { c.FirstToken = fake.Wait(400 * time.Millisecond) },
	})
	for round := range 3 {
		var passed, refused atomic.Int64
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				who := []string{"a", "b"}[i%2]
				a := g.send(g.request("POST", chatPath, strings.NewReader(chatBody), "Authorization", "Bearer sk-tier-"+who+"-01234567"))
				switch {
				case a.StatusCode == 200:
					passed.Add(1)
				case a.StatusCode == 429 && strings.Contains(string(a.Bytes), "tier-concurrency") && a.Header.Get("retry-after") != "":
					refused.Add(1)
				default:
					t.Errorf("%d %v %s", a.StatusCode, a.Err, a.Bytes)
				}
			})
		}
		wg.Wait()
		if passed.Load() != 4 || refused.Load() != 8 {
			t.Errorf("round %d: %d passed and %d were refused, want 2 of each principal to pass", round, passed.Load(), refused.Load())
		}
	}
	if n := g.Fake.Stats().MaxInFlight; n != 4 {
		t.Errorf("the provider saw %d calls at once, want 4", n)
	}
}
