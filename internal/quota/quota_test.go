package quota

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate-ai/headgate/internal/condition"
	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/meter"
	"github.com/headgate-ai/headgate/internal/quota/limittest"
	"github.com/headgate-ai/headgate/internal/setting"
)

// rate is short for what many tests write.
var rate = limittest.Rate

func compile(t testing.TB, r *Room, c Config) *Plan {
	t.Helper()
	var p setting.Problems
	c.Validate("quota", &p)
	plan := r.Compile(&c, &p)
	if len(p) > 0 {
		t.Fatal(p)
	}
	return &plan
}

func by(key string) *Subject {
	return &Subject{
		Principal: llm.Principal{Key: key, Tenant: "acme"}, Model: "gpt-4", Provider: "openai", IP: "192.0.2.1",
		Facts: &condition.Input{Path: "/v1/chat/completions", Model: "gpt-4", Key: key, Tenant: "acme"},
	}
}

// dollar is a price of one dollar a million tokens, in and out.
func dollar(t testing.TB) *meter.Price {
	t.Helper()
	return limittest.Price(t, "1")
}

func refused(t testing.TB, err error, kind fault.Kind) *fault.Error {
	t.Helper()
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != kind {
		t.Fatalf("got %v, want a fault of kind %v", err, kind)
	}
	return f
}

func TestAllOrNothing(t *testing.T) {
	r := New()
	p := compile(t, r, Config{Rules: []RuleConfig{
		{Name: "few", Per: []string{"key"}, Requests: RateConfig{Rate: rate(t, "2/min"), Burst: 2}},
		{Name: "many", Per: []string{"tenant"}, Requests: RateConfig{Rate: rate(t, "100/min")}, Tokens: TokensConfig{RateConfig: RateConfig{Rate: rate(t, "1000/min")}}, Concurrent: 10},
	}})
	now := time.Now()
	for range 2 {
		h, err := r.Reserve(p, by("a"), Demand{Input: 10, Output: 90}, now)
		if err != nil {
			t.Fatal(err)
		}
		if h.Requests.Rule != "few" || h.Requests.Limit != 2 || h.Tokens.Rule != "many" {
			t.Errorf("stands %+v, %+v", h.Requests, h.Tokens)
		}
	}
	before := fmt.Sprint(r.Stand(p, by("a"), now))
	h, err := r.Reserve(p, by("a"), Demand{Input: 10, Output: 90}, now)
	f := refused(t, err, fault.RateLimited)
	if f.Details["rule"] != "few" || f.Details["dimension"] != "requests" || f.RetryAfter < 30*time.Second || f.RetryAfter > 33*time.Second {
		t.Errorf("%+v", f)
	}
	if h.Requests.Remaining != 0 || h.Requests.Reset <= 0 {
		t.Errorf("the refused stands %+v", h.Requests)
	}
	if after := fmt.Sprint(r.Stand(p, by("a"), now)); after != before {
		t.Errorf("the refusal changed\n%s\nto\n%s", before, after)
	}
	// A client that waits as long as it was told gets in.
	if _, err := r.Reserve(p, by("a"), Demand{Input: 10, Output: 90}, now.Add(f.RetryAfter)); err != nil {
		t.Error(err)
	}
	if h.Settle(Settlement{}, now) != nil {
		t.Error("what was refused cannot be settled")
	}
}

