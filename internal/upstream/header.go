package upstream

import (
	"net/http"
	"slices"
	"strings"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
)

// header gives what the provider gets to see of the client's headers, one value
// at a time: everything but what belongs to the client's connection, its
// credential or the gateway. Names are in canonical form.
func (p *Provider) header(q *Request, give func(name, value string)) {
	in := q.Call.Header
	named := connectionNames(in)
	events := q.Call.WantsStream && q.Call.Raw != nil
	for name, values := range in {
		if !p.passes(name, q) || p.sets(name) || slices.Contains(named, name) || events && name == "Accept" {
			continue
		}
		for _, value := range values {
			give(name, value)
		}
	}
	p.own("Accept-Encoding", acceptEncoding(q), give)
	p.own("X-Request-Id", q.Call.ID, give)
	p.own("Traceparent", q.Traceparent, give)
	if events {
		p.own("Accept", "text/event-stream", give)
	}
	credential := p.authorize(q, give)
	for name, value := range p.headers {
		if name != credential {
			give(name, value)
		}
	}
}

// own gives a header of the gateway's own, unless the configuration sets it.
func (p *Provider) own(name, value string, give func(name, value string)) {
	if value != "" && !p.sets(name) {
		give(name, value)
	}
}

// sets is whether the configuration sets a header for this provider.
func (p *Provider) sets(name string) bool {
	_, ok := p.headers[name]
	return ok
}

// acceptEncoding is identity for streams, so that no compressor holds events
// back; a whole answer may be gzip where the client takes that.
func acceptEncoding(q *Request) string {
	if !q.Call.WantsStream && q.ClientTakesGzip {
		return "gzip"
	}
	return "identity"
}

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

// authorize gives the provider's own credential where its dialect has it, and
// is the name of that header.
func (p *Provider) authorize(q *Request, give func(name, value string)) (name string) {
	speaks := p.Dialect
	if speaks == llm.Simulator {
		speaks = q.Call.Dialect
	}
	if speaks == llm.Anthropic && q.Call.Header["Anthropic-Version"] == nil {
		p.own("Anthropic-Version", anthropicVersion, give)
	}
	c := p.pick()
	if q.account = p.keyless; c != nil {
		q.account = c.account
	}
	switch {
	case c == nil || c.value == "":
		return ""
	case speaks == llm.Anthropic:
		give("X-Api-Key", c.value)
		return "X-Api-Key"
	}
	give("Authorization", c.bearer)
	return "Authorization"
}

// CopyHeader puts what a client may see of a provider's response headers into
// its answer. The provider's rate limits are its limits for the gateway and not
// ours for the client, so they travel under other names. The fields of an event
// stream that concern caches are the gateway's.
func CopyHeader(dst wire.Fields, src http.Header, events bool) {
	named := connectionNames(src)
	for name, values := range src {
		if slices.Contains(named, name) || !returns(name) || events && name == "Cache-Control" {
			continue
		}
		switch {
		case limitHeader(name):
			name = "Llm_provider-" + name
		case name == "X-Request-Id" || name == "Request-Id" && src["X-Request-Id"] == nil: // one of them, and always the same
			name = "X-Upstream-Request-Id"
		case name == "Request-Id":
			continue
		}
		for _, v := range values {
			dst.Put(name, v)
		}
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
		"X-Response-Mode", "X-Accel-Buffering", "Server-Timing", "X-Should-Retry", "X-Degraded", "X-Trimmed", "X-Billing-Warning":
		return false
	}
	return !strings.HasPrefix(name, "Cf-") && !strings.HasPrefix(name, "X-Headgate-")
}
