package app_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/headgate-ai/headgate/lab/fake"
)

// scripted is a provider that does as the test says and keeps what it saw.
type scripted struct {
	mu     sync.Mutex
	header http.Header
	uri    string
	host   string
	answer func(http.ResponseWriter, *http.Request)
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	s.mu.Lock()
	s.header, s.uri, s.host = r.Header.Clone(), r.RequestURI, r.Host
	answer := s.answer
	s.mu.Unlock()
	answer(w, r)
}

func (s *scripted) got() (http.Header, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.header, s.uri
}

func ok(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"id":"x"}`)
}

func TestRequestHeaders(t *testing.T) {
	t.Parallel()
	s := &scripted{answer: ok}
	g := start(t, setup{Upstream: s, Provider: "headers: {X-Added: \"yes\", X-Both: gateway}"})
	a := g.post("/v1/messages?beta=true&key=sk-evil&x=%2F%20&api_key=y", msgBody,
		"X-Custom", "kept", "X-Both", "client", "Anthropic-Beta", "tools-1", "Anthropic-Version", "2099-01-01",
		"User-Agent", "sdk/1", "Idempotency-Key", "i-1", "X-Stainless-Lang", "js",
		"Connection", "X-Hop, keep-alive", "X-Hop", "1", "Keep-Alive", "5", "Te", "trailers", "Upgrade", "h2c", "Proxy-Connection", "x",
		"Proxy-Authorization", "Basic x", "Cookie", "a=b", "X-Api-Key", "sk-other", "Api-Key", "sk-other", "X-Goog-Api-Key", "sk-other",
		"Openai-Organization", "org", "X-Forwarded-For", "1.2.3.4", "X-Forwarded-Proto", "https", "Forwarded", "for=1.2.3.4",
		"Origin", "http://page", "Referer", "http://page", "X-Headgate-Target", "x", "X-Sim-Fault", "html",
		"Traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01", "Tracestate", "a=b", "Expect", "-")
	if a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.Bytes)
	}
	h, uri := s.got()
	if uri != "/v1/messages?beta=true&x=%2F%20" {
		t.Errorf("the provider got %s", uri)
	}
	for name, want := range map[string]string{
		"X-Custom": "kept", "X-Added": "yes", "X-Both": "gateway", "Anthropic-Beta": "tools-1", "Anthropic-Version": "2099-01-01",
		"User-Agent": "sdk/1", "Idempotency-Key": "i-1", "X-Stainless-Lang": "js", "Content-Type": "application/json",
		"X-Api-Key": upstreamKey, "Tracestate": "a=b", "X-Request-Id": a.ID(),
	} {
		if h.Get(name) != want || len(h.Values(name)) != 1 {
			t.Errorf("%s is %q, want %q", name, h.Values(name), want)
		}
	}
	for _, name := range []string{"X-Hop", "Connection", "Keep-Alive", "Te", "Upgrade", "Proxy-Connection", "Proxy-Authorization", "Cookie", "Authorization",
		"Api-Key", "X-Goog-Api-Key", "Openai-Organization", "X-Forwarded-For", "X-Forwarded-Proto", "Forwarded", "Origin", "Referer", "X-Headgate-Target", "X-Sim-Fault"} {
		if v := h.Values(name); len(v) > 0 {
			t.Errorf("%s: %q has reached the provider", name, v)
		}
	}
	parent := h.Get("Traceparent")
	if !regexp.MustCompile(`^00-0123456789abcdef0123456789abcdef-[0-9a-f]{16}-01$`).MatchString(parent) || strings.Contains(parent[36:], "0123456789abcdef") {
		t.Errorf("traceparent %q", parent)
	}
	if rec := g.record(a.ID()); rec["trace_id"] != "0123456789abcdef0123456789abcdef" || rec["parent_span_id"] != "0123456789abcdef" || rec["upstream_span_id"] != parent[36:52] {
		t.Errorf("record %v", rec)
	}
	s.mu.Lock()
	if "http://"+s.host != g.UpstreamURL {
		t.Errorf("Host %q", s.host)
	}
	s.mu.Unlock()

	// The other dialect has its credential elsewhere.
	g.post(chatPath, chatBody, "User-Agent", "")
	h, uri = s.got()
	if h.Get("Authorization") != "Bearer "+upstreamKey || h.Get("X-Api-Key") != "" || h.Get("Anthropic-Version") != "" || uri != chatPath {
		t.Errorf("%v %s", h, uri)
	}
	if !regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$`).MatchString(h.Get("Traceparent")) {
		t.Errorf("traceparent %q", h.Get("Traceparent"))
	}
	g.post(msgPath, msgBody)
	if h, _ = s.got(); h.Get("Anthropic-Version") == "" {
		t.Error("Anthropic requires a version")
	}
}

