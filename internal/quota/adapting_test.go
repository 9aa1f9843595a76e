package quota

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate-ai/headgate/internal/fleet"
	"github.com/headgate-ai/headgate/internal/setting"
)

// movingRule is a rule of so many requests that moves with everything.
func movingRule(t testing.TB, text string, burst int64, algorithm string) RuleConfig {
	return RuleConfig{Name: "x", Requests: RateConfig{Rate: rate(t, text), Burst: burst, Algorithm: algorithm}, Adapt: AdaptConfig{
		Load: LoadConfig{Size: 1000}, Health: true, Decay: DecayConfig{Concurrent: 1000}, Burst: BurstConfig{P95: setting.Duration(time.Second)},
	}}
}

// moveTo makes a factor hold of the plan's only rule.
func moveTo(r *Room, p *Plan, factor float64) {
	for i := range p.limits {
		if a := p.limits[i].adapts; a != nil {
			a.publish(&a.own, factors{byLoad: 1, byHealth: 1, byDecay: 1, byBurst: factor}, r.at(time.Now()))
		}
	}
}

// sized makes a call of a size, and is whether it was let through.
func sized(r *Room, p *Plan, bytes int64) bool {
	h, err := r.Reserve(p, by("a"), Demand{Bytes: bytes}, time.Now())
	h.Settle(Settlement{}, time.Now())
	return err == nil
}

// Row B20: however often a limit moves, it grants no burst. What calls of all
// sizes cost together is at most the rate over the time and the largest burst.
func TestMovingGrantsNoBurst(t *testing.T) {
	for _, algorithm := range []string{"gcra", "bucket"} {
		for seed := range uint64(10) {
			t.Run(fmt.Sprint(algorithm, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					random := rand.New(rand.NewPCG(seed, 2))
					r := New()
					p := compile(t, r, Config{Rules: []RuleConfig{movingRule(t, "50/s", 50, algorithm)}})
					used, allowed, least, burst := 0.0, 0.0, 0.0, 50.0
					for range 1000 {
						factor := 0.25 + 3.75*random.Float64()
						moveTo(r, p, factor)
						burst = max(burst, 50*factor)
						for range random.IntN(4) {
							bytes := int64(random.IntN(3000))
							if sized(r, p, bytes) {
								used += min(max(float64(bytes)/1000, 0.1), 2)
								if bytes == 0 {
									used += 0.9 // of unknown size
								}
							}
						}
						time.Sleep(10 * time.Millisecond)
						allowed += 50 * factor / 100
						least += 0.5
					}
					for sized(r, p, 1000) {
						used++
					}
					if used > allowed+burst+0.1 {
						t.Errorf("%.1f used; rate and burst allow %.1f", used, allowed+burst)
					}
					if used < least/2 {
						t.Errorf("only %.1f used of about %.1f", used, allowed)
					}
				})
			})
		}
	}
}

// Against exact reckoning: a limit that counts thousandths lets through what a
// bucket of fractions does, call by call.
func TestCostAgainstFractions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(3, 4))
		r := New()
		rule := movingRule(t, "10/s", 20, "gcra")
		rule.Adapt = AdaptConfig{Load: LoadConfig{Size: 1000}}
		p := compile(t, r, Config{Rules: []RuleConfig{rule}})
		had, last := int64(20_000_000), time.Now() // millionths of a request
		let := 0
		for range 5000 {
			time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
			had = min(20_000_000, had+10*time.Since(last).Milliseconds()*1000)
			last = time.Now()
			bytes := int64(1 + random.IntN(4000))
			cost := min(max(bytes, 100), 2000) * 1000
			want := cost <= had
			if want {
				had -= cost
				let++
			}
			if got := sized(r, p, bytes); got != want {
				t.Fatalf("%d bytes with %d millionths left: let through %v", bytes, had, got)
			}
		}
		if let < 1000 || let > 4900 {
			t.Errorf("%d of 5000 were let through: this proves little", let)
		}
	})
}