func TestEachDimensionAlone(t *testing.T) {
	for _, c := range []struct {
		dimension string
		rule      RuleConfig
	}{
		{"requests", RuleConfig{Requests: RateConfig{Rate: rate(t, "1/h")}}},
		{"tokens", RuleConfig{Tokens: TokensConfig{RateConfig: RateConfig{Rate: rate(t, "150/h")}}}},
		{"input_tokens", RuleConfig{InputTokens: RateConfig{Rate: rate(t, "15/h"), Algorithm: "bucket"}}},
		{"output_tokens", RuleConfig{OutputTokens: RateConfig{Rate: rate(t, "150/h"), Algorithm: "window"}}},
		{"output_tokens", RuleConfig{OutputTokens: RateConfig{Rate: rate(t, "150/day"), Algorithm: "fixed"}}},
		{"concurrent", RuleConfig{Concurrent: 1}},
	} {
		r := New()
		c.rule.Name = "one"
		p := compile(t, r, Config{Rules: []RuleConfig{c.rule, {Name: "wide", Requests: RateConfig{Rate: rate(t, "1000/s")}, Concurrent: 100}}})
		now := time.Now()
		h, err := r.Reserve(p, by("a"), Demand{Input: 10, Output: 100}, now)
		if err != nil {
			t.Fatal(c.dimension, err)
		}
		_, err = r.Reserve(p, by("a"), Demand{Input: 10, Output: 100}, now)
		if f := refused(t, err, fault.RateLimited); f.Details["dimension"] != c.dimension || f.Details["rule"] != "one" {
			t.Errorf("%s: %v", c.dimension, f.Details)
		}
		// Nothing was used after all.
		h.Settle(Settlement{Unsent: true}, now)
		if _, err = r.Reserve(p, by("a"), Demand{Input: 10, Output: 100}, now); err != nil {
			t.Errorf("%s: what was given back is not there: %v", c.dimension, err)
		}
	}
}

func TestTooLargeForEver(t *testing.T) {
	r := New()
	p := compile(t, r, Config{Rules: []RuleConfig{{Name: "small", Tokens: TokensConfig{RateConfig: RateConfig{Rate: rate(t, "1000/min"), Burst: 100}}}}})
	_, err := r.Reserve(p, by("a"), Demand{Input: 101, Output: 1}, time.Now())
	if f := refused(t, err, fault.RateLimited); !f.Final || f.RetryAfter != 0 {
		t.Errorf("a request that can never pass must not be tried again: %+v", f)
	}
}

func TestSettleWithTheTruth(t *testing.T) {
	r := New()
	p := compile(t, r, Config{Rules: []RuleConfig{{Name: "all", Tokens: TokensConfig{RateConfig: RateConfig{Rate: rate(t, "1000/day")}, Weights: WeightsConfig{Cached: new(0.5)}}}}})
	now := time.Now()
	left := func() int64 { return r.Stand(p, by("a"), now)[0].Remaining }
	h, _ := r.Reserve(p, by("a"), Demand{Input: 100, Output: 400}, now)
	if left() != 500 {
		t.Fatalf("%d left after 500 of 1000 were reserved", left())
	}
	h.Settle(Settlement{Usage: llm.Usage{Input: 100, Cached: 50, Output: 25}}, now)
	if left() != 900 {
		t.Errorf("%d left after 75 and 25 were used", left())
	}
	h.Settle(Settlement{Usage: llm.Usage{Output: 500}}, now) // settled once
	if left() != 900 {
		t.Errorf("%d left after a second settlement", left())
	}
	h, _ = r.Reserve(p, by("a"), Demand{Input: 1, Output: 1}, now)
	h.Settle(Settlement{Usage: llm.Usage{Input: 1, Output: 2000}}, now)
	s := r.Stand(p, by("a"), now)[0]
	if s.Remaining != 0 { // never negative
		t.Errorf("%d left after more than all was used", s.Remaining)
	}
	if _, err := r.Reserve(p, by("a"), Demand{Input: 1, Output: 1}, now); err == nil {
		t.Error("what is owed must be waited for")
	}
}

