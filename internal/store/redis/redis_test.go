package redis

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/quota"
)

// seedScript is the script that the feature was first described with.
const seedScript = `local tokens = redis.call('get', KEYS[1]) or ARGV[1]
local now = tonumber(ARGV[2])
local last = tonumber(redis.call('hget', KEYS[1], 'last')) or now
local delta = math.min(tokens + (now-last)*tonumber(ARGV[3]), tonumber(ARGV[1]))
if delta >= 1 then
  redis.call('hset', KEYS[1], 'last', now)
  redis.call('hincrbyfloat', KEYS[1], 'tokens', -1)
  return 1
else
  return 0
end`

// The seed's script reads a string where it wrote a hash: it fails from its second
// run on. It also never stores what came back, and its keys live for ever.
func TestSeedScript(t *testing.T) {
	s := start(t)
	run := func() error {
		_, err := s.try(t, "EVAL", seedScript, "1", "key", "10", "1000", "1")
		return err
	}
	if err := run(); err != nil {
		t.Fatal("the first run: ", err)
	}
	if err := run(); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("the second run: %v, want WRONGTYPE", err)
	}
	if ttl := s.keys(t)["key"]; ttl >= 0 {
		t.Errorf("its key expires in %v", ttl)
	}
}

// Two gateways with one Redis let through what one would.
func TestTwoGateways(t *testing.T) {
	timed(t)
	for _, c := range []struct {
		algorithm, rate string
		burst           float64
	}{
		// A burst of five seconds, so that a busy machine loses nothing.
		{"gcra", "400/s", 2000},
		{"bucket", "400/s", 2000},
		{"window", "700/min", 700},
		{"fixed", "500/h", 500},
	} {
		t.Run(c.algorithm, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			cfg := requests(t, c.rate, int64(c.burst), c.algorithm)
			gs := []*gateway{join(t, s.url(), patient(), cfg), join(t, s.url(), patient(), cfg)}
			began := time.Now()
			got := float64(flood(t, gs, 4, 500*time.Microsecond, 5*time.Second, true))
			want, least := c.burst, c.burst
			if c.algorithm == "gcra" || c.algorithm == "bucket" {
				want, least = 400*time.Since(began).Seconds()+c.burst, 400*5+c.burst
			}
			t.Logf("%s: %v let through, %.0f allowed", c.algorithm, got, want)
			if got > want*1.01 || got < least*0.99-1 {
				t.Errorf("%v let through, want %v", got, want)
			}
			for name, ttl := range s.keys(t) {
				if ttl <= 0 || !strings.HasPrefix(name, "hg:{") {
					t.Errorf("key %q expires in %v", name, ttl)
				}
			}
		})
	}
}

// While there is plenty, Redis is asked once for a hundred calls, however many
// rules there are.
func TestRoundTrips(t *testing.T) {
	timed(t)
	s := start(t)
	c := requests(t, "1000000/s", 1000000, "gcra")
	c.Rules = append(c.Rules, quota.RuleConfig{Name: "all", Requests: quota.RateConfig{Rate: rate(t, "10000000/min"), Algorithm: "window"}, Concurrent: 100000})
	g := join(t, s.url(), patient(), c)
	const calls = 20_000
	before, begun := s.calls(t), time.Now()
	for range calls {
		h, err := g.reserve(key("a"), quota.Demand{})
		if err != nil {
			t.Fatal(err)
		}
		h.Settle(quota.Settlement{}, time.Now())
	}
	// Beats, five a second, are not for calls.
	trips := s.calls(t) - before - int64(time.Since(begun)/(200*time.Millisecond)) - 1
	t.Logf("%d round trips for %d calls", trips, calls)
	if trips > calls/100 {
		t.Errorf("%d round trips for %d calls, want at most one for a hundred", trips, calls)
	}
}

// A limit that is kept in another way after a change of the configuration goes on.
func TestAlgorithmChanges(t *testing.T) {
	s := start(t)
	for _, algorithm := range []string{"gcra", "window", "fixed", "bucket", ""} {
		c := requests(t, "10/day", 10, algorithm)
		if algorithm == "" {
			c.Rules[0].Requests, c.Rules[0].Concurrent = quota.RateConfig{}, 10
		}
		g := join(t, s.url(), patient(), c)
		n := 0
		for range 20 {
			if _, err := g.reserve(key("a"), quota.Demand{}); err == nil {
				n++
			}
		}
		// gcra and bucket are one count.
		if want := 10; n != want && !(algorithm == "bucket" && n == 0) {
			t.Errorf("%s: %d let through, want %d", algorithm, n, want)
		}
		if st, _ := g.room.Shared(); st.Outages > 0 {
			t.Errorf("%s: %+v", algorithm, st)
		}
	}
}

// BenchmarkReserve is a call of three limits with Redis behind them, lease by
// lease.
func BenchmarkReserve(b *testing.B) {
	s := start(b)
	c := requests(b, "100000000/s", 0, "gcra")
	c.Rules = append(c.Rules, quota.RuleConfig{Name: "all", Requests: quota.RateConfig{Rate: rate(b, "1000000000/s"), Algorithm: "window"}, Concurrent: 1 << 30})
	g := join(b, s.url(), patient(), c)
	who := key("a")
	b.ReportAllocs()
	for b.Loop() {
		h, err := g.reserve(who, quota.Demand{})
		if err != nil {
			b.Fatal(err)
		}
		h.Settle(quota.Settlement{}, time.Now())
	}
}