// Neither to begin to move nor to end it grants a burst or loses what was there.
func TestMovingBegunAndEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		still := RuleConfig{Name: "x", Requests: RateConfig{Rate: rate(t, "1/h"), Burst: 10}}
		moves := movingRule(t, "1/h", 10, "bucket")
		r := New()
		p := compile(t, r, Config{Rules: []RuleConfig{still}})
		if n := admitted(r, p, "a", 4, time.Now()); n != 4 {
			t.Fatal(n)
		}
		p = compile(t, r, Config{Rules: []RuleConfig{moves}})
		for range 3 {
			if !sized(r, p, 1000) {
				t.Error("what was there has gone")
			}
		}
		p = compile(t, r, Config{Rules: []RuleConfig{still}})
		if n := admitted(r, p, "a", 100, time.Now()); n != 3 {
			t.Errorf("%d were let through; three were left", n)
		}
		window := still
		window.Requests = RateConfig{Rate: rate(t, "10/day"), Algorithm: "window"}
		if p = compile(t, r, Config{Rules: []RuleConfig{moves}}); sized(r, p, 100) {
			t.Error("none were left")
		}
		p = compile(t, r, Config{Rules: []RuleConfig{window}})
		if n := admitted(r, p, "a", 100, time.Now()); n != 0 {
			t.Errorf("%d were let through; none were left", n)
		}
	})
}

// A call that a reload overtakes gives nothing back that it has not taken.
func TestMovingOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		still := RuleConfig{Name: "x", Requests: RateConfig{Rate: rate(t, "1/h"), Burst: 10}}
		r := New()
		p := compile(t, r, Config{Rules: []RuleConfig{movingRule(t, "1/h", 10, "gcra")}})
		h, err := r.Reserve(p, by("a"), Demand{Bytes: 1000}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		p = compile(t, r, Config{Rules: []RuleConfig{still}})
		if n := admitted(r, p, "a", 100, time.Now()); n != 9 {
			t.Errorf("%d", n)
		}
		h.Settle(Settlement{Unsent: true}, time.Now())
		if n := admitted(r, p, "a", 100, time.Now()); n != 0 {
			t.Errorf("%d were let through that nobody gave back", n)
		}
		if n := r.adapting.get("x/requests").underWay.Load(); n != 0 {
			t.Errorf("%d are under way", n)
		}
	})
}

// What clients and operators see is in whole requests.
func TestMovingShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New()
		rule := movingRule(t, "10/s", 20, "gcra")
		p := compile(t, r, Config{Rules: []RuleConfig{rule}})
		h, err := r.Reserve(p, by("a"), Demand{Bytes: 1500}, time.Now())
		if err != nil || h.Requests.Limit != 20 || h.Requests.Remaining != 18 || h.Requests.Window != time.Second {
			t.Errorf("%v %+v", err, h.Requests)
		}
		moveTo(r, p, 0.5)
		for range 6 {
			sized(r, p, 1500)
		}
		h, err = r.Reserve(p, by("a"), Demand{Bytes: 1500}, time.Now())
		if err == nil || h.Requests.Limit != 10 {
			t.Fatalf("%v %+v", err, h.Requests)
		}
		if got := err.Error(); !strings.Contains(got, "of 5 requests in a second") {
			t.Error(got)
		}
		if l := level(r, p, "x"); l.Rate.String() != "5/s" || l.Burst != 10 || l.Capacity != 10 || l.PerSecond != 5 || l.Adapted.Rate.String() != "10/s" || l.Adapted.Burst != 20 || l.Adapted.Factors["burst"] != 0.5 {
			t.Errorf("%+v %+v", l, l.Adapted)
		}
	})
}

