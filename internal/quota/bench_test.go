package quota

import (
	"sync"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
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

// BenchmarkContended is one limit that eight goroutines are at.
func BenchmarkContended(b *testing.B) {
	r := New()
	p := compile(b, r, Config{Rules: []RuleConfig{{Name: "r", Requests: RateConfig{Rate: rate(b, "1000000000/s")}}}})
	var wg sync.WaitGroup
	each := b.N/8 + 1
	b.ResetTimer()
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
