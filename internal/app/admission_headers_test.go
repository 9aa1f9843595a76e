package app_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Rates of which nothing comes back while a test runs.
const scarceYAML = `quota:
  rules:
    - name: calls
      per: [key]
      requests: {rate: 4/day, algorithm: window}
      tokens: {rate: 100000/day, algorithm: window}
`

// B10: every answer, refused or not, carries the dialect's own headers and the
// common ones, and they agree.
func TestLimitHeaders(t *testing.T) {
	t.Parallel()
	for _, d := range []struct{ path, body, limit, remaining, reset, kind string }{
		{chatPath, chatOf("chat", `,"max_tokens":50`), "x-ratelimit-limit-%s", "x-ratelimit-remaining-%s", "x-ratelimit-reset-%s", "rate_limit_error"},
		{msgPath, chatOf("haiku", `,"max_tokens":50`), "anthropic-ratelimit-%s-limit", "anthropic-ratelimit-%s-remaining", "anthropic-ratelimit-%s-reset", "rate_limit_error"},
	} {
		g := start(t, setup{More: scarceYAML})
		for i := range 6 {
			a := g.post(d.path, d.body)
			if want := 200; i >= 4 {
				want = 429
				if a.StatusCode != want || within(a.JSON(t), "error", "type") != d.kind {
					t.Errorf("call %d: %d %s", i, a.StatusCode, a.Bytes)
				}
			} else if a.StatusCode != want {
				t.Fatalf("call %d: %d %s", i, a.StatusCode, a.Bytes)
			}
			left := max(0, 3-int64(i))
			if l, r := a.number(t, fmt.Sprintf(d.limit, "requests")), a.number(t, fmt.Sprintf(d.remaining, "requests")); l != 4 || r != left {
				t.Errorf("call %d: %d of %d requests remain", i, r, l)
			}
			tokens := a.number(t, fmt.Sprintf(d.remaining, "tokens"))
			if l := a.number(t, fmt.Sprintf(d.limit, "tokens")); l != 100000 || tokens >= l || tokens < l-500 {
				t.Errorf("call %d: %d of %d tokens remain", i, tokens, l)
			}
			for _, unit := range []string{"requests", "tokens"} {
				if in := resetIn(t, a.Header.Get(fmt.Sprintf(d.reset, unit)), d.path); in <= 0 || in > 25*time.Hour {
					t.Errorf("call %d: the %s are back in %s", i, unit, in)
				}
			}
			if l, r, at := a.number(t, "x-ratelimit-limit"), a.number(t, "x-ratelimit-remaining"), a.number(t, "x-ratelimit-reset"); l != 4 || r != left || at < time.Now().Unix() {
				t.Errorf("call %d: %d of %d until %d", i, r, l, at)
			}
			// draft-ietf-httpapi-ratelimit-headers-10: an item a policy, each by its
			// own name.
			if s, p := a.Header.Get("ratelimit"), a.Header.Get("ratelimit-policy"); !strings.Contains(s, fmt.Sprintf(`"calls";r=%d;t=`, left)) ||
				!strings.Contains(s, fmt.Sprintf(`"calls/tokens";r=%d;t=`, tokens)) || p != `"calls";q=4;w=86400, "calls/tokens";q=100000;qu="tokens";w=86400` {
				t.Errorf("call %d: RateLimit: %s; RateLimit-Policy: %s", i, s, p)
			}
		}
		if n := g.Fake.Stats().Requests; n != 4 {
			t.Errorf("%d calls have reached the provider, want 4", n)
		}
	}
}

// resetIn reads a time to reset in a path's dialect.
func resetIn(t *testing.T, text, path string) time.Duration {
	t.Helper()
	if path == msgPath {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Error(err)
		}
		return time.Until(at)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Error(err)
	}
	return d
}

// B10: of 6400 calls at once exactly as many are let through as the limit says,
// and each of them is told another number of those that remain.
func TestRemainingUnderLoad(t *testing.T) {
	const limit, clients, each = 3000, 64, 100
	g := start(t, setup{More: fmt.Sprintf("quota: {rules: [{name: calls, per: [key], requests: {rate: %d/day, algorithm: window}}]}\njournal: {log: {enabled: false}}\n", limit)})
	told := make([][]int64, clients)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			last := int64(limit)
			for range each {
				a := g.send(g.request("POST", chatPath, strings.NewReader(chatBody)))
				if a.Err != nil || a.StatusCode != 200 && a.StatusCode != 429 {
					t.Errorf("%d %v %.200s", a.StatusCode, a.Err, a.Bytes)
					return
				}
				left, l := a.number(t, "x-ratelimit-remaining-requests"), a.number(t, "x-ratelimit-limit")
				if left < 0 || left > last || l != limit || a.Header.Get("x-ratelimit-reset") == "" {
					t.Errorf("%d of %d remain, and %d did before", left, l, last)
				}
				if last = left; a.StatusCode == 200 {
					told[i] = append(told[i], left)
				} else if left != 0 {
					t.Errorf("refused with %d remaining", left)
				}
			}
		})
	}
	wg.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(told...)))
	if len(all) != limit || all[0] != 0 || all[limit-1] != limit-1 || len(slices.Compact(all)) != limit {
		t.Errorf("%d calls of %d were let through", len(all), limit)
	}
	if n := g.Fake.Stats().Requests; n != limit {
		t.Errorf("%d calls have reached the provider, want %d", n, limit)
	}
}

