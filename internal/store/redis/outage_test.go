package redis

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/setting"
	"github.com/headgate-ai/headgate/lab/chaos"
)

// through starts a proxy before the server.
func through(t testing.TB, s *server) (*chaos.Proxy, string) {
	t.Helper()
	p, err := chaos.New(s.address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, "redis://" + p.Address() + "/0"
}

// impatient is the configuration as it is by default.
func impatient() quota.StoreConfig {
	return quota.StoreConfig{Kind: quota.StoreRedis, Lease: 100, Timeout: setting.Duration(50 * time.Millisecond)}
}

// run is what gateways decided in a time.
type run struct {
	mu       sync.Mutex
	admitted []time.Time
	took     []time.Duration
	errors   map[fault.Kind]int
}

// watch floods gateways until it is stopped, and notes every decision.
func watch(gs []*gateway) (r *run, stop func()) {
	r = &run{errors: map[fault.Kind]int{}}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for _, g := range gs {
		for range 4 {
			wg.Go(func() {
				for {
					select {
					case <-done:
						return
					case <-time.After(2 * time.Millisecond):
					}
					begun := time.Now()
					h, err := g.reserve(key("a"), quota.Demand{})
					r.note(begun, err)
					if err == nil {
						h.Settle(quota.Settlement{}, time.Now())
					}
				}
			})
		}
	}
	return r, sync.OnceFunc(func() { close(done); wg.Wait() })
}

func (r *run) note(begun time.Time, err error) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took = append(r.took, now.Sub(begun))
	if err == nil {
		r.admitted = append(r.admitted, now)
	} else {
		r.errors[fault.KindOf(err)]++
	}
}

// between counts what was let through in a time.
func (r *run) between(from, to time.Time) (n float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return between(r.admitted, from, to)
}

func between(all []time.Time, from, to time.Time) (n float64) {
	for _, at := range all {
		if at.After(from) && !at.After(to) {
			n++
		}
	}
	return n
}

func (r *run) p99() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.took)
	return r.took[len(r.took)*99/100]
}

// While Redis is slow or gone, two gateways together keep to the limit, decide
// fast, and grant no burst when it is back.
func TestOutage(t *testing.T) {
	timed(t)
	for name, f := range map[string]chaos.Fault{
		"slow":      {Latency: 2400 * time.Millisecond, Jitter: 100 * time.Millisecond},
		"silent":    {Drop: true},
		"half open": {HalfOpen: true},
		"refuses":   {Refuse: true},
		"narrow":    {Bandwidth: 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outage(t, f)
		})
	}
}

func outage(t *testing.T, f chaos.Fault) {
	const perSecond, burst = 200, 200
	s := start(t)
	cfg := requests(t, "200/s", burst, "gcra")
	var gs []*gateway
	var proxies []*chaos.Proxy
	for range 2 {
		p, url := through(t, s)
		proxies = append(proxies, p)
		gs = append(gs, join(t, url, impatient(), cfg))
	}
	time.Sleep(time.Second) // until they know of each other
	r, stop := watch(gs)
	defer stop()
	begun := time.Now()
	time.Sleep(3 * time.Second)
	for _, p := range proxies {
		p.Set(f)
	}
	broken := time.Now()
	time.Sleep(6 * time.Second)
	for _, p := range proxies {
		p.Set(chaos.Fault{})
	}
	mended := time.Now()
	time.Sleep(4 * time.Second)
	end := time.Now()
	stop()
	during := r.between(broken, mended) / mended.Sub(broken).Seconds()
	after := r.between(mended, end) - end.Sub(mended).Seconds()*perSecond
	all := r.between(begun, end) - end.Sub(begun).Seconds()*perSecond - burst
	t.Logf("%.0f/s during the fault, %+.0f after it, %+.0f in all; p99 %v, %v refused", during, after, all, r.p99(), r.errors)
	if during < perSecond*0.9 || during > perSecond*1.1 {
		t.Errorf("%.0f a second let through during the fault, the limit is %d", during, perSecond)
	}
	if after > perSecond/5 {
		t.Errorf("a burst of %.0f on recovery", after)
	}
	if most := 2.0 * burst / 8; all > most {
		t.Errorf("%.0f too many in all, two leases are %.0f", all, most)
	}
	if r.p99() >= 60*time.Millisecond {
		t.Errorf("p99 of decisions is %v", r.p99())
	}
	for i, g := range gs {
		if st, _ := g.room.Shared(); st.Down || st.Outages == 0 || st.Local == 0 {
			t.Errorf("gateway %d: %+v", i, st)
		}
	}
}

