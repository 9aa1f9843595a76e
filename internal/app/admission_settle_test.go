package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/lab/fake"
)

// A budget of which a call of about 200 tokens is a part.
const purseYAML = `quota:
  rules: [{name: rate, per: [tenant], requests: {rate: 1000/day, algorithm: window}, tokens: {rate: 100000/day, algorithm: window}}]
  budgets: [{name: purse, per: [tenant], limit: {tokens: 100000}, period: none}]
`

// What is charged in the end is what the provider reported, whatever was
// reserved, and nothing where it failed.
func TestSettledWithTheTruth(t *testing.T) {
	t.Parallel()
	g := start(t, setup{More: "ledger: {kind: memory}\n" + purseYAML})
	total := 0.0
	for i, body := range []string{
		chatOf("gpt-x+tokens=7", `,"max_tokens":5000`),
		chatOf("gpt-x+tokens=3000", ``), // more than was expected of it
		chatOf("gpt-x+tokens=100+reasoning=50", `,"max_tokens":1000`),
		chatOf("gpt-x+tokens=40+cached-share=0.5", ``),
	} {
		a := g.post(chatPath, body)
		total += tokensOf(t, a)
		for _, limit := range []string{"rate/tokens", "purse/tokens"} {
			if got := g.used("gpt-x", limit); got != total {
				t.Errorf("call %d: %v of %s used, want %v", i, got, limit, total)
			}
		}
	}
	// Failures of the provider: the tokens come back, the request stays counted.
	requests := g.used("gpt-x", "rate/requests")
	for i, overrides := range []string{"status=500", "status=429", "status=400", "fault=reset", "fault=empty", "fault=html", "fault=half", "fault=error-body", "fault=cut-json"} {
		a := g.post(chatPath, chatOf("gpt-x+"+overrides, `,"max_tokens":4000`))
		if a.StatusCode < 400 {
			t.Errorf("%s: %d %s", overrides, a.StatusCode, a.Bytes)
		}
		for _, limit := range []string{"rate/tokens", "purse/tokens"} {
			if got := g.used("gpt-x", limit); got != total {
				t.Errorf("%s: %v of %s used, want %v", overrides, got, limit, total)
			}
		}
		if got := g.used("gpt-x", "rate/requests"); got != requests+float64(i+1) {
			t.Errorf("%s: %v requests used, want %v", overrides, got, requests+float64(i+1))
		}
	}
	// No provider at all: nothing was used, not even a request.
	g.Source.Set([]byte(strings.ReplaceAll(setup{More: "ledger: {kind: memory}\n" + purseYAML}.document("http://127.0.0.1:1"), "200ms", "201ms")))
	if err := g.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	requests = g.used("gpt-x", "rate/requests")
	if a := g.post(chatPath, chatOf("gpt-x", "")); a.StatusCode != 502 || g.used("gpt-x", "rate/requests") != requests || g.used("gpt-x", "purse/tokens") != total {
		t.Errorf("%d, and %v requests used: %s", a.StatusCode, g.used("gpt-x", "rate/requests")-requests, a.Bytes)
	}
}

// A client that leaves before the answer gets its tokens back; one that hangs
// up in the middle of a stream pays for what was delivered.
func TestSettledWhenTheClientLeaves(t *testing.T) {
	t.Parallel()
	g := start(t, setup{More: "ledger: {kind: memory}\n" + purseYAML})
	ctx, leave := context.WithCancel(t.Context())
	r := g.request("POST", chatPath, strings.NewReader(chatOf("gpt-x+first-token=20s", `,"max_tokens":4000`))).WithContext(ctx)
	done := make(chan answer)
	go func() { done <- g.send(r) }()
	g.await(func(s fake.Stats) bool { return s.InFlight == 1 })
	if got := g.used("gpt-x", "purse/tokens"); got < 4000 {
		t.Errorf("%v tokens are reserved for a call of up to 4000", got)
	}
	leave()
	if a := <-done; a.Err == nil {
		t.Fatalf("%d", a.StatusCode)
	}
	g.settled("gpt-x", "purse/tokens", 0)
	g.settled("gpt-x", "rate/tokens", 0)

	for i, path := range []string{chatPath, msgPath} {
		before := g.used("gpt-x", "purse/tokens")
		body := chatOf([]string{"gpt-x", "claude-x"}[i]+"+tokens=4000+token-gap=2ms", `,"max_tokens":4000,"stream":true`)
		res, err := g.Client.Do(g.request("POST", path, strings.NewReader(body)))
		if err != nil || res.StatusCode != 200 {
			t.Fatal(err, res)
		}
		got := strings.Builder{}
		buf := make([]byte, 1024)
		for strings.Count(got.String(), "data:") < 50 {
			n, err := res.Body.Read(buf)
			if got.Write(buf[:n]); err != nil {
				t.Fatal(err)
			}
		}
		_ = res.Body.Close()
		g.await(func(s fake.Stats) bool { return s.StreamsCancelled == int64(i+1) })
		id := res.Header.Get("X-Request-Id")
		usage := g.record(id)["usage"]
		in, out := number(within(usage, "input_tokens")), number(within(usage, "output_tokens"))
		if out < 40 || out > 1500 || in < 1 {
			t.Errorf("%s: about 50 tokens were read and %v are charged", path, usage)
		}
		g.settled("gpt-x", "purse/tokens", before+in+out)
	}
}

