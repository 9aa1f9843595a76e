package anthropic

import "github.com/headgate-ai/headgate/internal/wire"

// Limits collects anthropic-ratelimit-{requests,tokens}-{limit,remaining,reset}
// as the API reference describes them: the reset is a time of RFC 3339.
func (Dialect) Limits(v *wire.Values, l *wire.Limits) {
	if k := &l.Requests; k.Limit > 0 {
		v.Int("Anthropic-Ratelimit-Requests-Limit", k.Limit)
		v.Int("Anthropic-Ratelimit-Requests-Remaining", k.Remaining)
		v.Time("Anthropic-Ratelimit-Requests-Reset", l.Now.Add(k.Reset))
	}
	if k := &l.Tokens; k.Limit > 0 {
		v.Int("Anthropic-Ratelimit-Tokens-Limit", k.Limit)
		v.Int("Anthropic-Ratelimit-Tokens-Remaining", k.Remaining)
		v.Time("Anthropic-Ratelimit-Tokens-Reset", l.Now.Add(k.Reset))
	}
}