// Without a fallback every decision takes as long as Redis does.
func TestBeforeArm(t *testing.T) {
	t.Parallel()
	s := start(t)
	p, url := through(t, s)
	g := join(t, url, quota.StoreConfig{Kind: quota.StoreRedis, Lease: 1, Timeout: setting.Duration(10 * time.Second)}, requests(t, "1000/s", 1000, "gcra"))
	p.Set(chaos.Fault{Latency: 2400 * time.Millisecond})
	begun := time.Now()
	if _, err := g.reserve(key("a"), quota.Demand{}); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begun); d < 2400*time.Millisecond {
		t.Errorf("decided in %v while Redis takes 2.4 s", d)
	}
}

// held is what Redis counts as held in the keys that have a word in their names.
func (s *server) held(t testing.TB, word string) (n int64) {
	t.Helper()
	for name := range s.keys(t) {
		if !strings.Contains(name, word) {
			continue
		}
		m := s.do(t, "HGETALL", name)
		fields, err := m.AsStrMap()
		if err != nil {
			t.Fatal(err)
		}
		for field, v := range fields {
			if amount, err := strconv.ParseInt(v, 10, 64); err == nil && strings.HasPrefix(field, "l:") {
				n += amount
			}
		}
	}
	return n
}

// The policies for an outage, and a Redis that was never there.
func TestPolicies(t *testing.T) {
	cfg := requests(t, "10/s", 10, "gcra")
	for policy, want := range map[string]int{"local-share": 10, "strict": 0, "open": 50} {
		store := impatient()
		store.OnOutage = policy
		g := join(t, "redis://127.0.0.1:1/0", store, cfg)
		n := 0
		for range 50 {
			_, err := g.reserve(key("a"), quota.Demand{})
			if err == nil {
				n++
				continue
			}
			f, ok := errors.AsType[*fault.Error](err)
			if !ok || f.RetryAfter <= 0 || (f.Kind == fault.Overloaded) != (policy == "strict") {
				t.Fatalf("%s: %v", policy, err)
			}
		}
		if n < want || n > want+1 {
			t.Errorf("%s: %d of 50 let through, want %d", policy, n, want)
		}
	}
}

// A Redis that starts anew has lost all counts and the script. Gateways go on, and
// tell it again what they hold.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := start(t)
	cfg := requests(t, "100/s", 100, "gcra")
	cfg.Rules[0].Concurrent = 5
	cfg.Budgets = []quota.BudgetConfig{{Name: "b", Per: []string{"tenant"}, Limit: quota.AmountConfig{Tokens: 1000}, Period: "day"}}
	a, b := join(t, s.url(), impatient(), cfg), join(t, s.url(), impatient(), cfg)
	for range 5 {
		if _, err := a.reserve(key("a"), quota.Demand{Input: 100, Output: 100}); err != nil {
			t.Fatal(err)
		}
	}
	s.down(t)
	if _, err := a.reserve(key("a"), quota.Demand{Input: 1, Output: 1}); err == nil {
		t.Error("a sixth call of five without Redis")
	}
	s.up(t)
	deadline := time.Now().Add(10 * time.Second)
	for _, g := range []*gateway{a, b} {
		for st, _ := g.room.Shared(); st.Down; st, _ = g.room.Shared() {
			if time.Now().After(deadline) {
				t.Fatal("Redis is back and not used")
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	time.Sleep(2500 * time.Millisecond)
	if got := s.held(t, "tokens"); got != 1000 {
		t.Errorf("Redis counts %d tokens held, 1000 are", got)
	}
	if _, err := b.reserve(key("a"), quota.Demand{Input: 1, Output: 1}); err == nil {
		t.Error("five places are taken by the other gateway, and a sixth was given away")
	}
}