func TestShadow(t *testing.T) {
	r := New()
	p := compile(t, r, Config{Rules: []RuleConfig{{Name: "trial", Per: []string{"ip"}, Requests: RateConfig{Rate: rate(t, "1/h")}, Shadow: true}}})
	now := time.Now()
	for range 5 {
		h, err := r.Reserve(p, by("a"), Demand{}, now)
		if err != nil || h.Requests.Limit != 0 {
			t.Fatalf("%v, stands %+v", err, h.Requests)
		}
	}
	for _, l := range r.Levels(p, now) {
		if l.Rule == "trial" && (l.WouldRefuse != 4 || l.Admitted != 5 || l.Refused != 0) {
			t.Errorf("%+v", l)
		}
	}
}

func TestCredentialsOwnRate(t *testing.T) {
	r := New()
	p := compile(t, r, Config{})
	s, now := by("jwt"), time.Now()
	s.Rate = 5
	n := 0
	for range 50 {
		if h, err := r.Reserve(p, s, Demand{}, now); err == nil {
			n++
			h.Settle(Settlement{}, now)
		}
		now = now.Add(100 * time.Millisecond)
	}
	if n < 5*5 || n > 5*5+5 {
		t.Errorf("%d in five seconds at five a second", n)
	}
	if _, err := r.Reserve(p, by("plain"), Demand{}, now); err != nil {
		t.Error(err)
	}
}

// One thousand at once, and a budget for a hundred: a hundred get in.
func TestNeverTooMany(t *testing.T) {
	r := New()
	p := compile(t, r, Config{
		Rules:   []RuleConfig{{Name: "zz-rate", Per: []string{"key"}, Requests: RateConfig{Rate: rate(t, "1000000/s")}}},
		Budgets: []BudgetConfig{{Name: "month", Per: []string{"tenant"}, Limit: AmountConfig{USD: 110 * llm.USD / 1e3}, Period: "none"}},
	})
	price := dollar(t)
	var in atomic.Int64
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			if _, err := r.Reserve(p, by("a"), Demand{Input: 100, Output: 1000, Price: price}, time.Now()); err == nil {
				in.Add(1)
			}
		})
	}
	wg.Wait()
	if in.Load() != 100 {
		t.Errorf("%d got in, want 100", in.Load())
	}
}

func TestBudgetPeriods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is midnight, 2000-01-01 UTC
		r := New()
		p := compile(t, r, Config{Budgets: []BudgetConfig{
			{Name: "hour", Limit: AmountConfig{Tokens: 100}, Period: "hour", Soft: AmountConfig{Tokens: 50}},
		}})
		h, err := r.Reserve(p, by("a"), Demand{Input: 10, Output: 30}, time.Now())
		if err != nil || h.Low() != "" {
			t.Fatal(err, h.Low())
		}
		charges := h.Settle(Settlement{Usage: llm.Usage{Input: 10, Output: 50}}, time.Now())
		if len(charges) != 1 || charges[0].Amount != 60 || charges[0].Scope != "hour/tokens" || charges[0].Period != time.Now().Unix() {
			t.Errorf("%+v", charges)
		}
		if h, err = r.Reserve(p, by("a"), Demand{Input: 10, Output: 10}, time.Now()); err != nil || h.Low() != "hour" {
			t.Errorf("%v, low %q", err, h.Low())
		}
		time.Sleep(59 * time.Minute)
		_, err = r.Reserve(p, by("a"), Demand{Input: 10, Output: 30}, time.Now())
		f := refused(t, err, fault.QuotaExhausted)
		if f.Details["resets_at"] != "2000-01-01T01:00:00Z" || f.Details["remaining"] != int64(20) || f.RetryAfter != 0 {
			t.Errorf("%+v", f)
		}
		time.Sleep(time.Minute)
		if h2, err := r.Reserve(p, by("a"), Demand{Input: 10, Output: 90}, time.Now()); err != nil {
			t.Error(err)
		} else if h2.Settle(Settlement{Unsent: true}, time.Now()) != nil {
			t.Error("what was not sent is not charged")
		}
		// What was reserved an hour ago belongs to that hour.
		if charges := h.Settle(Settlement{Usage: llm.Usage{Output: 100}}, time.Now()); charges[0].Period != time.Now().Unix()-3600 {
			t.Errorf("%+v", charges)
		}
		if s := r.Stand(p, by("a"), time.Now())[0]; s.Remaining != 100 {
			t.Errorf("%+v", s)
		}
	})
}

