package wire

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
)

// Refused is what a dialect found in a provider's error answer.
type Refused struct {
	// Found is whether the body is an error object of the dialect.
	Found bool
	// Body is the body to pass on to callers of the same dialect; nil if it is
	// not fit for that.
	Body []byte
	// Message, Type and Code are the error's own words.
	Message, Type, Code string
	// Status is the status that an error within a good answer speaks of.
	Status int
}

// Refuse classifies an error answer by its status.
func Refuse(status int, header http.Header, r Refused) *fault.Error {
	e := &fault.Error{Kind: refusalKind(status), Op: "provider", Status: status, Body: r.Body, RetryAfter: RetryAfter(header, time.Time{})}
	e.Public = publicMessage(r.Message)
	if r.Code != "" {
		e.Code = r.Code
	}
	if status < 400 {
		e.Status = 0 // a redirect is no answer to a model call; say 502
	}
	return e
}

// maxMessage bounds a provider's message within our own errors.
const maxMessage = 2000

func publicMessage(s string) string {
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}

func refusalKind(status int) fault.Kind {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusPaymentRequired:
		return fault.UpstreamDenied
	case status == http.StatusTooManyRequests:
		return fault.UpstreamRateLimited
	case status == http.StatusRequestTimeout:
		return fault.UpstreamTimeout
	case status >= 500:
		return fault.UpstreamFailed
	case status >= 400:
		return fault.UpstreamRejected
	}
	return fault.UpstreamMalformed
}

// InAnswer makes the fault of an error that came with a good status: with the
// status it names, or 502.
func InAnswer(r Refused) *fault.Error {
	status := r.Status
	if status < 400 || status > 599 {
		status = statusOfType(r.Type, r.Code)
	}
	e := Refuse(status, nil, r)
	e.Body = nil // it was shaped as an answer; write a proper error instead
	return e
}

// statusOfType is the HTTP status that belongs to an error's type or code, in
// the spelling of the vendors' error references.
func statusOfType(kind, code string) int {
	for _, s := range []string{code, kind} {
		switch s {
		case "rate_limit_exceeded", "rate_limit_error", "tokens", "requests", "insufficient_quota":
			return http.StatusTooManyRequests
		case "invalid_request_error", "context_length_exceeded", "content_filter":
			return http.StatusBadRequest
		case "overloaded_error":
			return 529
		case "timeout_error":
			return http.StatusGatewayTimeout
		}
	}
	return http.StatusBadGateway
}

// RetryAfter reads how long a provider asks to wait: retry-after-ms, or
// Retry-After in seconds or as a date (RFC 9110 section 10.2.3), the latter
// against now; a zero now takes the answer's own Date header.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	if now.IsZero() {
		if now, err = http.ParseTime(h.Get("Date")); err != nil {
			return 0
		}
	}
	return max(0, at.Sub(now))
}
