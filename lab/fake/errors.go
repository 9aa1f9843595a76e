package fake

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"
)

// failure is how a status is worded in each dialect.
type failure struct {
	openaiType, code, anthropicType, message string
}

var failures = map[int]failure{
	400: {"invalid_request_error", "", "invalid_request_error", "The request is invalid"},
	401: {"invalid_request_error", "invalid_api_key", "authentication_error", "Incorrect API key provided"},
	402: {"insufficient_quota", "insufficient_quota", "billing_error", "You exceeded your current quota, please check your plan and billing details"},
	403: {"permission_error", "", "permission_error", "You are not allowed to use this resource"},
	404: {"invalid_request_error", "model_not_found", "not_found_error", "The requested resource does not exist"},
	408: {"timeout", "", "timeout_error", "Request timed out"},
	409: {"conflict", "conflict", "invalid_request_error", "The resource was changed by another request"},
	413: {"invalid_request_error", "request_too_large", "request_too_large", "Request exceeds the maximum size"},
	422: {"invalid_request_error", "", "invalid_request_error", "The request could not be processed"},
	429: {"requests", "rate_limit_exceeded", "rate_limit_error", "Rate limit reached, please try again later"},
	500: {"server_error", "", "api_error", "The server had an error while processing your request. Sorry about that!"},
	503: {"server_error", "service_unavailable", "overloaded_error", "The engine is currently overloaded, please try again later"},
	504: {"server_error", "", "timeout_error", "The upstream took too long to answer"},
	529: {"server_error", "overloaded", "overloaded_error", "Overloaded"},
}

func failureOf(status int) failure {
	if f, ok := failures[status]; ok {
		return f
	}
	if status >= 500 {
		return failures[500]
	}
	return failures[400]
}

// errorBody is a failure in the vendor's shape.
func (c *call) errorBody(status int, message, param, code string) []byte {
	f := failureOf(status)
	if message == "" {
		message = f.message
	}
	if c.dialect == anthropic {
		b := append([]byte(`{"type":"error","error":{"type":"`), f.anthropicType...)
		b = appendQuoted(append(b, `","message":`...), message)
		b = appendQuoted(append(b, `},"request_id":`...), c.id)
		return append(b, '}')
	}
	if code == "" {
		code = f.code
	}
	b := appendQuoted([]byte(`{"error":{"message":`), message)
	b = appendQuoted(append(b, `,"type":`...), f.openaiType)
	b = appendNullable(append(b, `,"param":`...), param)
	b = appendNullable(append(b, `,"code":`...), code)
	return append(b, "}}"...)
}

// fail answers a request that is refused.
func (c *call) fail(status int, message, param, code string) {
	c.outcome = Refused
	after := c.cfg.RetryAfter.Std()
	if after == 0 && status == http.StatusTooManyRequests {
		after = time.Second
	}
	if after > 0 && c.w.Header().Get("Retry-After") == "" {
		c.retryAfter(after)
	}
	body := c.errorBody(status, message, param, code)
	c.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	c.header(status)
	c.w.Write(body)
}

// failWith answers a failure that was scripted.
func (c *call) failWith(status int) {
	if status == http.StatusTooManyRequests {
		c.announceSpent()
	}
	c.fail(status, "", "", "")
}

// retryAfter tells when to come back: whole seconds rounded up, and exactly.
func (c *call) retryAfter(d time.Duration) {
	h := c.w.Header()
	h.Set("Retry-After", strconv.Itoa(int(math.Ceil(d.Seconds()))))
	h.Set("Retry-After-Ms", strconv.FormatInt(int64(math.Ceil(float64(d)/float64(time.Millisecond))), 10))
}

// overloadStatus is what the vendor answers when it has no capacity.
func (c *call) overloadStatus() int {
	if c.dialect == anthropic {
		return 529
	}
	return http.StatusServiceUnavailable
}

// appendQuoted appends s as a JSON string. It allocates nothing for text
// without special characters, which is what streams are made of.
func appendQuoted[S string | []byte](b []byte, s S) []byte {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == '"' || s[i] == '\\' || s[i] == 0x7f {
			q, _ := json.Marshal(string(s))
			return append(b, q...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendNullable appends s as a JSON string, or null if it is empty.
func appendNullable(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return appendQuoted(b, s)
}
