package app

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate-ai/headgate/internal/fleet"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/setting"
)

// world is a gateway's limits and one provider, without a network. It runs in a
// bubble: time moves by itself.
type world struct {
	t       *testing.T
	room    *quota.Room
	plan    atomic.Pointer[quota.Plan]
	pulse   *fleet.Pulse
	adapter *adapter

	mu      sync.Mutex // guards what the adapter told
	records []quota.Adaptation
	renames []string
}

// told is what the adapter has told so far.
func (w *world) told() (records []quota.Adaptation, renames []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.records), slices.Clone(w.renames)
}

func newWorld(t *testing.T, rules ...quota.RuleConfig) *world {
	w := &world{t: t, room: quota.New(), pulse: new(fleet.Pulse)}
	w.load(rules...)
	w.adapter = &adapter{
		pulses: func() map[string]*fleet.Pulse { return map[string]*fleet.Pulse{"p": w.pulse} }, plan: w.plan.Load, quota: w.room,
		record: func(a quota.Adaptation) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.records = append(w.records, a)
		},
		renamed: func(provider, was, is string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.renames = append(w.renames, provider+" "+was+" "+is)
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.adapter.run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// load makes rules the running ones.
func (w *world) load(rules ...quota.RuleConfig) {
	w.t.Helper()
	var p setting.Problems
	c := &quota.Config{Rules: rules}
	c.Validate("quota", &p)
	plan := w.room.Compile(c, &p)
	if len(p) > 0 {
		w.t.Fatal(p)
	}
	w.plan.Store(&plan)
}

// call makes a call that is answered after a latency, and is whether it was let
// through.
func (w *world) call(latency time.Duration) bool {
	h, err := w.room.Reserve(w.plan.Load(), &quota.Subject{Principal: llm.Principal{Key: "k"}, Model: "m", Provider: "p"}, quota.Demand{Bytes: 1000}, time.Now())
	if err != nil {
		return false
	}
	w.pulse.Begin()
	w.pulse.Answer(latency)
	h.Settle(quota.Settlement{}, time.Now())
	return true
}

// calls makes perSecond calls a second for a time, and counts those that were
// let through.
func (w *world) calls(perSecond int, latency, length time.Duration) (in int) {
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Second / time.Duration(perSecond)) {
		if w.call(latency) {
			in++
		}
	}
	return in
}

// level is how the first rule stands.
func (w *world) level() quota.Level { return w.room.Levels(w.plan.Load(), time.Now())[0] }

func (w *world) factor(cause string) float64 { return w.level().Adapted.Factors[cause] }

func rateOf(t *testing.T, text string) (r setting.Rate) {
	t.Helper()
	if err := r.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return r
}

func loadRule(t *testing.T, rate string) quota.RuleConfig {
	return quota.RuleConfig{Name: "a", Per: []string{"key"}, Requests: quota.RateConfig{Rate: rateOf(t, rate)}, Adapt: quota.AdaptConfig{
		Load: quota.LoadConfig{QPS: 50, Size: 1000, P95: setting.Duration(100 * time.Millisecond), Min: rateOf(t, "10/s"), Max: rateOf(t, "1000/s")},
	}}
}

// Row B4: when answers take 400 ms instead of 100 the rate falls within two
// seconds, and comes back when they do. A changed base shows in less than one.
func TestAdaptLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, loadRule(t, "90/s"))
		w.calls(50, 100*time.Millisecond, 10*time.Second)
		if l := w.level(); l.PerSecond < 80 || l.PerSecond > 100 || l.Burst < 160 || l.Burst > 200 || l.Adapted.Rate.Count != 90 || l.Adapted.Burst != 180 {
			t.Fatalf("at the reference: %+v, %+v", l, l.Adapted)
		}
		w.calls(50, 400*time.Millisecond, 2*time.Second)
		if l := w.level(); l.PerSecond > 35 || l.PerSecond < 25 || l.Burst > 70 {
			t.Errorf("two seconds after the step %v/s with a burst of %d; three times as slow is a third", l.PerSecond, l.Burst)
		}
		w.calls(50, 100*time.Millisecond, 8*time.Second)
		if l := w.level(); l.PerSecond < 80 {
			t.Errorf("eight seconds after it was over %v/s", l.PerSecond)
		}
		if _, _, err := w.room.Override(w.plan.Load(), quota.Override{Rule: "a", Rate: rateOf(t, "180/s"), Burst: 360}, time.Now()); err != nil {
			t.Fatal(err)
		}
		w.calls(50, 100*time.Millisecond, 900*time.Millisecond)
		if l := w.level(); l.PerSecond < 160 || l.Adapted.Rate.Count != 180 {
			t.Errorf("after the base was set to 180/s: %v/s", l.PerSecond)
		}
		w.room.Withdraw("a", "", nil, time.Now())
		w.load(loadRule(t, "45/s"))
		w.calls(50, 100*time.Millisecond, 900*time.Millisecond)
		if l := w.level(); l.PerSecond > 50 || l.PerSecond < 40 {
			t.Errorf("after a reload with 45/s: %v/s", l.PerSecond)
		}
		// Ten times the calls: half, and no less than the least.
		w.calls(500, 3*time.Second, 5*time.Second)
		if l := w.level(); math.Abs(l.PerSecond-10) > 0.01 {
			t.Errorf("%v/s with everything against it, the least is 10", l.PerSecond)
		}
	})
}

