package allowance

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// header makes a header of "Name: value" lines.
func header(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

func TestRead(t *testing.T) {
	in := func(d time.Duration) time.Time { return now.Add(d) }
	for name, c := range map[string]struct {
		status int
		header http.Header
		want   map[Unit]Limit
		retry  time.Time
	}{
		"OpenAI": {
			header: header("x-ratelimit-limit-requests: 10000", "x-ratelimit-remaining-requests: 9999", "x-ratelimit-reset-requests: 8.64s",
				"x-ratelimit-limit-tokens: 2000000", "x-ratelimit-remaining-tokens: 1999900", "x-ratelimit-reset-tokens: 6m0s"),
			want: map[Unit]Limit{Requests: {10000, 9999, in(8640 * time.Millisecond)}, Tokens: {2_000_000, 1_999_900, in(6 * time.Minute)}},
		},
		"Anthropic": {
			header: header("anthropic-ratelimit-requests-limit: 50", "anthropic-ratelimit-requests-remaining: 0", "anthropic-ratelimit-requests-reset: 2026-11-30T12:00:59Z",
				"anthropic-ratelimit-input-tokens-limit: 40000", "anthropic-ratelimit-input-tokens-remaining: 39000", "anthropic-ratelimit-input-tokens-reset: 2026-11-30T13:00:01+01:00",
				"anthropic-ratelimit-output-tokens-limit: 8000", "anthropic-ratelimit-output-tokens-remaining: 8000", "anthropic-ratelimit-output-tokens-reset: 2026-11-30T11:59:00Z"),
			want: map[Unit]Limit{Requests: {50, 0, in(59 * time.Second)}, InputTokens: {40000, 39000, in(time.Second)}, OutputTokens: {8000, 8000, now}},
		},
		"seconds, from now and since 1970": {
			header: header("x-ratelimit-limit-requests: 6", "x-ratelimit-reset-requests: 10", "x-ratelimit-reset-tokens: 1796040005"),
			want:   map[Unit]Limit{Requests: {6, Unknown, in(10 * time.Second)}, Tokens: {Unknown, Unknown, in(5 * time.Second)}},
		},
		"the IETF's, of which the tightest counts": {
			header: header(`RateLimit-Policy: "day";q=1000;w=86400, "minute";q=100;w=60;pk=:Zm9v:, "a,b;c\"";q=90000;w=60;qu="tokens", "size";q=5;qu="content-bytes"`,
				`RateLimit: "minute";r=50;t=23, "day";r=600;t=7000 , "a,b;c\"" ; t=1 ; r=45000, "size";r=1`),
			want: map[Unit]Limit{Requests: {100, 50, in(23 * time.Second)}, Tokens: {90000, 45000, in(time.Second)}},
		},
		"the IETF's without a policy": {header: header(`RateLimit: "x";r=3`), want: map[Unit]Limit{Requests: {Unknown, 3, time.Time{}}}},
		"the vendor's before the IETF's": {
			header: header("x-ratelimit-limit-requests: 6", "x-ratelimit-remaining-requests: 5", `RateLimit: "x";r=3;t=1`),
			want:   map[Unit]Limit{Requests: {6, 5, time.Time{}}},
		},
		"a refusal":                     {status: 429, header: header("retry-after: 3", "retry-after-ms: 2500"), retry: in(2500 * time.Millisecond)},
		"a refusal until a date":        {status: 503, header: header("retry-after: Mon, 30 Nov 2026 12:01:00 GMT"), retry: in(time.Minute)},
		"retry-after of a good answer":  {status: 200, header: header("retry-after: 3")},
		"nothing":                       {status: 429, header: header("content-type: application/json")},
		"limits of other things":        {header: header("x-ratelimit-limit-project-tokens: 5", "x-ratelimit-limit: 5", "anthropic-ratelimit-unified-status: allowed", "anthropic-ratelimit-x: 1")},
		"what is no number and no time": {header: header("x-ratelimit-limit-requests: many", "x-ratelimit-remaining-requests: ", "x-ratelimit-reset-requests: soon", "x-ratelimit-reset-tokens: NaN")},
		"times that cannot be":          {header: header("x-ratelimit-reset-requests: -5s", "x-ratelimit-reset-tokens: 9000h", "anthropic-ratelimit-tokens-reset: 2040-01-01T00:00:00Z")},
		"more taken than there was":     {header: header("x-ratelimit-remaining-tokens: -12"), want: map[Unit]Limit{Tokens: {Unknown, 0, time.Time{}}}},
	} {
		got, told := Read(c.status, c.header, now)
		want := Nothing()
		for u, l := range c.want {
			want.Limits[u] = l
		}
		want.Retry = c.retry
		for u := range got.Limits {
			if g, w := got.Limits[u], want.Limits[u]; g.Max != w.Max || g.Remaining != w.Remaining || !g.Reset.Equal(w.Reset) {
				t.Errorf("%s: %s: %v, want %v", name, Unit(u), g, w)
			}
		}
		if !got.Retry.Equal(want.Retry) || told != (len(c.want) > 0 || !c.retry.IsZero()) {
			t.Errorf("%s: retry %v, told %v", name, got.Retry, told)
		}
	}
}

// A limit is whole again once its time has come, and what a later answer leaves
// out stays as it was told.
func TestLater(t *testing.T) {
	kept, _ := Read(200, header("x-ratelimit-limit-requests: 6", "x-ratelimit-remaining-requests: 1", "x-ratelimit-reset-requests: 10s"), now)
	refused, _ := Read(429, header("retry-after: 2", "x-ratelimit-remaining-tokens: 0"), now)
	kept.Add(&refused)
	if l := kept.Limits[Requests]; l.At(now.Add(9*time.Second)).Remaining != 1 || l.At(now.Add(10*time.Second)).Remaining != 6 {
		t.Errorf("requests: %+v", l)
	}
	if l := kept.Limits[Tokens]; l.At(now.Add(time.Hour)).Remaining != 0 || !l.Tighter(kept.Limits[Requests]) || kept.Retry.IsZero() {
		t.Errorf("tokens: %+v, %v", l, kept.Retry)
	}
}

// Headers are read for each answer.
func TestReadAllocatesNothing(t *testing.T) {
	for _, h := range []http.Header{
		header("x-ratelimit-limit-requests: 10000", "x-ratelimit-remaining-requests: 9999", "x-ratelimit-reset-requests: 8.64s", "content-type: a"),
		header("anthropic-ratelimit-tokens-limit: 50", "anthropic-ratelimit-tokens-remaining: 0", "anthropic-ratelimit-tokens-reset: 2026-11-30T12:00:59Z"),
		header(`RateLimit-Policy: "minute";q=100;w=60`, `RateLimit: "minute";r=50;t=23`),
	} {
		if n := testing.AllocsPerRun(100, func() { Read(200, h, now) }); n > 0 {
			t.Errorf("%v: %v allocations", h, n)
		}
	}
}

// Whatever a provider sends, amounts are none below zero and times within a
// year, and a vendor's own header says the same in another's place.
func FuzzRead(f *testing.F) {
	f.Add(200, "10", "6m0s", `"a";r=5;t=1, "b";r=1`, `"a";q=7;qu="tokens"`)
	f.Add(429, "-1", "2026-11-30T12:00:59Z", `"a\"`, `;;=,`)
	f.Add(503, "9223372036854775808", "1e400", `a;r=1;r=2`, `a;q="x"`)
	f.Fuzz(func(t *testing.T, status int, amount, when, list, policy string) {
		h := http.Header{"Ratelimit": {list}, "Ratelimit-Policy": {policy}, "Retry-After": {when}}
		for _, name := range []string{"X-Ratelimit-%-Requests", "Anthropic-Ratelimit-Input-Tokens-%"} {
			for field, value := range map[string]string{"Limit": amount, "Remaining": amount, "Reset": when} {
				h[strings.Replace(name, "%", field, 1)] = []string{value}
			}
		}
		r, _ := Read(status, h, now)
		within := func(at time.Time) bool {
			return at.IsZero() || !at.Before(now) && !at.After(now.Add(longest+time.Microsecond))
		}
		for u, l := range r.Limits {
			if l.Max < Unknown || l.Remaining < Unknown || !within(l.Reset) || l.At(now).Tighter(l.At(now)) {
				t.Errorf("%s: %+v", Unit(u), l)
			}
		}
		if !within(r.Retry) {
			t.Errorf("retry at %v", r.Retry)
		}
		if a, b := r.Limits[Requests], r.Limits[InputTokens]; b.Known() && a != b {
			t.Errorf("as OpenAI says it %+v, as Anthropic does %+v", a, b)
		}
	})
}
