package quota

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate-ai/headgate/internal/setting"
)

func overridable(t testing.TB) Config {
	return Config{
		Rules: []RuleConfig{
			{Name: "one", Per: []string{"key"}, Requests: RateConfig{Rate: rate(t, "10/s"), Burst: 10}},
			{Name: "two", Requests: RateConfig{Rate: rate(t, "1000/s")}, Tokens: TokensConfig{RateConfig: RateConfig{Rate: rate(t, "1000000/s")}}, Concurrent: 100},
		},
		Budgets: []BudgetConfig{{Name: "purse", Limit: AmountConfig{Tokens: 1e12}, Period: "month"}},
	}
}

// admitted counts how many of n calls get in, all at one time.
func admitted(r *Room, p *Plan, key string, n int, now time.Time) (in int) {
	for range n {
		h, err := r.Reserve(p, by(key), Demand{Input: 1, Output: 1}, now)
		if err == nil {
			in++
		}
		h.Settle(Settlement{}, now)
	}
	return in
}

func TestOverride(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New()
		p := compile(t, r, overridable(t))
		if n := admitted(r, p, "a", 100, time.Now()); n != 10 {
			t.Fatalf("%d of a burst of 10", n)
		}
		// A larger bound grants nothing anew: the ten are still used.
		was, is, err := r.Override(p, Override{Rule: "one", Rate: rate(t, "20/s"), Burst: 12}, time.Now())
		if err != nil || was.Burst != 10 || was.Rate.String() != "10/s" || is.Dimension != "requests" {
			t.Fatal(was, is, err)
		}
		if n := admitted(r, p, "a", 100, time.Now()); n > 2 {
			t.Errorf("%d at once after the burst was raised by two", n)
		}
		time.Sleep(time.Second)
		if n := admitted(r, p, "a", 100, time.Now()); n != 12 {
			t.Errorf("%d after a second; the burst is 12", n)
		}
		// It outlasts a reload, and a new subject has its burst.
		p = compile(t, r, overridable(t))
		if n := admitted(r, p, "b", 100, time.Now()); n != 12 {
			t.Errorf("%d after a reload; the burst is 12", n)
		}
		if l := level(r, p, "one"); l.Burst != 12 || l.Rate.String() != "20/s" || !l.Overridden || l.Capacity != 24 {
			t.Errorf("%+v", l)
		}
		if ended := r.Withdraw("one", "", nil, time.Now()); len(ended) != 1 || ended[0].Burst != 12 {
			t.Errorf("withdrew %v", ended)
		}
		if ended := r.Withdraw("one", "", nil, time.Now()); len(ended) != 0 {
			t.Errorf("withdrew %v twice", ended)
		}
		time.Sleep(500 * time.Millisecond)
		if n := admitted(r, p, "b", 100, time.Now()); n != 5 && n != 3 && n != 4 {
			t.Errorf("%d half a second after it was withdrawn, at 10/s from empty", n)
		}
		if l := level(r, p, "one"); l.Burst != 10 || l.Overridden {
			t.Errorf("%+v", l)
		}
	})
}

func level(r *Room, p *Plan, rule string) Level {
	for _, l := range r.Levels(p, time.Now()) {
		if l.Rule == rule {
			return l
		}
	}
	return Level{}
}

// At its time an override ends by itself, and what came back until then came
// back at its rate.
func TestOverrideEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New()
		p := compile(t, r, overridable(t))
		admitted(r, p, "a", 10, time.Now())
		if _, _, err := r.Override(p, Override{Rule: "one", Rate: rate(t, "1/s"), Burst: 10, Until: time.Now().Add(2 * time.Second)}, time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
		if n := admitted(r, p, "a", 100, time.Now()); n != 1 || len(r.Overrides(time.Now())) != 1 {
			t.Errorf("%d in 1.5 s at 1/s", n)
		}
		time.Sleep(time.Second) // half of it at 1/s, half at 10/s
		n := admitted(r, p, "a", 100, time.Now())
		if n < 5 || n > 6 || len(r.Overrides(time.Now())) != 0 {
			t.Errorf("%d, want 0.5 + 0.5 + 5", n)
		}
	})
}

