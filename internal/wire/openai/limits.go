package openai

import (
	"net/http"
	"strconv"
	"time"

	"github.com/headgate-ai/headgate/internal/wire"
)

// Limits writes x-ratelimit-{limit,remaining,reset}-{requests,tokens} as the API
// reference describes them: the time to reset is a length such as 1s or 6m0s.
func (Dialect) Limits(h http.Header, l *wire.Limits) {
	if k := &l.Requests; k.Limit > 0 {
		v := values(k)
		h["X-Ratelimit-Limit-Requests"], h["X-Ratelimit-Remaining-Requests"], h["X-Ratelimit-Reset-Requests"] = v[0:1:1], v[1:2:2], v[2:3:3]
	}
	if k := &l.Tokens; k.Limit > 0 {
		v := values(k)
		h["X-Ratelimit-Limit-Tokens"], h["X-Ratelimit-Remaining-Tokens"], h["X-Ratelimit-Reset-Tokens"] = v[0:1:1], v[1:2:2], v[2:3:3]
	}
}

func values(k *wire.Limit) []string {
	reset := (k.Reset + time.Millisecond - 1) / time.Millisecond * time.Millisecond
	return []string{strconv.FormatInt(k.Limit, 10), strconv.FormatInt(k.Remaining, 10), reset.String()}
}
