package anthropic

import (
	"net/http"
	"strconv"
	"time"

	"github.com/headgate-ai/headgate/internal/wire"
)

// Limits writes anthropic-ratelimit-{requests,tokens}-{limit,remaining,reset} as
// the API reference describes them: the reset is a time of RFC 3339.
func (Dialect) Limits(h http.Header, l *wire.Limits) {
	if k := &l.Requests; k.Limit > 0 {
		v := values(k, l.Now)
		h["Anthropic-Ratelimit-Requests-Limit"], h["Anthropic-Ratelimit-Requests-Remaining"], h["Anthropic-Ratelimit-Requests-Reset"] = v[0:1:1], v[1:2:2], v[2:3:3]
	}
	if k := &l.Tokens; k.Limit > 0 {
		v := values(k, l.Now)
		h["Anthropic-Ratelimit-Tokens-Limit"], h["Anthropic-Ratelimit-Tokens-Remaining"], h["Anthropic-Ratelimit-Tokens-Reset"] = v[0:1:1], v[1:2:2], v[2:3:3]
	}
}

func values(k *wire.Limit, now time.Time) []string {
	reset := now.Add(k.Reset + time.Second - 1).UTC().Truncate(time.Second)
	return []string{strconv.FormatInt(k.Limit, 10), strconv.FormatInt(k.Remaining, 10), reset.Format(time.RFC3339)}
}