func TestPeriodsOfTheCalendar(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 10, 25, 1, 30, 0, 0, time.UTC).In(berlin) // the second 02:30 of that day
	for p, want := range map[period][2]string{
		perMinute: {"2026-10-25T02:30:00+01:00", "2026-10-25T02:31:00+01:00"},
		perHour:   {"2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"},
		perDay:    {"2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"},
		perWeek:   {"2026-10-19T00:00:00+02:00", "2026-10-26T00:00:00+01:00"},
		perMonth:  {"2026-10-01T00:00:00+02:00", "2026-11-01T00:00:00+01:00"},
	} {
		from, until := p.around(at)
		if got := [2]string{from.Format(time.RFC3339), until.Format(time.RFC3339)}; got != want {
			t.Errorf("period %d: %v, want %v", p, got, want)
		}
	}
}

// A stream without a bound on its output stops where the budget ends.
func TestStreamStopsAtTheBudget(t *testing.T) {
	r := New()
	p := compile(t, r, Config{Budgets: []BudgetConfig{{Name: "b", Limit: AmountConfig{USD: 2 * llm.USD / 1e3}, Period: "day"}}})
	price := dollar(t)
	now := time.Now()
	for range 200 { // the expected length is learnt
		r.outputs.of(by("a")).learn(100)
	}
	h, err := r.Reserve(p, by("a"), Demand{Input: 100, Price: price}, now)
	if err != nil {
		t.Fatal(err)
	}
	u := llm.Usage{Input: 100}
	for h.Allow(u) > u.Output {
		if u.Output++; u.Output > 10_000 {
			t.Fatal("never stopped")
		}
	}
	if cost := price.Cost(u); cost > 2*llm.USD/1e3 || cost < 2*llm.USD/1e3*98/100 {
		t.Errorf("stopped after %d tokens, %v", u.Output, cost)
	}
	if _, err := r.Reserve(p, by("b"), Demand{Input: 1, Output: 1, Price: price}, now); err == nil {
		t.Error("there is nothing left")
	}
	h.Settle(Settlement{Price: price, Usage: llm.Usage{Input: 100, Output: 10}}, now)
	if _, err := r.Reserve(p, by("b"), Demand{Input: 1, Output: 1000, Price: price}, now); err != nil {
		t.Error(err)
	}
}

func TestDegrade(t *testing.T) {
	r := New()
	p := compile(t, r, Config{Budgets: []BudgetConfig{
		{Name: "b", Per: []string{"key"}, Limit: AmountConfig{USD: llm.USD / 1e3}, Period: "day", Exhausted: "trim"},
		{Name: "c", When: `principal.key == "other"`, Limit: AmountConfig{Tokens: 100}, Period: "day", Exhausted: "degrade: model:small"},
	}})
	price, now := dollar(t), time.Now()
	h, err := r.Reserve(p, by("a"), Demand{Input: 400, Output: 5000, Price: price}, now)
	if err != nil || h.Trimmed() != 600 {
		t.Fatalf("%v, trimmed to %d, want 600", err, h.Trimmed())
	}
	if s := r.Stand(p, by("a"), now)[0]; s.Remaining != 0 {
		t.Errorf("%+v", s)
	}
	h.Settle(Settlement{Price: price, Usage: llm.Usage{Input: 400, Output: 590}}, now)
	if _, err := r.Reserve(p, by("a"), Demand{Input: 1, Output: 5000, Price: price}, now); err == nil {
		t.Error("nine tokens are no answer")
	}
	h, err = r.Reserve(p, by("other"), Demand{Input: 90, Output: 11, Price: price}, now)
	if refused(t, err, fault.QuotaExhausted); h.WayOut.Instead != "small" {
		t.Errorf("instead %q", h.WayOut.Instead)
	}
}