// The factor of all causes together keeps within floor and ceiling, the rate
// within min and max, and something always passes.
func TestTermsKeepWithinBounds(t *testing.T) {
	c := movingRule(t, "100/s", 100, "gcra")
	c.Adapt.Load.Min, c.Adapt.Load.Max = rate(t, "40/s"), rate(t, "200/s")
	terms := compileTerms(&c.Requests, &c.Adapt)
	for _, one := range []struct{ load, health, decay, burst, factor, perSecond, burstOf float64 }{
		{1, 1, 1, 1, 1, 100, 100}, {0.5, 0.5, 0.82, 1, 0.25, 40, 40}, {0.9, 0.9, 0.9, 0.9, 0.6561, 65.61, 65.61},
		{40, 1, 1, 4, 4, 200, 200}, {1, 0.5, 1, 4, 2, 200, 200},
	} {
		f := factors{one.load, one.health, one.decay, one.burst}
		got := terms.product(f)
		b := terms.scaled(terms.bound, got)
		if math.Abs(got-one.factor) > 1e-9 || math.Abs(b.perSecond()-one.perSecond) > 1e-9 || math.Abs(float64(b.burst)/fineness-one.burstOf) > 1e-9 {
			t.Errorf("%+v: %v, %v/s, burst %v", one, got, b.perSecond(), b.burst)
		}
	}
	if b := terms.scaled(bound{count: setting.MaxCount, period: 1e9, burst: setting.MaxCount}, 4); b.count != 200*fineness || b.burst < fineness {
		t.Errorf("%+v", b)
	}
	free := compileTerms(&c.Requests, &AdaptConfig{Health: true})
	if b := free.scaled(bound{count: setting.MaxCount, period: 1e9, burst: setting.MaxCount}, 1000); b.count != mostFine || b.burst != mostFine {
		t.Errorf("%+v", b)
	}
	small := compileTerms(&RateConfig{Rate: rate(t, "1/day"), Burst: 3}, &AdaptConfig{Load: LoadConfig{Size: 10}})
	if b := small.scaled(small.bound, 1e-9); b.count != 1 || b.burst != 3*fineness || b.rate().Count != 1 {
		t.Errorf("%+v, %s", b, b.rate())
	}
}

// A limit that moves goes on after a reload from where it was, and forgets what
// it does not move with any more.
func TestMovingOutlastsReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New()
		rule := movingRule(t, "100/s", 100, "gcra")
		p := compile(t, r, Config{Rules: []RuleConfig{rule}})
		ill := func(string) fleet.Seen { return fleet.Seen{Calls: 100, Health: 0, Errors: 0.5, P95: 0.1} }
		for range 10 {
			time.Sleep(time.Second)
			r.Adapt(p, ill, time.Now())
		}
		before := level(r, p, "x").Adapted.Factors
		if before["burst"] != 0.25 || before["health"] != 0.5 {
			t.Fatalf("%v", before)
		}
		p = compile(t, r, Config{Rules: []RuleConfig{rule}})
		if after := level(r, p, "x").Adapted.Factors; fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%v, before %v", after, before)
		}
		rule.Adapt = AdaptConfig{Health: true}
		p = compile(t, r, Config{Rules: []RuleConfig{rule}})
		if l := level(r, p, "x"); l.Burst != 50 || len(l.Adapted.Factors) != 1 {
			t.Errorf("%+v %+v", l, l.Adapted)
		}
	})
}

