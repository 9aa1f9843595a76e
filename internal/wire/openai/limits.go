package openai

import "github.com/headgate-ai/headgate/internal/wire"

// Limits collects x-ratelimit-{limit,remaining,reset}-{requests,tokens} as the
// API reference describes them: the time to reset is a length such as 1s or 6m0s.
func (Dialect) Limits(v *wire.Values, l *wire.Limits) {
	if k := &l.Requests; k.Limit > 0 {
		v.Int("X-Ratelimit-Limit-Requests", k.Limit)
		v.Int("X-Ratelimit-Remaining-Requests", k.Remaining)
		v.Duration("X-Ratelimit-Reset-Requests", k.Reset)
	}
	if k := &l.Tokens; k.Limit > 0 {
		v.Int("X-Ratelimit-Limit-Tokens", k.Limit)
		v.Int("X-Ratelimit-Remaining-Tokens", k.Remaining)
		v.Duration("X-Ratelimit-Reset-Tokens", k.Reset)
	}
}