// The expected length of an answer comes to lie where nine of ten are shorter.
func TestExpectedLength(t *testing.T) {
	o := newOutputs()
	if got := o.of(by("a")).expect(); got != firstGuess {
		t.Errorf("%d expected of nothing", got)
	}
	rng := rand.New(rand.NewPCG(5, 1))
	for range 5000 {
		o.of(by("a")).learn(1 + rng.Int64N(1000))
		o.of(by("b")).learn(50)
	}
	if got := o.of(by("a")).expect(); got < 800 || got > 1100 {
		t.Errorf("%d expected of lengths up to 1000, want about 900", got)
	}
	if got := o.of(by("b")).expect(); got < 40 || got > 60 {
		t.Errorf("%d expected of 50", got)
	}
}

// One tenant that makes up models fills what is remembered of it, and nothing of
// another's.
func TestExpectedLengthsAreBounded(t *testing.T) {
	o, s := newOutputs(), by("a")
	for i := range 2 * mostOfTenant {
		s.Model = fmt.Sprint("made-up-", i)
		if l := o.of(s); (l != nil) != (i < mostOfTenant) {
			t.Fatalf("of the model %d: %v", i, l)
		}
	}
	if s.Tenant = "other"; o.of(s) == nil {
		t.Error("nothing is learnt of another tenant")
	}
	for i := range 2 * mostOutputs {
		s.Tenant = fmt.Sprint("tenant-", i)
		o.of(s)
	}
	if len(o.known) != mostOutputs || o.of(s) != nil {
		t.Errorf("%d are remembered", len(o.known))
	}
}

func TestRestore(t *testing.T) {
	r := New()
	p := compile(t, r, Config{Budgets: []BudgetConfig{{Name: "day", Per: []string{"key"}, Limit: AmountConfig{Tokens: 100}, Period: "day"}}})
	now := time.Now()
	h, _ := r.Reserve(p, by("a|b=c"), Demand{Input: 30, Output: 40}, now)
	c := h.Settle(Settlement{Usage: llm.Usage{Input: 30, Output: 40}}, now)[0]
	again := New()
	p = compile(t, again, Config{Budgets: []BudgetConfig{{Name: "day", Per: []string{"key"}, Limit: AmountConfig{Tokens: 100}, Period: "day"}}})
	again.Restore(p, c.Scope, c.Period, c.Amount, now)
	for _, scope := range []string{"other/tokens|key=a|tenant=acme", "day/tokens|key=a", "day/tokens|tenant=acme|key=a", "day/tokens", "day/tokensX|key=a|tenant=acme"} {
		again.Restore(p, scope, c.Period, 1000, now) // of another budget, or of one that was kept otherwise
	}
	if s := again.Stand(p, by("a|b=c"), now)[0]; s.Remaining != 30 {
		t.Errorf("%+v after %+v", s, c)
	}
	if s := again.Stand(p, by("a"), now)[0]; s.Remaining != 100 {
		t.Errorf("%+v", s)
	}
	if again.cells.sweep(r.at(now)); again.cells.len() != 1 {
		t.Error("a budget whose period runs must not be forgotten")
	}
}

// A configuration that is loaded again and again grants nothing anew, and one
// that raises a limit does so from then on.
func TestReloadGrantsNoBurst(t *testing.T) {
	for _, algorithm := range []string{"gcra", "bucket", "window"} {
		r := New()
		now := time.Now()
		n, last := 0, ""
		for i := range 1000 {
			limit := []string{"60/min", "61/min", "59/min", "3600/h"}[i%4]
			p := compile(t, r, Config{Rules: []RuleConfig{{Name: "r", Requests: RateConfig{Rate: rate(t, limit), Burst: 5, Algorithm: algorithm}}}})
			p.since = r.at(now)
			for range 3 {
				h, err := r.Reserve(p, by("a"), Demand{}, now)
				if err == nil {
					n++
					h.Settle(Settlement{}, now)
				} else {
					last = err.Error()
				}
			}
			now = now.Add(10 * time.Millisecond)
		}
		if n > 10+5+1+2 { // rate times time, burst, one, and the two that change of width may cost a window
			t.Errorf("%s: %d in ten seconds at one a second; %s", algorithm, n, last)
		}
	}
}