func TestResponseHeaders(t *testing.T) {
	t.Parallel()
	s := &scripted{}
	status := 200
	s.answer = func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		for name, value := range map[string]string{
			"X-Custom": "kept", "Openai-Processing-Ms": "12", "X-Request-Id": "req_upstream", "Request-Id": "req_2",
			"X-Ratelimit-Remaining-Tokens": "99", "Anthropic-Ratelimit-Requests-Limit": "5", "Ratelimit-Policy": "x",
			"Set-Cookie": "a=b", "Server": "nginx", "Alt-Svc": "h3", "Strict-Transport-Security": "max-age=1", "Openai-Organization": "org-secret",
			"Connection": "X-Hop", "X-Hop": "1", "Keep-Alive": "timeout=5", "Cf-Ray": "x", "X-Headgate-Target": "evil/model", "X-Response-Mode": "async",
			"Www-Authenticate": "Bearer x", "Via": "1.1 x", "Server-Timing": "evil;dur=1", "X-Should-Retry": "true",
		} {
			h.Set(name, value)
		}
		h.Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if status == 200 {
			_, _ = io.WriteString(w, `{"id":"x"}`)
		} else {
			_, _ = io.WriteString(w, `{"error":{"message":"no","type":"invalid_request_error","param":null,"code":null}}`)
		}
	}
	g := start(t, setup{Upstream: s})
	for _, status = range []int{200, 400} {
		a := g.post(chatPath, chatBody)
		if a.StatusCode != status {
			t.Errorf("%d", a.StatusCode)
		}
		for name, want := range map[string]string{
			"X-Custom": "kept", "Openai-Processing-Ms": "12", "X-Upstream-Request-Id": "req_upstream",
			"Llm_provider-X-Ratelimit-Remaining-Tokens": "99", "Llm_provider-Anthropic-Ratelimit-Requests-Limit": "5",
			"X-Headgate-Target": "openai/sim-small", "X-Response-Mode": "buffered", "X-Headgate-Attempts": "1",
		} {
			if got := a.Header.Values(name); len(got) != 1 || got[0] != want {
				t.Errorf("%d: %s is %q, want %q", status, name, got, want)
			}
		}
		for _, name := range []string{"Set-Cookie", "Server", "Alt-Svc", "Strict-Transport-Security", "Openai-Organization", "X-Hop", "Keep-Alive", "Cf-Ray", "Request-Id",
			"X-Ratelimit-Remaining-Tokens", "Ratelimit-Policy", "Www-Authenticate", "Via", "X-Should-Retry", "Transfer-Encoding"} {
			if v := a.Header.Values(name); len(v) > 0 {
				t.Errorf("%d: %s: %q has reached the client", status, name, v)
			}
		}
		if timing := a.Header.Values("Server-Timing"); len(timing) != 1 || strings.Contains(timing[0], "evil") || !strings.Contains(timing[0], "first_byte;dur=") {
			t.Errorf("Server-Timing %q", timing)
		}
		if a.ID() == "req_upstream" || len(a.Header.Values("X-Request-Id")) != 1 {
			t.Errorf("request id %q", a.Header.Values("X-Request-Id"))
		}
	}
}

func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	s := &scripted{answer: ok}
	g := start(t, setup{Upstream: s, API: "trusted_proxies: [127.0.0.0/8, 10.0.0.0/8]"})
	for forwarded, client := range map[string]string{
		"-":                              "127.0.0.1",
		"203.0.113.9":                    "203.0.113.9",
		"198.51.100.1, 203.0.113.9":      "203.0.113.9", // the first could be the client's own invention
		"203.0.113.9, 10.1.2.3":          "203.0.113.9",
		"10.9.9.9, 10.1.2.3":             "10.9.9.9",
		"nonsense":                       "127.0.0.1",
		"203.0.113.9, nonsense":          "127.0.0.1",
		"::ffff:203.0.113.7":             "203.0.113.7",
		"2001:db8::1":                    "2001:db8::1",
		"1.1.1.1, 203.0.113.9, 10.1.2.3": "203.0.113.9",
	} {
		a := g.post(chatPath, chatBody, "X-Forwarded-For", forwarded, "X-Forwarded-Proto", "https")
		if rec := g.record(a.ID()); rec["client"] != client {
			t.Errorf("%q: client %v, want %s", forwarded, rec["client"], client)
		}
		if h, _ := s.got(); h.Get("X-Forwarded-Proto") != "https" {
			t.Errorf("%v", h)
		}
	}
}