// B12: a client that waits as long as it is told, and no longer, gets in.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"gcra", "bucket", "window", "fixed"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			g := start(t, setup{More: "quota: {rules: [{name: calls, per: [key], requests: {rate: 4/s, burst: 1, algorithm: " + algorithm + "}}]}\n"})
			waited, wrong := 0, 0
			for end := time.Now().Add(20 * time.Second); waited < 12 && time.Now().Before(end); {
				a := g.post(chatPath, chatBody)
				if a.StatusCode == 200 {
					continue
				}
				a.limited(t)
				ms, s := a.number(t, "retry-after-ms"), a.number(t, "retry-after")
				if ms <= 0 || s != (ms+999)/1000 || a.Header.Get("x-should-retry") != "" {
					t.Errorf("Retry-After: %d, in milliseconds %d", s, ms)
				}
				if details := within(a.JSON(t), "error", "details", "retry_after_ms"); details != float64(ms) && details != float64(ms-1) {
					t.Errorf("the details say %v ms, the header %d", details, ms)
				}
				time.Sleep(time.Duration(ms) * time.Millisecond)
				if waited++; g.post(chatPath, chatBody).StatusCode != 200 {
					wrong++
				}
			}
			if waited < 12 || wrong > 0 {
				t.Errorf("%d of %d that waited were refused again", wrong, waited)
			}
		})
	}
}

// B11: the status says what the next call will find, and takes nothing.
func TestLimitStatus(t *testing.T) {
	t.Parallel()
	ledgerYAML, _ := ledgerAt(t)
	g := start(t, setup{More: ledgerYAML + `quota:
  rules:
    - {name: calls, per: [key, provider], requests: {rate: 10/day, algorithm: window}, tokens: {rate: 5000/day, algorithm: window}}
    - {name: gpt, when: request.model == "gpt-4", requests: {rate: 5/day, algorithm: window}}
  budgets:
    - {name: month, per: [tenant], limit: {tokens: 9000}, period: none}
`})
	if got := g.stands("chat"); len(got) != 3 || got["gpt/requests"].Limit != 0 {
		t.Errorf("the status of chat shows %v", got)
	}
	g.post(chatPath, chatOf("gpt-4", `,"max_tokens":20`))
	before := g.stands("gpt-4")
	for range 100 {
		if got := g.stands("gpt-4"); got["calls/requests"].Remaining != 9 || got["gpt/requests"].Remaining != 4 ||
			got["calls/tokens"].Remaining != before["calls/tokens"].Remaining || got["month/tokens"].Remaining != before["month/tokens"].Remaining {
			t.Fatalf("a look has changed %v to %v", before, got)
		}
	}
	// However the model is spelled, the limits are the same.
	if got := g.stands("openai/gpt-4"); got["gpt/requests"].Remaining != 4 || got["calls/requests"].Remaining != 9 {
		t.Errorf("of openai/gpt-4: %v", got)
	}
	a := g.post(chatPath, chatOf("gpt-4", `,"max_tokens":20`))
	after := g.stands("gpt-4")
	if l, r := a.number(t, "x-ratelimit-limit-requests"), a.number(t, "x-ratelimit-remaining-requests"); l != 5 || r != 4-1 || after["gpt/requests"].Remaining != float64(r) {
		t.Errorf("the call found %d of %d, after it there are %v", r, l, after["gpt/requests"].Remaining)
	}
	if got := before["calls/tokens"].Remaining - after["calls/tokens"].Remaining; got != tokensOf(t, a) {
		t.Errorf("%v tokens were taken for %v", got, tokensOf(t, a))
	}
	if s := after["month/tokens"]; !s.Budget || s.Limit-s.Remaining != 2*tokensOf(t, a) {
		t.Errorf("the budget stands at %+v after two calls of %v", s, tokensOf(t, a))
	}
	if n := g.Fake.Stats().Requests; n != 2 {
		t.Errorf("%d calls have reached the provider, want 2", n)
	}
}
