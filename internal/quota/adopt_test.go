package quota

import (
	"testing"
	"time"
)

// However often a reload changes the algorithm and the burst, nothing is
// granted by it, and nothing is taken beyond what a lower burst cuts off once.
func TestChangesOfTheBoundKeepWhatIsThere(t *testing.T) {
	r := New()
	now := time.Now()
	passed := 0
	for i := range 40 {
		burst, algorithm := int64(300-100*(i%2)), []string{"gcra", "bucket", "bucket", "gcra"}[i%4]
		p := compile(t, r, Config{Rules: []RuleConfig{{Name: "x", Requests: RateConfig{Rate: rate(t, "1/day"), Burst: burst, Algorithm: algorithm}}}})
		for range 10 {
			if _, err := r.Reserve(p, by("a"), Demand{}, now); err == nil {
				passed++
			}
		}
	}
	// The 10 of the first round, and the 200 that were left at the first cut.
	if passed != 210 {
		t.Errorf("%d passed, want 210", passed)
	}
}
