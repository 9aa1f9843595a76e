package quota

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate-ai/headgate/internal/condition"
	"github.com/headgate-ai/headgate/internal/llm"
)

// Each model has its own tokens a second, whatever the others use: for thirty
// seconds three models are called for three times of what two of them may. What
// is let through is the rate, but for a burst that is there once; the third
// model, whose name only begins as the first one's, has no limit.
func TestTokensOfModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seconds, burst, each = 30, 200, 20
		rates := map[string]float64{"gpt-4": 1000, "claude-3": 800, "gpt-4-turbo": math.Inf(1)}
		rule := func(model, text string) RuleConfig {
			return RuleConfig{
				Name: model, When: `request.model == "` + model + `"`, Per: []string{"tenant"},
				Tokens: TokensConfig{RateConfig: RateConfig{Rate: rate(t, text), Burst: burst}},
			}
		}
		r := New()
		p := compile(t, r, Config{Rules: []RuleConfig{rule("gpt-4", "1000/s"), rule("claude-3", "800/s")}})
		used, offered := map[string]float64{}, 0.0
		for end := time.Now().Add(seconds * time.Second); time.Now().Before(end); time.Sleep(time.Second * each / 3000) {
			offered += each
			for model := range rates {
				s := by("a")
				s.Model, s.Facts = model, &condition.Input{Path: "/v1/chat/completions", Model: model}
				if h, err := r.Reserve(p, s, Demand{Input: each / 4, Output: each * 3 / 4}, time.Now()); err == nil {
					used[model] += each
					h.Settle(Settlement{Usage: llm.Usage{Input: each / 4, Output: each * 3 / 4}}, time.Now())
				}
			}
		}
		for model, perSecond := range rates {
			want := min(perSecond*seconds, offered)
			got := used[model]
			if got > want {
				got -= burst
			}
			if off := got/want - 1; math.Abs(off) > 0.02 || used[model] > want+burst {
				t.Errorf("%s: %v tokens in %d s, want %v, at most %d more", model, used[model], seconds, want, burst)
			}
		}
	})
}