// A8: what of the client's Accept-Encoding reaches the provider, and what of
// the provider's coding reaches the client.
func TestEncodings(t *testing.T) {
	t.Parallel()
	s := &scripted{}
	var encode bool // whether the provider compresses, asked or not
	s.answer = func(w http.ResponseWriter, r *http.Request) {
		kind, body := "application/json", `{"id":"x","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":7}}`
		if r.Header.Get("Accept") == "text/event-stream" {
			kind, body = "text/event-stream", "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":7}}\n\ndata: [DONE]\n\n"
		}
		w.Header().Set("Content-Type", kind)
		if encode {
			w.Header().Set("Content-Encoding", "gzip")
			body = gzipped(body)
		}
		_, _ = io.WriteString(w, body)
	}
	g := start(t, setup{Upstream: s})
	for _, c := range []struct {
		accept   string
		upstream string // for a whole answer; a stream's is always identity
		passed   bool   // a compressed whole answer goes to the client as it is
	}{
		{"-", "identity", false},
		{"identity", "identity", false},
		{"gzip", "gzip", true},
		{"identity;q=1, *;q=0", "identity", false},
		{"gzip;q=0", "identity", false},
		{"br, zstd", "identity", false},
		{"br;q=1.0, gzip;q=0.8", "gzip", true},
	} {
		for _, stream := range []bool{false, true} {
			for _, encode = range []bool{false, true} {
				body := chatBody
				if stream {
					body = strings.Replace(body, "{", `{"stream":true,`, 1)
				}
				a := g.post(chatPath, body, "Accept-Encoding", c.accept)
				what := fmt.Sprintf("%q, stream %v, compressed %v", c.accept, stream, encode)
				want := c.upstream
				if stream {
					want = "identity"
				}
				if h, _ := s.got(); !slices.Equal(h.Values("Accept-Encoding"), []string{want}) {
					t.Errorf("%s: the provider got Accept-Encoding %q, want %q", what, h.Values("Accept-Encoding"), want)
				}
				plain := a.Bytes
				coding := ""
				if passed := c.passed && encode && !stream; passed {
					coding = "gzip"
					z, err := gzip.NewReader(bytes.NewReader(a.Bytes))
					if err != nil {
						t.Errorf("%s: %v", what, err)
						continue
					}
					plain, _ = io.ReadAll(z)
					if !slices.Contains(a.Header.Values("Vary"), "Accept-Encoding") {
						t.Errorf("%s: Vary %q", what, a.Header.Values("Vary"))
					}
				}
				if a.StatusCode != 200 || a.Header.Get("Content-Encoding") != coding || !bytes.Contains(plain, []byte(`"choices"`)) {
					t.Errorf("%s: %d, Content-Encoding %q, %q", what, a.StatusCode, a.Header.Get("Content-Encoding"), plain)
				}
				if stream && !bytes.HasSuffix(plain, []byte("data: [DONE]\n\n")) {
					t.Errorf("%s: %q", what, plain)
				}
				if rec := g.record(a.ID()); within(rec, "usage", "output_tokens") != 7.0 {
					t.Errorf("%s: usage %v", what, rec["usage"])
				}
			}
		}
	}
	// An encoding that no one asked for and that cannot be undone.
	s.mu.Lock()
	s.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "br")
		_, _ = io.WriteString(w, "xxxx")
	}
	s.mu.Unlock()
	if a := g.post(chatPath, chatBody); a.StatusCode != 502 {
		t.Errorf("br: %d %s", a.StatusCode, a.Bytes)
	}
	// A provider's bomb is no way to fill the gateway's memory.
	bomb := gzipped(`{"x":"` + strings.Repeat("x", 8<<20) + `"}`)
	s.mu.Lock()
	s.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, bomb)
	}
	s.mu.Unlock()
	if a := g.post(chatPath, chatBody, "Accept-Encoding", "gzip"); a.StatusCode != 200 && a.StatusCode != 502 {
		t.Errorf("bomb: %d", a.StatusCode)
	}
	// Rubbish that says it is gzip is the provider's fault, not an answer.
	s.mu.Lock()
	s.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "not gzip at all")
	}
	s.mu.Unlock()
	for _, accept := range []string{"gzip", "identity"} {
		if a := g.post(chatPath, chatBody, "Accept-Encoding", accept); a.StatusCode != 502 || !bytes.Contains(a.Bytes, []byte("UPSTREAM_MALFORMED")) {
			t.Errorf("not gzip, accept %s: %d %s", accept, a.StatusCode, a.Bytes)
		}
	}
}