func TestOverrideMistakes(t *testing.T) {
	r := New()
	now := time.Now()
	p := compile(t, r, overridable(t))
	for _, c := range []struct {
		o    Override
		want string
	}{
		{Override{Rule: "none", Rate: rate(t, "1/s")}, `there is no rule "none"; known rules are one, two`},
		{Override{Rule: "purse", Rate: rate(t, "1/s")}, `no rule "purse"`},
		{Override{Rule: credentialRate, Rate: rate(t, "1/s")}, "no rule"},
		{Override{Rule: "one", Dimension: "tokens", Rate: rate(t, "1/s")}, `does not limit "tokens"; it limits requests`},
		{Override{Rule: "two", Rate: rate(t, "1/s")}, "name one of them"},
		{Override{Rule: "one"}, "rate is missing"},
		{Override{Rule: "one", Burst: 5}, "rate is missing"},
		{Override{Rule: "one", Rate: rate(t, "1/s"), Burst: -1}, "burst -1"},
		{Override{Rule: "one", Rate: rate(t, "1/day"), Burst: 1e9}, "nine years"},
		{Override{Rule: "one", Rate: rate(t, "1/s"), Until: now}, "would have ended"},
		{Override{Rule: "two", Dimension: "concurrent"}, "only the burst"},
		{Override{Rule: "two", Dimension: "concurrent", Burst: 3, Rate: rate(t, "1/s")}, "only the burst"},
	} {
		if _, _, err := r.Override(p, c.o, now); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
	if _, _, err := r.Override(compile(t, r, Config{}), Override{Rule: "one", Rate: rate(t, "1/s")}, now); err == nil || !strings.Contains(err.Error(), "has no rules") {
		t.Error(err)
	}
	if all := r.Overrides(now); len(all) != 0 {
		t.Errorf("a refused override holds: %v", all)
	}
	if _, is, err := r.Override(p, Override{Rule: "two", Dimension: "concurrent", Burst: 3}, now); err != nil || is.Burst != 3 {
		t.Error(err)
	}
	// A time far away is no time in the past.
	if _, _, err := r.Override(p, Override{Rule: "one", Rate: rate(t, "1/s"), Until: now.AddDate(5000, 0, 0)}, now); err != nil || len(r.Overrides(now)) != 2 {
		t.Error(err, r.Overrides(now))
	}
}

// A hundred changes a second grant no burst: whatever the bounds are in turn,
// no more gets in than the fastest rate and the largest burst let through.
func TestOverrideHistory(t *testing.T) {
	for _, algorithm := range []string{"gcra", "bucket"} {
		for seed := range uint64(10) {
			t.Run(fmt.Sprint(algorithm, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { overrideHistory(t, algorithm, rand.New(rand.NewPCG(seed, 1))) })
			})
		}
	}
}

func overrideHistory(t *testing.T, algorithm string, random *rand.Rand) {
	const lowest, most, seconds = 20, 100, 10
	r := New()
	p := compile(t, r, Config{Rules: []RuleConfig{{Name: "x", Requests: RateConfig{Rate: rate(t, "20/s"), Burst: 20, Algorithm: algorithm}}}})
	in := admitted(r, p, "a", 1000, time.Now())
	allowed := float64(20)
	now, burst := 20.0, 20.0
	for range seconds * 100 {
		n := lowest + random.Int64N(most-lowest+1)
		b := 1 + random.Int64N(50)
		if random.IntN(4) == 0 {
			r.Withdraw("x", "", nil, time.Now())
			n, b = 20, 20
		} else if _, _, err := r.Override(p, Override{Rule: "x", Rate: setting.Rate{Count: n, Period: time.Second}, Burst: b}, time.Now()); err != nil {
			t.Fatal(err)
		}
		now, burst = float64(n), max(burst, float64(b))
		in += admitted(r, p, "a", random.IntN(10), time.Now())
		time.Sleep(10 * time.Millisecond)
		allowed += now / 100
	}
	if in += admitted(r, p, "a", 1000, time.Now()); float64(in) > allowed+burst-20+1 {
		t.Errorf("%d got in; rate and burst allow %.1f", in, allowed+burst-20+1)
	}
}

// The same with callers beside each other and a constant bound: rate·t + burst
// + 1, and no call fails but by the limit.
func TestOverrideUnderLoad(t *testing.T) {
	const perSecond, burst = 2000, 50
	r := New()
	p := compile(t, r, Config{Rules: []RuleConfig{{Name: "x", Requests: RateConfig{Rate: rate(t, "2000/s"), Burst: burst}}}})
	var in atomic.Int64
	var callers sync.WaitGroup
	begun := time.Now()
	end := begun.Add(time.Second)
	for range 4 {
		callers.Go(func() {
			for time.Now().Before(end) {
				in.Add(int64(admitted(r, p, "a", 10, time.Now())))
				time.Sleep(100 * time.Microsecond)
			}
		})
	}
	for time.Now().Before(end) {
		if _, _, err := r.Override(p, Override{Rule: "x", Rate: rate(t, "2000/s"), Burst: burst}, time.Now()); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	callers.Wait()
	took := time.Since(begun).Seconds()
	if most := perSecond*took + burst + 1; float64(in.Load()) > most || in.Load() < burst {
		t.Errorf("%d got in in %.2f s; at most %.0f may", in.Load(), took, most)
	}
}
