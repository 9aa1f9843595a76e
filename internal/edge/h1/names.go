package h1

import (
	"net/http"
	"net/textproto"
)

// token marks the bytes of a field name (RFC 9110, 5.6.2).
var token = func() (t [256]bool) {
	for _, b := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t[b] = true
	}
	return t
}()

// canonical is a field name as http.Header has it. A name that is canonical
// already costs one look at each byte, a common one in small letters a look in
// a table; ok is whether it is a token.
func canonical(name string) (_ string, ok bool) {
	is, upper := true, true
	for i := range len(name) {
		b := name[i]
		if !token[b] {
			return "", false
		}
		if upper && 'a' <= b && b <= 'z' || !upper && 'A' <= b && b <= 'Z' {
			is = false
		}
		upper = b == '-'
	}
	if is {
		return name, name != ""
	}
	if c, ok := names[name]; ok {
		return c, true
	}
	return textproto.CanonicalMIMEHeaderKey(name), true
}

// names are common request fields, by how clients that write small letters
// spell them.
var names = func() map[string]string {
	t := map[string]string{}
	for _, n := range []string{
		"accept", "accept-charset", "accept-encoding", "accept-language", "anthropic-beta",
		"anthropic-dangerous-direct-browser-access", "anthropic-version", "api-key", "authorization", "baggage",
		"cache-control", "connection", "content-encoding", "content-length", "content-type", "cookie", "date",
		"dnt", "expect", "forwarded", "host", "http-referer", "idempotency-key", "if-match", "if-none-match",
		"keep-alive", "openai-beta", "openai-organization", "openai-project", "origin", "pragma", "priority",
		"proxy-connection", "range", "referer", "sec-ch-ua", "sec-ch-ua-mobile", "sec-ch-ua-platform",
		"sec-fetch-dest", "sec-fetch-mode", "sec-fetch-site", "te", "traceparent", "tracestate", "trailer",
		"transfer-encoding", "upgrade", "user-agent", "via", "x-api-key", "x-client-request-id", "x-forwarded-for",
		"x-forwarded-host", "x-forwarded-port", "x-forwarded-proto", "x-real-ip", "x-request-id", "x-response-mode",
		"x-stainless-arch", "x-stainless-async", "x-stainless-helper-method", "x-stainless-lang", "x-stainless-os",
		"x-stainless-package-version", "x-stainless-read-timeout", "x-stainless-retry-count",
		"x-stainless-runtime", "x-stainless-runtime-version", "x-stainless-timeout", "x-title",
	} {
		t[n] = textproto.CanonicalMIMEHeaderKey(n)
	}
	return t
}()

// statusText is a status as in a status line.
func statusText(status int) string {
	return string(appendStatus(nil, status))
}

// appendStatus is the code and its phrase (RFC 9112, 4).
func appendStatus(b []byte, status int) []byte {
	digits := [3]byte{byte('0' + status/100%10), byte('0' + status/10%10), byte('0' + status%10)}
	b = append(append(b, digits[:]...), ' ')
	if text := http.StatusText(status); text != "" {
		return append(b, text...)
	}
	return append(append(b, "status code "...), digits[:]...)
}