func TestAdaptMistakes(t *testing.T) {
	hundred := RateConfig{Rate: rate(t, "100/s")}
	second := setting.Duration(time.Second)
	for _, c := range []struct {
		rule RuleConfig
		want string
	}{
		{RuleConfig{Concurrent: 1, Adapt: AdaptConfig{Health: true}}, "requests: is missing, and adapt and profiles move it"},
		{RuleConfig{Requests: RateConfig{Rate: hundred.Rate, Algorithm: "window"}, Adapt: AdaptConfig{Health: true}}, "window promises a number that does not move"},
		{RuleConfig{Requests: RateConfig{Rate: rate(t, "2000000000/s")}, Adapt: AdaptConfig{Health: true}}, "write at most 1000000000"},
		{RuleConfig{Requests: hundred, Adapt: AdaptConfig{Burst: BurstConfig{Floor: 0.25}}}, "burst.p95: is missing or 0"},
		{RuleConfig{Requests: hundred, Adapt: AdaptConfig{Burst: BurstConfig{Floor: 5, Ceiling: 2, P95: second}}}, "floor: 5 is more than ceiling, 2"},
		{RuleConfig{Requests: hundred, Adapt: AdaptConfig{Burst: BurstConfig{Floor: -1, P95: second}}}, "floor: -1 is not a part"},
		{RuleConfig{Requests: hundred, Adapt: AdaptConfig{Burst: BurstConfig{Floor: math.NaN(), P95: second}}}, "floor: NaN is not a part"},
		{RuleConfig{Requests: hundred, Adapt: AdaptConfig{Burst: BurstConfig{Ceiling: 0.5, P95: second}}}, "ceiling: 0.5 is not how many times"},
		{RuleConfig{Requests: hundred, Adapt: AdaptConfig{Decay: DecayConfig{Concurrent: -1}}}, "decay.concurrent: -1 is no number of calls"},
		{RuleConfig{Requests: hundred, Adapt: AdaptConfig{Load: LoadConfig{Min: rate(t, "1/s")}}}, "load: has nothing to go by"},
		{RuleConfig{Requests: hundred, Adapt: AdaptConfig{Load: LoadConfig{QPS: -1}}}, "qps: -1 is no number of calls"},
		{RuleConfig{Requests: hundred, Adapt: AdaptConfig{Load: LoadConfig{QPS: 1, Min: rate(t, "90/s"), Max: rate(t, "80/s")}}}, "min: 90/s is more than max, 80/s"},
		{RuleConfig{Requests: hundred, Adapt: AdaptConfig{Load: LoadConfig{QPS: 1, Min: rate(t, "101/s")}}}, "min: 101/s is more than the rate itself"},
		{RuleConfig{Requests: hundred, Adapt: AdaptConfig{Load: LoadConfig{QPS: 1, Max: rate(t, "99/s")}}}, "max: 99/s is less than the rate itself"},
		{RuleConfig{Requests: RateConfig{Rate: hundred.Rate, Burst: 1}, Adapt: AdaptConfig{Load: LoadConfig{Size: 1}}}, "burst: 1 is less than what a large request takes"},
		{RuleConfig{Requests: hundred, Watch: "openai"}, `watch: there is nothing to watch "openai" for`},
		{RuleConfig{Requests: hundred, Profile: "v1"}, `profile: there is no profile "v1"`},
		{RuleConfig{Requests: hundred, Profile: "v1", Profiles: []ProfileConfig{{Name: "v2", Requests: hundred}}}, `profile: there is no profile "v1"; write`},
		{RuleConfig{Requests: hundred, Profiles: []ProfileConfig{{Name: "v1", Requests: hundred}}}, "profiles[0]: is never in force"},
		{RuleConfig{Requests: hundred, Profiles: []ProfileConfig{{Name: "v1", Version: "1"}}}, "profiles[0].requests.rate: is missing"},
		{RuleConfig{Requests: hundred, Profiles: []ProfileConfig{{Name: "v1", Version: "1", Requests: hundred}, {Name: "v1", Model: "m", Requests: hundred}}}, `"v1" stands here twice`},
	} {
		var p setting.Problems
		c.rule.Name = "x"
		(&Config{Rules: []RuleConfig{c.rule}}).Validate("quota", &p)
		got := ""
		for _, one := range p {
			got += one.Path + ": " + one.Message + "\n"
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("want %q, got:\n%s", c.want, got)
		}
	}
	// Several gateways cannot share what each of them moves.
	var p setting.Problems
	shared := Config{Store: StoreConfig{Kind: StoreRedis}, Rules: []RuleConfig{movingRule(t, "1/s", 5, "gcra")}}
	_ = shared.Store.URL.UnmarshalText([]byte("redis://127.0.0.1:6379"))
	if shared.Validate("quota", &p); len(p) != 1 || !strings.Contains(p[0].Message, "go by what one gateway sees") {
		t.Errorf("%v", p)
	}
}

// Where the store of the counts only goes with a restart, a reload cannot begin
// to move what is still shared.
func TestSharedCountsDoNotMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := sharing2(t, new(slowStore), Config{})
		var p setting.Problems
		r.Compile(&Config{Rules: []RuleConfig{movingRule(t, "10/s", 10, "gcra")}}, &p)
		if len(p) != 1 || p[0].Path != "quota.rules[0]" || !strings.Contains(p[0].Message, "until the gateway is started again") {
			t.Errorf("%v", p)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Moving costs a call nothing that is allocated.
func TestMovingAllocates(t *testing.T) {
	r := New()
	p := compile(t, r, Config{Rules: []RuleConfig{movingRule(t, "1000000/s", 1000000, "gcra")}})
	s := by("a")
	if n := testing.AllocsPerRun(1000, func() { use(t, r, p, s, Demand{Bytes: 500}) }); n > 1 {
		t.Errorf("%v allocations, the hold is one", n)
	}
}
