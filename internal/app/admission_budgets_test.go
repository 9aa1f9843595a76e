package app_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/lab/fake"
)

// A thousand calls at once against money for a hundred: a hundred are let
// through, a hundred are charged, and not one more.
func TestParallelCallsAgainstABudget(t *testing.T) {
	ledgerYAML, path := ledgerAt(t)
	// An answer of 10 tokens costs 0.0001 USD.
	g := start(t, setup{More: ledgerYAML + `prices: [{model: "*", input: 0, output: 10}]
quota: {budgets: [{name: purse, per: [tenant], limit: {usd: 0.01}, period: none}]}
`})
	var passed atomic.Int64
	var wg sync.WaitGroup
	ready := make(chan struct{})
	for range 1000 {
		wg.Go(func() {
			<-ready
			a := g.send(g.request("POST", chatPath, strings.NewReader(chatOf("gpt-x", `,"max_tokens":10`))))
			switch {
			case a.Err != nil:
				t.Error(a.Err)
			case a.StatusCode == 200:
				passed.Add(1)
			case a.limited(t) != "insufficient_quota" || a.Header.Get("x-should-retry") != "false" || a.Header.Get("retry-after") != "":
				t.Errorf("%v %s", a.Header, a.Bytes)
			}
		})
	}
	close(ready)
	wg.Wait()
	if n := passed.Load(); n != 100 {
		t.Errorf("%d calls were let through, want 100", n)
	}
	if n := g.Fake.Stats().Requests; n != 100 {
		t.Errorf("%d calls have reached the provider, want 100", n)
	}
	if s := g.stands("gpt-x")["purse/money"]; s.Remaining != 0 || s.Limit != 0.01 {
		t.Errorf("the budget stands at %+v", s)
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	all, balances := entries(t, path)
	var cost int64
	for _, e := range all {
		cost += int64(e.Cost)
	}
	if len(all) != 100 || cost != 10_000_000 || len(balances) != 1 || balances[0].Used != cost {
		t.Errorf("%d entries of %d nano-dollars, balances %v", len(all), cost, balances)
	}
}

// A stream that comes to the end of a budget ends there as one that reached its
// bound on tokens, and its provider is cancelled.
func TestStreamStopsAtABudget(t *testing.T) {
	t.Parallel()
	const limit = 5000
	g := start(t, setup{More: fmt.Sprintf("ledger: {kind: memory}\nquota: {budgets: [{name: purse, per: [model], limit: {tokens: %d}, period: none}]}\n", limit)})
	for i, c := range []struct {
		more  string
		usage bool
	}{{"", false}, {`,"stream_options":{"include_usage":true}`, true}} {
		model := fmt.Sprintf("gpt-%d+tokens=20000+token-gap=200us", i)
		a := g.post(chatPath, chatOf(model, `,"stream":true`+c.more))
		events := dataOf(a)
		if err := complete(events); err != nil {
			t.Fatalf("%d %v: %.300s", a.StatusCode, err, a.Bytes)
		}
		finish, usage, delivered := "", any(nil), 0.0
		for _, e := range events {
			m := decode(t, e)
			if f, ok := within(m, "choices", 0, "finish_reason").(string); ok {
				finish = f
			}
			if text, _ := within(m, "choices", 0, "delta", "content").(string); text != "" {
				delivered++
			}
			if u := within(m, "usage"); u != nil {
				usage = u
			}
		}
		if finish != "length" || (usage != nil) != c.usage {
			t.Errorf("finish reason %q, usage %v", finish, usage)
		}
		used := g.used(model, "purse/tokens")
		if used > limit*1.02 || used < limit*0.9 || delivered > limit*1.02 || delivered < limit*0.5 {
			t.Errorf("%v tokens used, %v delivered, of %d", used, delivered, limit)
		}
		charged := number(within(g.record(a.ID()), "usage", "input_tokens")) + number(within(g.record(a.ID()), "usage", "output_tokens"))
		if total := within(usage, "total_tokens"); c.usage && total != charged || charged > limit*1.02 || min(charged, limit) != used {
			t.Errorf("the client is told of %v tokens, %v are charged, the budget stands at %v", total, charged, used)
		}
		g.await(func(s fake.Stats) bool { return s.StreamsCancelled == int64(i+1) })
		if a := g.post(chatPath, chatOf(model, "")); a.limited(t) != "insufficient_quota" {
			t.Errorf("afterwards: %s", a.Bytes)
		}
	}
}

// The same in the Anthropic dialect, where each call sets a bound: the provider
// here does not keep to it.
func TestMessagesStopAtABudget(t *testing.T) {
	t.Parallel()
	const limit = 500
	left := make(chan struct{})
	g := start(t, setup{
		More: fmt.Sprintf("ledger: {kind: memory}\nquota: {budgets: [{name: purse, limit: {tokens: %d}, period: none}]}\n", limit),
		Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			write := func(kind, rest string) bool {
				_, err := fmt.Fprintf(w, "event: %s\ndata: {\"type\":\"%s\"%s}\n\n", kind, kind, rest)
				return err == nil && http.NewResponseController(w).Flush() == nil
			}
			write("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":12,"output_tokens":1}}`)
			write("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
			for write("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"word"}`) && r.Context().Err() == nil {
				time.Sleep(100 * time.Microsecond)
			}
			close(left)
		}),
	})
	a := g.post(msgPath, chatOf("haiku", `,"max_tokens":100,"stream":true`))
	var kinds []string
	delivered, reason, output := 0, any(nil), any(nil)
	for _, e := range dataOf(a) {
		m := decode(t, e)
		kind, _ := within(m, "type").(string)
		switch kinds = append(kinds, kind); kind {
		case "content_block_delta":
			delivered++
		case "message_delta":
			reason, output = within(m, "delta", "stop_reason"), within(m, "usage", "output_tokens")
		}
	}
	if n := len(kinds); n < 5 || strings.Join(kinds[n-3:], " ") != "content_block_stop message_delta message_stop" || reason != "max_tokens" || output != float64(delivered) {
		t.Errorf("%d events end with %v, reason %v, %v tokens of %d delivered", n, kinds[max(0, n-3):], reason, output, delivered)
	}
	if used := g.used("haiku", "purse/tokens"); used > limit*1.02 || used < limit*0.9 || used != float64(delivered+12) {
		t.Errorf("%v tokens used, %d delivered", used, delivered)
	}
	select {
	case <-left:
	case <-time.After(5 * time.Second):
		t.Error("the provider was not cancelled")
	}
}

