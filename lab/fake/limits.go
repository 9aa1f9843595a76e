package fake

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// limits are the buckets of every credential seen.
type limits struct {
	mu    sync.Mutex
	byKey map[string]*account // bounded by forgetting all
}

// account is one credential's two buckets.
type account struct{ requests, tokens bucket }

// bucket refills evenly. Its level is of the time at.
type bucket struct {
	level float64
	at    time.Time
}

// refill brings the level to now; a new bucket is full.
func (b *bucket) refill(size int, window time.Duration, now time.Time) {
	if b.at.IsZero() {
		b.level = float64(size)
	} else {
		b.level = min(float64(size), b.level+float64(size)*float64(now.Sub(b.at))/float64(window))
	}
	b.at = now
}

// until is how long it takes to hold n.
func (b *bucket) until(n float64, size int, window time.Duration) time.Duration {
	return time.Duration(max(0, n-b.level) / float64(size) * float64(window))
}

// verdict is what the limit says about one request.
type verdict struct {
	wait             time.Duration // 0 means admitted
	byTokens         bool          // the tokens, not the requests, are what is short
	requests, tokens bucket
}

func (l *limits) take(key string, lim RateLimit, tokens int, now time.Time) verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil || len(l.byKey) > 1<<14 {
		l.byKey = map[string]*account{}
	}
	a := l.byKey[key]
	if a == nil {
		a = new(account)
		l.byKey[key] = a
	}
	window := lim.Window.Std()
	var v verdict
	if lim.Requests > 0 {
		a.requests.refill(lim.Requests, window, now)
		v.wait = a.requests.until(1, lim.Requests, window)
	}
	if lim.Tokens > 0 {
		a.tokens.refill(lim.Tokens, window, now)
		// A request larger than the bucket passes when it is full, or it never would.
		if w := a.tokens.until(float64(min(tokens, lim.Tokens)), lim.Tokens, window); w > v.wait {
			v.wait, v.byTokens = w, true
		}
	}
	if v.wait == 0 {
		a.requests.level--
		a.tokens.level = max(0, a.tokens.level-float64(tokens))
	}
	v.requests, v.tokens = a.requests, a.tokens
	return v
}

// limited enforces the rate limit and announces it. Asking for models is free.
func (c *call) limited() bool {
	lim := c.cfg.RateLimit
	if lim.Requests == 0 && lim.Tokens == 0 || c.r.Method == http.MethodGet {
		return false
	}
	key := c.r.Header.Get("Authorization") + "\n" + c.r.Header.Get("X-Api-Key")
	v := c.s.limits.take(key, lim, c.estimate(), time.Now())
	c.announce(lim, v)
	if v.wait == 0 {
		return false
	}
	if c.cfg.RetryAfter == 0 {
		c.retryAfter(v.wait)
	}
	what := "requests"
	if v.byTokens {
		what = "tokens"
	}
	c.fail(http.StatusTooManyRequests, "Rate limit reached for "+c.model+" on "+what+". Please try again in "+v.wait.Round(time.Millisecond).String()+".", "", "")
	return true
}

// announceSpent is the headers of a scripted 429: a limit of which nothing is left.
func (c *call) announceSpent() {
	lim := c.cfg.RateLimit
	if lim.Requests == 0 {
		lim.Requests = 60
	}
	c.announce(lim, verdict{})
}

// announce sets the limit headers of the dialect.
func (c *call) announce(lim RateLimit, v verdict) {
	for _, l := range []struct {
		name string
		size int
		b    bucket
	}{{"requests", lim.Requests, v.requests}, {"tokens", lim.Tokens, v.tokens}} {
		if l.size == 0 {
			continue
		}
		reset := l.b.until(float64(l.size), l.size, lim.Window.Std())
		left := strconv.Itoa(max(0, int(l.b.level)))
		h := c.w.Header()
		if c.dialect == anthropic {
			p := "anthropic-ratelimit-" + l.name
			h.Set(p+"-limit", strconv.Itoa(l.size))
			h.Set(p+"-remaining", left)
			h.Set(p+"-reset", time.Now().Add(reset).UTC().Truncate(time.Second).Add(time.Second).Format(time.RFC3339))
			continue
		}
		h.Set("x-ratelimit-limit-"+l.name, strconv.Itoa(l.size))
		h.Set("x-ratelimit-remaining-"+l.name, left)
		h.Set("x-ratelimit-reset-"+l.name, reset.Round(time.Millisecond).String())
	}
}
