package h1

import (
	"net/http"
	"strings"
)

// Classes of bytes (RFC 9110, section 5.6.2; RFC 3986, section 3.2.2).
const (
	classToken = 1 << iota // tchar
	classValue             // field-vchar, SP and HTAB
	classHost              // of a Host field
	classHex
)

var class = func() (t [256]uint8) {
	for c := range t {
		alnum := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if alnum || c < 0x80 && strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0 {
			t[c] |= classToken
		}
		if alnum || c < 0x80 && strings.IndexByte("!$%&'()*+,-.:;=[]_~", byte(c)) >= 0 {
			t[c] |= classHost
		}
		if c >= 0x20 && c != 0x7f || c == '\t' {
			t[c] |= classValue
		}
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' {
			t[c] |= classHex
		}
	}
	return t
}()

func all(s string, mask uint8) bool {
	for i := 0; i < len(s); i++ {
		if class[s[i]]&mask == 0 {
			return false
		}
	}
	return true
}

func isToken(s string) bool    { return s != "" && all(s, classToken) }
func validValue(s string) bool { return all(s, classValue) }
func validHost(s string) bool  { return s != "" && all(s, classHost) }

// validTarget is whether s can be part of a request line: blanks would end it.
func validTarget(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// trimSpace removes optional white space (RFC 9110, section 5.6.3).
func trimSpace(s string) string {
	for s != "" && isSpace(s[0]) {
		s = s[1:]
	}
	for s != "" && isSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// equalFold compares in ASCII: Unicode has letters that fold to ASCII ones.
func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := 0; i < len(a); i++ {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

// hasToken is whether comma-separated lists hold a token.
func hasToken(values []string, token string) bool {
	for _, v := range values {
		for v != "" {
			var item string
			item, v, _ = strings.Cut(v, ",")
			if equalFold(trimSpace(item), token) {
				return true
			}
		}
	}
	return false
}

// canonical gives a field's name in the form that http.Header has it in, and
// false if it is no token. Names that are in that form or known cost nothing.
func canonical(s string) (string, bool) {
	if s == "" {
		return "", false
	}
	same, first := true, true
	for i := 0; i < len(s); i++ {
		c := s[i]
		if class[c]&classToken == 0 {
			return "", false
		}
		if first && c >= 'a' && c <= 'z' || !first && c >= 'A' && c <= 'Z' {
			same = false
		}
		first = c == '-'
	}
	if same {
		return s, true
	}
	var low [48]byte
	if len(s) <= len(low) {
		for i := 0; i < len(s); i++ {
			low[i] = lower(s[i])
		}
		if known, ok := common[string(low[:len(s)])]; ok {
			return known, true
		}
	}
	return http.CanonicalHeaderKey(s), true
}

// common are names that providers and what stands before them send, by their
// lower-case form.
var common = func() map[string]string {
	names := []string{
		"Accept-Ranges", "Access-Control-Allow-Credentials", "Access-Control-Allow-Headers",
		"Access-Control-Allow-Methods", "Access-Control-Allow-Origin", "Access-Control-Expose-Headers",
		"Age", "Allow", "Alt-Svc", "Anthropic-Organization-Id",
		"Anthropic-Ratelimit-Input-Tokens-Limit", "Anthropic-Ratelimit-Input-Tokens-Remaining",
		"Anthropic-Ratelimit-Input-Tokens-Reset", "Anthropic-Ratelimit-Output-Tokens-Limit",
		"Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset",
		"Anthropic-Ratelimit-Requests-Limit", "Anthropic-Ratelimit-Requests-Remaining",
		"Anthropic-Ratelimit-Requests-Reset", "Anthropic-Ratelimit-Tokens-Limit",
		"Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset",
		"Apim-Request-Id", "Azureml-Model-Session", "Cache-Control", "Cf-Cache-Status", "Cf-Ray",
		"Connection", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Length",
		"Content-Security-Policy", "Content-Type", "Date", "Etag", "Expires", "Keep-Alive",
		"Last-Modified", "Link", "Location", "Openai-Model", "Openai-Organization",
		"Openai-Processing-Ms", "Openai-Project", "Openai-Version", "P3p", "Pragma",
		"Proxy-Authenticate", "Referrer-Policy", "Report-To", "Request-Id", "Retry-After",
		"Retry-After-Ms", "Server", "Server-Timing", "Set-Cookie", "Strict-Transport-Security",
		"Traceparent", "Trailer", "Transfer-Encoding", "Upgrade", "Vary", "Via", "Www-Authenticate",
		"X-Accel-Buffering", "X-Amz-Request-Id", "X-Amzn-Bedrock-Cache-Read-Input-Token-Count",
		"X-Amzn-Bedrock-Input-Token-Count", "X-Amzn-Bedrock-Invocation-Latency",
		"X-Amzn-Bedrock-Output-Token-Count", "X-Amzn-Requestid", "X-Cache",
		"X-Content-Type-Options", "X-Envoy-Upstream-Service-Time", "X-Frame-Options",
		"X-Groq-Region", "X-Ms-Client-Request-Id", "X-Ms-Deployment-Name", "X-Ms-Region",
		"X-Powered-By", "X-Ratelimit-Limit-Requests", "X-Ratelimit-Limit-Tokens",
		"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Requests",
		"X-Ratelimit-Reset-Tokens", "X-Request-Id", "X-Robots-Tag", "X-Trace-Id", "X-Xss-Protection",
	}
	m := make(map[string]string, len(names))
	for _, n := range names {
		m[strings.ToLower(n)] = n
	}
	return m
}()
