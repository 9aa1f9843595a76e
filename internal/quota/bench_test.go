package quota

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/lab/cputime"
	"github.com/headgate-ai/headgate/lab/race"
)

// five are five rules with conditions, and a budget.
func five(t testing.TB, r *Room) *Plan {
	return compile(t, r, Config{
		Rules: []RuleConfig{
			{Name: "gpt-4-tokens", When: `request.path == "/v1/chat/completions" && request.model == "gpt-4"`, Per: []string{"tenant"}, Tokens: TokensConfig{RateConfig: RateConfig{Rate: rate(t, "1000000000/s")}}},
			{Name: "key-requests", Per: []string{"key"}, Requests: RateConfig{Rate: rate(t, "1000000000/min"), Algorithm: "window"}},
			{Name: "key-concurrency", Per: []string{"key"}, Concurrent: 1 << 30},
			{Name: "user", When: `principal.tenant in ["acme", "other"]`, Per: []string{"key", "model"}, OutputTokens: RateConfig{Rate: rate(t, "1000000000/s"), Algorithm: "bucket"}},
			{Name: "trial", Per: []string{"ip"}, Requests: RateConfig{Rate: rate(t, "60/min")}, Shadow: true},
		},
		Budgets: []BudgetConfig{{Name: "month", When: `principal.tenant == "acme"`, Per: []string{"tenant"}, Limit: AmountConfig{USD: 9e9 * llm.USD}, Period: "month"}},
	})
}

func use(t testing.TB, r *Room, p *Plan, s *Subject, d Demand) {
	h, err := r.Reserve(p, s, d, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	h.Settle(Settlement{Usage: llm.Usage{Input: 100, Output: 50}}, time.Now())
	h.Release()
}

func TestAllocations(t *testing.T) {
	r := New()
	p, s, d := five(t, r), by("a"), Demand{Input: 100, Output: 100, Price: dollar(t)}
	use(t, r, p, s, d)
	if n := testing.AllocsPerRun(1000, func() { use(t, r, p, s, d) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFiveRulesAndBudget(b *testing.B) {
	r := New()
	p, s, d := five(b, r), by("a"), Demand{Input: 100, Output: 100, Price: dollar(b)}
	b.ReportAllocs()
	for b.Loop() {
		use(b, r, p, s, d)
	}
}

// contended has eight goroutines at one limit.
func contended(t testing.TB) func(each int) {
	r := New()
	p := compile(t, r, Config{Rules: []RuleConfig{{Name: "r", Requests: RateConfig{Rate: rate(t, "1000000000/s")}}}})
	return func(each int) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				s := by("a")
				for range each {
					h, _ := r.Reserve(p, s, Demand{}, time.Now())
					h.Release()
				}
			})
		}
		wg.Wait()
	}
}

func BenchmarkContended(b *testing.B) {
	take := contended(b)
	b.ResetTimer()
	take(b.N/8 + 1)
}

// A decision takes less than two microseconds while seven others are at the same
// limit: of a processor, waiting for it included as far as that is no sleep.
func TestContended(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector takes its time")
	}
	const each = 2000
	take := contended(t)
	cputime.Budget(t, 2*time.Microsecond, 20, 8*each, func() { take(each) })
}

// BenchmarkThousandPerSecond compares the algorithms under calls that come once
// a millisecond, as often as they are let through: how long 99 of 100
// decisions take at most, and what one takes of a processor.
func BenchmarkThousandPerSecond(b *testing.B) {
	for _, algorithm := range []string{"gcra", "bucket", "window", "fixed"} {
		b.Run(algorithm, func(b *testing.B) {
			r := New()
			p := compile(b, r, Config{Rules: []RuleConfig{{Name: "r", Per: []string{"key"}, Requests: RateConfig{Rate: rate(b, "1000/s"), Algorithm: algorithm}}}})
			s, now := by("a"), time.Now()
			took := make([]time.Duration, 0, b.N)
			b.ReportAllocs()
			cpu := cputime.Least(b, 1, func() {
				for b.Loop() {
					now = now.Add(time.Millisecond)
					began := time.Now()
					h, _ := r.Reserve(p, s, Demand{}, now)
					h.Release()
					took = append(took, time.Since(began))
				}
			})
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
			b.ReportMetric(float64(cpu)/float64(len(took)), "cpu-ns/op")
		})
	}
}
