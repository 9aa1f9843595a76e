package upstream

import (
	"net/http"
	"slices"
	"strings"

	"github.com/headgate-ai/headgate/internal/llm"
)

// header is what the provider gets to see of the client's headers: everything
// but what belongs to the client's connection, its credential or the gateway.
func (p *Provider) header(q *Request) http.Header {
	in := q.Call.Header
	out := make(http.Header, len(in)+4)
	named := connectionNames(in)
	for name, values := range in {
		if p.passes(name, q) && !slices.Contains(named, name) {
			out[name] = values
		}
	}
	if _, ok := out["User-Agent"]; !ok {
		out["User-Agent"] = nil // else net/http names itself
	}
	out["Accept-Encoding"] = acceptEncoding(q)
	values := []string{q.Call.ID, q.Traceparent} // one allocation for both
	out["X-Request-Id"] = values[0:1:1]
	if q.Traceparent != "" {
		out["Traceparent"] = values[1:2:2]
	}
	if q.Call.WantsStream && q.Call.Raw != nil {
		out["Accept"] = acceptEvents
	}
	for name, values := range p.headers {
		out[name] = values
	}
	p.authorize(out, q.Call.Dialect)
	return out
}

// acceptEncoding is identity for streams, so that no compressor holds events
// back; a whole answer may be gzip where the client takes that.
func acceptEncoding(q *Request) []string {
	if !q.Call.WantsStream && q.ClientTakesGzip {
		return acceptGzip
	}
	return acceptIdentity
}

// Header values that never change are shared; nobody may write to them.
var (
	acceptGzip     = []string{"gzip"}
	acceptIdentity = []string{"identity"}
	acceptEvents   = []string{"text/event-stream"}
)

// passes is whether a request header, in canonical form, may reach the
// provider.
func (p *Provider) passes(name string, q *Request) bool {
	switch name {
	// Hop by hop (RFC 9110 section 7.6.1), framing, and what is set anew.
	case "Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Content-Length", "Content-Encoding", "Accept-Encoding", "Host", "Expect", "X-Request-Id", "Traceparent",
		// Credentials, and what belongs to the client's account at the provider.
		"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key", "Proxy-Authorization", "Proxy-Authenticate", "Cookie",
		"Openai-Organization", "Openai-Project",
		// The client's page and position are no business of the provider.
		"Origin", "Referer", "Via", "Early-Data", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip":
		return false
	}
	switch {
	case strings.HasPrefix(name, "X-Forwarded-") || name == "Forwarded":
		return q.Forwarded
	case strings.HasPrefix(name, "X-Headgate-"):
		return false
	case strings.HasPrefix(name, "X-Sim-"):
		return p.Dialect == llm.Simulator
	}
	return true
}

// connectionNames are the headers that the Connection header names as hop by
// hop.
func connectionNames(h http.Header) (names []string) {
	for _, v := range h["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			names = append(names, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	return names
}

// anthropicVersion is sent for clients that name none, as the API requires one.
const anthropicVersion = "2023-06-01"

// authorize puts the provider's own credential where its dialect has it.
func (p *Provider) authorize(h http.Header, client llm.Dialect) {
	speaks := p.Dialect
	if speaks == llm.Simulator {
		speaks = client
	}
	if speaks == llm.Anthropic && h.Get("Anthropic-Version") == "" {
		h.Set("Anthropic-Version", anthropicVersion)
	}
	key := p.pick()
	switch {
	case key == "":
	case speaks == llm.Anthropic:
		h.Set("X-Api-Key", key)
	default:
		h.Set("Authorization", "Bearer "+key)
	}
}

// CopyHeader copies to a client what it may see of a provider's response
// headers. The provider's rate limits are its limits for the gateway and not
// ours for the client, so they travel under other names.
func CopyHeader(dst, src http.Header) {
	named := connectionNames(src)
	for name, values := range src {
		if slices.Contains(named, name) || !returns(name) {
			continue
		}
		if limitHeader(name) {
			dst["Llm_provider-"+name] = values
			continue
		}
		if name == "X-Request-Id" || name == "Request-Id" {
			if name == "X-Request-Id" || src["X-Request-Id"] == nil { // one of them, and always the same
				dst["X-Upstream-Request-Id"] = values
			}
			continue
		}
		dst[name] = values
	}
}

func limitHeader(name string) bool {
	return strings.HasPrefix(name, "X-Ratelimit-") || strings.HasPrefix(name, "Anthropic-Ratelimit-") || strings.HasPrefix(name, "Ratelimit")
}

// returns is whether a response header, in canonical form, may reach a client.
func returns(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Proxy-Authenticate", "Proxy-Authentication-Info", "Www-Authenticate",
		"Content-Length", "Content-Encoding", "Content-Type", "Date", "Server", "Via", "Location",
		// Of the provider's own pages, caches and account.
		"Set-Cookie", "Alt-Svc", "Strict-Transport-Security", "Openai-Organization", "Openai-Project",
		"Anthropic-Organization-Id", "Nel", "Report-To", "Retry-After", "Retry-After-Ms",
		// Set by the gateway itself.
		"X-Response-Mode", "X-Headgate-Target", "X-Headgate-Attempts", "X-Accel-Buffering", "Server-Timing", "X-Should-Retry":
		return false
	}
	return !strings.HasPrefix(name, "Cf-") && !strings.HasPrefix(name, "X-Headgate-")
}