// A provider that does not answer at all is slow, not unknown.
func TestAdaptSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := loadRule(t, "90/s")
		rule.Adapt.Burst = quota.BurstConfig{P95: setting.Duration(time.Second)}
		w := newWorld(t, rule)
		w.calls(50, 100*time.Millisecond, 5*time.Second)
		w.pulse.Begin()
		time.Sleep(10 * time.Second)
		if f := w.factor("burst"); f > 0.3 {
			t.Errorf("nothing was answered for ten seconds: the burst is times %v", f)
		}
		w.pulse.Leave()
		time.Sleep(10 * time.Second)
		if f := w.factor("load"); f < 1 {
			t.Errorf("nothing is known any more, and the load takes %v", f)
		}
	})
}

// Row B18: a step of the health moves the limit by at most a tenth in a second,
// down to half, and no further.
func TestAdaptHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, quota.RuleConfig{Name: "a", Requests: quota.RateConfig{Rate: rateOf(t, "380/s")}, Adapt: quota.AdaptConfig{Health: true}})
		w.calls(50, 100*time.Millisecond, 10*time.Second)
		if f := w.factor("health"); f != 1 {
			t.Fatalf("healthy, and times %v", f)
		}
		time.Sleep(500 * time.Millisecond) // between two steps
		last := 1.0
		seen := []string{}
		for range 12 {
			for range 20 {
				w.pulse.Begin()
				w.pulse.Fail()
			}
			time.Sleep(time.Second)
			f := w.factor("health")
			seen = append(seen, fmt.Sprintf("%.0f", 380*f))
			if f < last*0.9-1e-9 || f > last || f < 0.5 {
				t.Errorf("from %v to %v", last, f)
			}
			last = f
		}
		t.Log("380 became", strings.Join(seen, " "))
		if l := w.level(); l.Burst != 190 {
			t.Errorf("%d with no health, want 190", l.Burst)
		}
		w.calls(50, 100*time.Millisecond, 20*time.Second)
		if f := w.factor("health"); f < 0.9999 {
			t.Errorf("healthy again, and times %v", f)
		}
		// So it is when answers take six times as long as usual.
		w.calls(50, 600*time.Millisecond, 5*time.Second)
		if f := w.factor("health"); f > 0.7 {
			t.Errorf("six times as slow, and times %v", f)
		}
	})
}

// Row B19: with headroom the burst is raised two and a half times within twelve
// seconds and goes back in time; without it is not raised. What the controller
// did is on record, but not every step of it.
func TestAdaptBurst(t *testing.T) {
	rule := quota.RuleConfig{Name: "a", Requests: quota.RateConfig{Rate: rateOf(t, "120/s"), Burst: 240}, Adapt: quota.AdaptConfig{
		Burst: quota.BurstConfig{P95: setting.Duration(time.Second)},
	}}
	t.Run("headroom", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, rule)
			w.calls(120, 100*time.Millisecond, 10*time.Second)
			w.calls(564, 100*time.Millisecond, 12*time.Second)
			if l := w.level(); l.Burst < 600 || l.PerSecond < 300 {
				t.Errorf("a burst of %d after twelve seconds", l.Burst)
			}
			w.calls(564, 100*time.Millisecond, 20*time.Second)
			if late := w.calls(564, 100*time.Millisecond, 10*time.Second); late < 4600 {
				t.Errorf("%d of 5640 were let through, at a ceiling of 480/s", late)
			}
			records, _ := w.told()
			if n := len(records); n < 2 || n > 5 {
				t.Fatalf("%d entries on record in 42 seconds: %+v", n, records)
			}
			if r := records[0]; r.Rule != "a" || r.Was.Burst != 240 || r.Is.Burst <= 240 || !strings.Contains(r.Reason, "calls refused") {
				t.Errorf("%+v", r)
			}
			w.calls(10, 100*time.Millisecond, 3*time.Minute)
			if l := w.level(); l.Burst != 240 {
				t.Errorf("a burst of %d after a long calm", l.Burst)
			}
		})
	})
	t.Run("no headroom", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, rule)
			w.calls(120, 100*time.Millisecond, 10*time.Second)
			for range 12 {
				w.calls(564, 3*time.Second, time.Second)
				if l := w.level(); l.Burst > 320 {
					t.Fatalf("raised to %d without headroom", l.Burst)
				}
			}
			if l := w.level(); l.Burst != 60 {
				t.Errorf("a burst of %d, want the floor", l.Burst)
			}
		})
	})
}