func dataOf(a answer) (all []string) {
	for line := range strings.SplitSeq(string(a.Bytes), "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			all = append(all, data)
		}
	}
	return all
}

func decode(t *testing.T, data string) map[string]any {
	if data == "[DONE]" {
		return nil
	}
	return answer{Bytes: []byte(data)}.JSON(t)
}

// A reload in the middle of the load grants no burst and loses no count,
// whatever it changes meanwhile.
func TestReloadUnderLoadForgetsNothing(t *testing.T) {
	yaml := func(burst, window int, algorithm string) string {
		return fmt.Sprintf(`ledger: {kind: memory}
journal: {log: {enabled: false}}
quota:
  rules:
    - {name: bucket, when: 'request.model == "gpt-b"', requests: {rate: 1/day, burst: %d, algorithm: %s}}
    - {name: window, when: 'request.model == "gpt-w"', requests: {rate: %d/day, algorithm: window}}
  budgets: [{name: purse, when: 'request.model == "gpt-m"', limit: {tokens: 9000}, period: none}]
`, burst, algorithm, window)
	}
	s := setup{More: yaml(300, 300, "gcra")}
	g := start(t, s)
	var passed [3]atomic.Int64
	var tokens atomic.Int64
	var wg sync.WaitGroup
	for i := range 9 {
		wg.Go(func() {
			model := []string{"gpt-b", "gpt-w", "gpt-m"}[i%3]
			for range 250 {
				a := g.send(g.request("POST", chatPath, strings.NewReader(chatOf(model, `,"max_tokens":20`))))
				if a.Err != nil || a.StatusCode != 200 && a.StatusCode != 429 {
					t.Errorf("%d %v %s", a.StatusCode, a.Err, a.Bytes)
				} else if a.StatusCode == 200 {
					passed[i%3].Add(1)
					tokens.Add(int64(number(within(a.JSON(t), "usage", "total_tokens"))) * int64(i%3/2))
				}
			}
		})
	}
	loading := make(chan struct{})
	go func() { wg.Wait(); close(loading) }()
	reloads := 0
	for again := true; again; reloads++ {
		other := setup{More: yaml(200+100*(reloads%2), 250+50*(reloads%2), []string{"bucket", "gcra"}[reloads/2%2])}
		if err := g.reload(other.document(g.UpstreamURL)); err != nil {
			t.Fatal(err)
		}
		select {
		case <-loading:
			again = false
		case <-time.After(5 * time.Millisecond):
		}
	}
	if err := g.reload(s.document(g.UpstreamURL)); err != nil {
		t.Fatal(err)
	}
	for g.post(chatPath, chatOf("gpt-b", "")).StatusCode == 200 {
		passed[0].Add(1)
	}
	for g.post(chatPath, chatOf("gpt-w", "")).StatusCode == 200 {
		passed[1].Add(1)
	}
	t.Logf("%d reloads", reloads)
	// A burst that is lowered is gone, once: what was left of the 300 at the first
	// of the reloads was cut to 200.
	if b, w := passed[0].Load(), passed[1].Load(); b < 200 || b > 300 || w != 300 || reloads < 5 {
		t.Errorf("%d passed a burst of 300 that was 200 for a while, %d a window of 300", b, w)
	}
	if used := g.used("gpt-m", "purse/tokens"); used != float64(tokens.Load()) || used > 9000 || used < 8000 {
		t.Errorf("%v tokens of the budget are used, %d were answered", used, tokens.Load())
	}
}