// A10: the body's stream flag decides, and where it says nothing the Accept
// header does.
func TestStreamNegotiation(t *testing.T) {
	t.Parallel()
	g := start(t, setup{})
	for _, accept := range []struct {
		value  string
		events bool // asks for events where the body says nothing
		warn   bool // speaks against a stream
	}{
		{"-", false, false},
		{"*/*", false, false},
		{"application/json", false, true},
		{"text/event-stream", true, false},
		{"application/json, text/event-stream", false, false},
		{"text/event-stream;q=0.9, application/json;q=0.5", true, false},
		{"text/event-stream;q=0", false, false},
		{"text/html", false, false},
	} {
		for _, flag := range []string{"", `"stream":false,`, `"stream":null,`, `"stream":true,`} {
			for _, path := range []string{chatPath, msgPath} {
				body := chatBody
				if path == msgPath {
					body = msgBody
				}
				body = strings.Replace(body, "{", "{"+flag, 1)
				a := g.post(path, body, "Accept", accept.value)
				want := flag == `"stream":true,` || accept.events
				what := fmt.Sprintf("%s, Accept %q, %q", path, accept.value, flag)
				mode, kind := "buffered", "application/json"
				if want {
					mode, kind = "streaming", "text/event-stream"
				}
				if a.StatusCode != 200 || a.Header.Get("X-Response-Mode") != mode || !strings.HasPrefix(a.Header.Get("Content-Type"), kind) || !slices.Contains(a.Header.Values("Vary"), "Accept") {
					t.Errorf("%s: %d %s %v", what, a.StatusCode, a.Header.Get("Content-Type"), a.Header)
				}
				if want && (a.Header.Get("Cache-Control") != "no-cache" || a.Header.Get("X-Accel-Buffering") != "no" || a.Header.Get("Content-Length") != "") {
					t.Errorf("%s: %v", what, a.Header)
				}
				up := g.upstream()
				if got := strings.Contains(string(up.Body), `"stream":true`); got != want {
					t.Errorf("%s: the provider got %s", what, up.Body)
				}
				warned := g.record(a.ID())["warnings"] != nil
				if warned != (accept.warn && flag == `"stream":true,`) {
					t.Errorf("%s: warned %v", what, warned)
				}
			}
		}
	}
	// Where there is nothing to stream, Accept changes nothing.
	a := g.post("/v1/embeddings", `{"model":"chat","input":"x"}`, "Accept", "text/event-stream")
	if a.StatusCode != 200 || a.Header.Get("X-Response-Mode") != "buffered" || strings.Contains(string(g.upstream().Body), "stream") {
		t.Errorf("%d %v %s", a.StatusCode, a.Header, g.upstream().Body)
	}
}

// D1: redirects are passed on and not followed; connections are used again.
func TestSharedPool(t *testing.T) {
	t.Parallel()
	s := &scripted{answer: func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != chatPath {
			t.Errorf("a redirect was followed to %s", r.URL.Path)
		}
		w.Header().Set("Location", "http://elsewhere.example/x")
		w.WriteHeader(http.StatusFound)
		_, _ = io.WriteString(w, "moved")
	}}
	g := start(t, setup{Upstream: s})
	if a := g.post(chatPath, chatBody); a.StatusCode != 302 || a.Header.Get("Location") != "http://elsewhere.example/x" || string(a.Bytes) != "moved" {
		t.Errorf("%d %v %s", a.StatusCode, a.Header, a.Bytes)
	}
	g = start(t, setup{Fake: func(c *fake.Config) { c.Tokens = fake.Count(3) }})
	const calls = 200
	for i := range calls {
		body := chatBody
		if i%2 == 1 {
			body = strings.Replace(body, "{", `{"stream":true,`, 1)
		}
		if a := g.post(chatPath, body); a.StatusCode != 200 {
			t.Fatalf("%d %s", a.StatusCode, a.Bytes)
		}
	}
	wait(t, "all calls to be counted", func() bool { return g.metric("headgate_upstream_connections_total") == calls })
	if reused := g.metric("headgate_upstream_connections_total", `reused="true"`); reused < 0.93*calls {
		t.Errorf("%v of %d calls used a connection again", reused, calls)
	}
}