// A change of the version is told, but not more often than anyone can read, and
// limits follow within a second.
func TestAdaptVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := func(n string) quota.RateConfig { return quota.RateConfig{Rate: rateOf(t, n)} }
		w := newWorld(t, quota.RuleConfig{
			Name: "a", Watch: "p", Requests: limit("100/s"), Profiles: []quota.ProfileConfig{
				{Name: "old", Version: "2023-*", Requests: limit("80/s")}, {Name: "new", Version: "2024-*", Model: "gpt-4-*", Requests: limit("60/s")},
			},
		})
		for _, c := range []struct {
			version, model, profile string
			burst                   int64
		}{
			{"", "", "", 100}, {"2023-05-01", "gpt-4-0613", "old", 80}, {"2024-05-01", "gpt-4-0613", "new", 60},
			{"2024-05-01", "gpt-3", "", 100}, {"2025-01-01", "gpt-4-0613", "", 100}, {"2024-05-01", "gpt-4-1106", "new", 60},
		} {
			w.pulse.Name(c.version, c.model)
			w.calls(10, time.Millisecond, 1100*time.Millisecond)
			if l := w.level(); l.Burst != c.burst || l.Adapted.Profile != c.profile {
				t.Errorf("%+v: a burst of %d, profile %q", c, l.Burst, l.Adapted.Profile)
			}
		}
		if n := w.adapter.renames.counts()["p"]; n != 3 {
			t.Errorf("%d changes counted, there were three", n)
		}
		_, renames := w.told()
		if got := strings.Join(renames, ", "); got != "p 2023-05-01 2024-05-01" {
			t.Errorf("told: %s", got)
		}
		time.Sleep(10 * time.Second)
		w.pulse.Name("2023-05-01", "")
		w.calls(10, time.Millisecond, 1100*time.Millisecond)
		time.Sleep(10 * time.Second)
		records, renames := w.told()
		if len(renames) != 2 {
			t.Errorf("told: %v", renames)
		}
		if len(records) < 2 || !strings.Contains(records[len(records)-1].Reason, "profile old") {
			t.Errorf("%+v", records)
		}
	})
}

// The profiles of row B17: v1.0 stands still, v1.1 decays while many calls are
// under way, v1.2 follows the health.
func profiles(t *testing.T) []quota.ProfileConfig {
	return []quota.ProfileConfig{
		{Name: "v1.0", Requests: quota.RateConfig{Rate: rateOf(t, "500/s"), Burst: 500}},
		{Name: "v1.1", Requests: quota.RateConfig{Rate: rateOf(t, "525/s"), Burst: 420}, Adapt: quota.AdaptConfig{Decay: quota.DecayConfig{Concurrent: 100}}},
		{Name: "v1.2", Requests: quota.RateConfig{Rate: rateOf(t, "633/s"), Burst: 380}, Adapt: quota.AdaptConfig{Health: true}},
	}
}

// Row B17: the same load through three profiles: a provider that fails more and
// more, a hundred calls under way, then 2,000 calls a second.
func TestAdaptProfiles(t *testing.T) {
	var trips []time.Duration
	table := "profile  declared  effective  trips after\n"
	for _, p := range profiles(t) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, quota.RuleConfig{Name: "a", Requests: quota.RateConfig{Rate: rateOf(t, "500/s")}, Profile: p.Name, Profiles: profiles(t)})
			w.calls(100, 100*time.Millisecond, 10*time.Second)
			for range 96 {
				h, err := w.room.Reserve(w.plan.Load(), &quota.Subject{}, quota.Demand{}, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				defer func() { h.Settle(quota.Settlement{}, time.Now()) }()
			}
			for range 100 {
				w.calls(20, 100*time.Millisecond, 50*time.Millisecond)
				w.pulse.Begin()
				w.pulse.Fail()
			}
			effective := w.level().Burst
			if part := 1 - float64(effective)/float64(p.Requests.Burst); p.Name == "v1.1" && (part < 0.12 || part > 0.18) {
				t.Errorf("the decay takes %v, want 0.12 to 0.18", part)
			}
			begun := time.Now()
			for w.call(100 * time.Millisecond) {
				time.Sleep(500 * time.Microsecond)
			}
			trips = append(trips, time.Since(begun))
			table += fmt.Sprintf("%-8s %8d %10d %12s\n", p.Name, p.Requests.Burst, effective, trips[len(trips)-1])
		})
	}
	t.Log("\n" + table)
	if !(trips[2] < trips[1] && trips[1] < trips[0]) {
		t.Errorf("v1.2 must trip before v1.1, and that before v1.0: %v", trips)
	}
}