func TestSweep(t *testing.T) {
	r := New()
	p := compile(t, r, Config{Rules: []RuleConfig{
		{Name: "rate", Per: []string{"key"}, Requests: RateConfig{Rate: rate(t, "1/s")}},
		{Name: "window", Per: []string{"key"}, Requests: RateConfig{Rate: rate(t, "1/s"), Algorithm: "window"}},
		{Name: "held", Per: []string{"key"}, Concurrent: 2},
	}})
	now := time.Now()
	var holds []*Hold
	for i := range 100 {
		h, err := r.Reserve(p, by(fmt.Sprint(i)), Demand{}, now)
		if err != nil {
			t.Fatal(err)
		}
		holds = append(holds, h)
	}
	later := now.Add(time.Hour)
	if r.Sweep(p, later); r.cells.len() != 300 {
		t.Errorf("%d cells while calls are under way, want 300", r.cells.len())
	}
	for _, h := range holds {
		h.Settle(Settlement{}, later)
	}
	if r.Sweep(p, later.Add(time.Minute)); r.cells.len() != 0 {
		t.Errorf("%d cells are left", r.cells.len())
	}
}

// Random calls, settled in any order, leave what a plain sum says.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := New()
		p := compile(t, r, Config{
			Rules:   []RuleConfig{{Name: "c", Per: []string{"key"}, Concurrent: 5}},
			Budgets: []BudgetConfig{{Name: "b", Per: []string{"tenant"}, Limit: AmountConfig{USD: llm.USD / 10, Tokens: 90_000}, Period: "none"}},
		})
		price := dollar(t)
		now := time.Now()
		type open struct {
			h    *Hold
			key  string
			most int64
		}
		var under []open
		var used, reserved, charged int64
		held := map[string]int{}
		for range 600 {
			if rng.IntN(2) == 0 {
				key := fmt.Sprint(rng.IntN(4))
				in, out := rng.Int64N(500), 1+rng.Int64N(2000)
				h, err := r.Reserve(p, by(key), Demand{Input: in, Output: out, Price: price}, now)
				fits := held[key] < 5 && used+reserved+in+out <= 90_000
				if (err == nil) != fits {
					t.Fatalf("seed %d: %v, but fits is %v: %d used, %d reserved, %d+%d asked, %d held", seed, err, fits, used, reserved, in, out, held[key])
				}
				if err == nil {
					under = append(under, open{h, key, in + out})
					reserved += in + out
					held[key]++
				}
			} else if len(under) > 0 {
				i := rng.IntN(len(under))
				o := under[i]
				under = append(under[:i], under[i+1:]...)
				s := Settlement{Price: price, Usage: llm.Usage{Input: rng.Int64N(500), Output: rng.Int64N(2500)}, Unsent: rng.IntN(5) == 0}
				for _, c := range o.h.Settle(s, now) {
					if c.Scope == "b/tokens|tenant=acme" {
						charged += c.Amount
					}
				}
				o.h.Release()
				reserved -= o.most
				held[o.key]--
				if !s.Unsent {
					used += s.Usage.Total()
				}
			}
			for _, s := range r.Stand(p, by("0"), now) {
				if s.Rule == "b" && s.Dimension == "tokens" && s.Remaining != max(0, 90_000-used-reserved) {
					t.Fatalf("seed %d: %d left, want %d", seed, s.Remaining, 90_000-used-reserved)
				}
			}
		}
		if charged != used {
			t.Errorf("seed %d: %d charged, %d used", seed, charged, used)
		}
	}
}