// What a budget has spent it has spent, after a restart, too.
func TestBudgetsOutlastARestart(t *testing.T) {
	t.Parallel()
	ledgerYAML, _ := ledgerAt(t)
	s := setup{More: ledgerYAML + `prices: [{model: "*", input: 1.5, output: 3}]
quota:
  budgets:
    - {name: month, per: [tenant, user], limit: {usd: 1, tokens: 5000}, period: month}
    - {name: once, per: [key], limit: {tokens: 3000}, period: none}
    - {name: minute, per: [model], limit: {tokens: 100000}, period: day, timezone: Asia/Tokyo}
`}
	var before map[string]stand
	for round := range 4 {
		g := start(t, s)
		for name, was := range before {
			if is := g.stands("gpt-x")[name]; math.Abs(is.Remaining-was.Remaining) > 1e-9 || is.Limit != was.Limit {
				t.Errorf("round %d: %s stood at %v and stands at %v", round, name, was, is)
			}
		}
		for range 3 {
			if a := g.post(chatPath, chatOf("gpt-x", `,"max_tokens":200`)); a.StatusCode != 200 {
				t.Errorf("round %d: %d %s", round, a.StatusCode, a.Bytes)
			}
		}
		before = g.stands("gpt-x")
		if s := before["once/tokens"]; s.Limit-s.Remaining <= float64(round)*50 || len(before) != 4 {
			t.Errorf("round %d: %v", round, before)
		}
		if err := g.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	g := start(t, s)
	if a := g.post(chatPath, chatOf("gpt-x", `,"max_tokens":2900`)); a.limited(t) != "insufficient_quota" || !strings.Contains(string(a.Bytes), `"once"`) {
		t.Errorf("%s", a.Bytes)
	}
}