func number(v any) float64 {
	n, _ := v.(float64)
	return n
}

// A provider that does not say what it used is no free provider: the prompt and
// the answer are counted here.
func TestMissingUsageIsCharged(t *testing.T) {
	t.Parallel()
	words := strings.Repeat("A headgate decides how much water enters the canal. ", 40)
	g := start(t, setup{More: "ledger: {kind: memory}\nprices: [{model: \"*\", input: 1, output: 1}]\n" + purseYAML})
	for _, c := range []struct{ path, model, more string }{
		{chatPath, "gpt-x", ""},
		{chatPath, "gpt-x", `,"stream":true`},
		{msgPath, "claude-x", `,"max_tokens":900`},
		{msgPath, "claude-x", `,"max_tokens":900,"stream":true`},
		{"/v1/responses", "gpt-x", ""},
		{"/v1/responses", "gpt-x", `,"stream":true`},
		{"/v1/embeddings", "gpt-x", ""},
	} {
		charged := func(fault string) float64 {
			before := g.used("chat", "purse/tokens")
			prompt := fmt.Sprintf(`"messages":[{"role":"user","content":%q}]`, words)
			if c.path != chatPath && c.path != msgPath {
				prompt = fmt.Sprintf(`"input":%q`, words)
			}
			body := fmt.Sprintf(`{"model":"%s+tokens=300+seed=7%s",%s%s}`, c.model, fault, prompt, c.more)
			if a := g.post(c.path, body); a.StatusCode != 200 {
				t.Fatalf("%d %s", a.StatusCode, a.Bytes)
			}
			return g.used("chat", "purse/tokens") - before
		}
		told, counted := charged(""), charged("+fault=no-usage")
		if t.Logf("%s %s: %v tokens reported, %v counted", c.path, c.more, told, counted); counted < told/2 || counted > told*2 {
			t.Errorf("%s %s: %v tokens reported, %v counted", c.path, c.more, told, counted)
		}
	}
}

// An answer too large to be held is charged, too.
func TestLargeAnswerIsCharged(t *testing.T) {
	t.Parallel()
	const text = 300_000
	for _, usage := range []string{`,"usage":{"prompt_tokens":9,"completion_tokens":75000,"total_tokens":75009}`, ""} {
		g := start(t, setup{
			More: "ledger: {kind: memory}\nstream: {whole_limit: 64KiB}\nquota: {budgets: [{name: purse, limit: {tokens: 1000000}, period: none}]}\n",
			Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}]%s}`, strings.Repeat("ab ", text/3), usage)
			}),
		})
		a := g.post(chatPath, chatBody)
		if a.StatusCode != 200 || len(a.Bytes) < text {
			t.Fatalf("%d, %d bytes", a.StatusCode, len(a.Bytes))
		}
		var got float64
		wait(t, "the charge", func() bool { got = g.used("chat", "purse/tokens"); return got != 0 && got < 900000 })
		if usage != "" && got != 75009 || got < text/8 || got > text {
			t.Errorf("%v tokens are charged for %d bytes", got, text)
		}
	}
}

// Streams that end at the provider's fault are charged for what was delivered.
func TestBrokenStreamIsCharged(t *testing.T) {
	t.Parallel()
	g := start(t, setup{More: "ledger: {kind: memory}\n" + purseYAML})
	for _, fault := range []string{"reset", "abort", "error-event", "no-done", "stall+stall-for=100ms"} {
		before := g.used("gpt-x", "purse/tokens")
		body := chatOf("gpt-x+tokens=400+token-gap=100us+fault-after=200+fault="+fault, `,"stream":true,"max_tokens":400`)
		a := g.send(g.request("POST", chatPath, strings.NewReader(body)))
		if a.StatusCode != 200 {
			t.Fatalf("%s: %d %s", fault, a.StatusCode, a.Bytes)
		}
		usage := g.record(a.ID())["usage"]
		g.settled("gpt-x", "purse/tokens", before+number(within(usage, "input_tokens"))+number(within(usage, "output_tokens")))
		delivered := float64(strings.Count(string(a.Bytes), `"content":"`))
		if out := number(within(usage, "output_tokens")); delivered < 20 || out < delivered-2 || out > 2*delivered+10 {
			t.Errorf("%s: %v tokens are charged, %v were delivered", fault, out, delivered)
		}
	}
}