func TestConcurrentUseOfManyCells(t *testing.T) {
	r := New()
	p := compile(t, r, Config{Rules: []RuleConfig{
		{Name: "a", Per: []string{"key"}, Requests: RateConfig{Rate: rate(t, "1000000/s")}, Concurrent: 3},
		{Name: "b", Per: []string{"tenant"}, Concurrent: 20},
		{Name: "c", Per: []string{"model"}, Requests: RateConfig{Rate: rate(t, "1000000/s"), Algorithm: "window"}},
	}})
	var most, now atomic.Int64
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 9))
			for range 500 {
				h, err := r.Reserve(p, by(fmt.Sprint(rng.IntN(10))), Demand{}, time.Now())
				if err != nil {
					continue
				}
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				if rng.IntN(50) == 0 {
					r.Sweep(p, time.Now().Add(time.Hour))
				}
				now.Add(-1)
				h.Settle(Settlement{}, time.Now())
				h.Release()
			}
		})
	}
	wg.Wait()
	if most.Load() > 20 {
		t.Errorf("%d at once, want at most 20", most.Load())
	}
	for _, l := range r.Levels(p, time.Now()) {
		if l.Dimension == "concurrent" && l.Capacity != l.Available {
			t.Errorf("places were lost: %+v", l)
		}
	}
}

func TestMistakes(t *testing.T) {
	c := Config{
		Rules: []RuleConfig{
			{Name: "Bad Name", When: "request.modle == 1", Per: []string{"kee", "key", "key"}, Requests: RateConfig{Burst: 3}},
			{Name: "x", Requests: RateConfig{Rate: rate(t, "1/s"), Algorithm: "leaky", Burst: -1}, Concurrent: -1},
			{Name: "x", Tokens: TokensConfig{Weights: WeightsConfig{Output: new(-1.0)}}},
		},
		Budgets: []BudgetConfig{{Name: "b", Period: "year", Timezone: "Mars", Exhausted: "explode", Per: []string{"ip"}}},
	}
	var p setting.Problems
	c.Validate("quota", &p)
	want := []string{
		"quota.rules[0].name", "quota.rules[0].when", "quota.rules[0].per[0]", "quota.rules[0].per[2]", "quota.rules[0].requests.rate", "quota.rules[0]",
		"quota.rules[1].requests.burst", "quota.rules[1].requests.algorithm", "quota.rules[1].concurrent",
		"quota.rules[2].name", "quota.rules[2].tokens.weights.output", "quota.rules[2]",
		"quota.budgets[0].per[0]", "quota.budgets[0].limit", "quota.budgets[0].period", "quota.budgets[0].timezone", "quota.budgets[0].exhausted",
	}
	var got []string
	for _, m := range p {
		got = append(got, m.Path)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
		for _, m := range p {
			t.Log(m)
		}
	}
}

// A budget of money warns when less is left than so many tokens of an answer
// cost, and tells what is left in whole cents.
func TestSoftLimitInTokensOfMoney(t *testing.T) {
	r := New()
	p := compile(t, r, Config{Budgets: []BudgetConfig{{Name: "b", Limit: AmountConfig{USD: 2 * llm.USD}, Soft: AmountConfig{Tokens: 500_000}, Period: "none"}}})
	price := dollar(t) // for a million tokens
	for i, want := range []string{"", "", "", "", "b"} {
		h, err := r.Reserve(p, by("a"), Demand{Output: 400_000, Price: price}, time.Now())
		if err != nil || h.Low() != want || (want == "") != (h.Other == nil) {
			t.Fatalf("call %d: %v, low %q, %+v", i, err, h.Low(), h.Other)
		}
		if want != "" && (h.Other.Unit != "cents" || h.Other.Limit != 200) {
			t.Errorf("%+v", h.Other)
		}
	}
}
