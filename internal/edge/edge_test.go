package edge

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
	"github.com/headgate-ai/headgate/internal/wire"
)

func TestSaneID(t *testing.T) {
	for id, sane := range map[string]bool{
		"a": true, strings.Repeat("x", 128): true, "req_1/2:3": true,
		"": false, strings.Repeat("x", 129): false, "a b": false, "a\tb": false, "a\"": false, `a\`: false, "é": false, "a\x7f": false,
	} {
		if saneID(id) != sane {
			t.Errorf("%q: %v", id, !sane)
		}
	}
	seen := map[string]bool{}
	for range 1000 {
		id := mintID()
		if !saneID(id) || len(id) != 28 || seen[id] {
			t.Fatalf("minted %q", id)
		}
		seen[id] = true
	}
}

func TestUpstreamQuery(t *testing.T) {
	for raw, want := range map[string]string{
		"": "", "key=x": "", "a=1": "?a=1", "a=1&key=x&b=%2F+": "?a=1&b=%2F+", "KEY=x&k%65y=y&api_key=z&access_token=t&a": "?a",
		"%zz=1&a=1": "?a=1", "monkey=1": "?monkey=1", "a=key=x": "?a=key=x",
	} {
		if got := upstreamQuery(raw); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
}

func TestPrefersEvents(t *testing.T) {
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "text/event-stream": true, "Text/Event-Stream; charset=utf-8": false, "text/event-stream;q=0": false,
		"text/event-stream, application/json": false, "application/json;q=0.9, text/event-stream": true, "text/event-stream;q=0.1, */*": true,
		"text/event-stream;q=nonsense": false, ", ,text/event-stream": true,
	} {
		if got := prefersEvents(http.Header{"Accept": {accept}}); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		method, target, version string
		pattern, id             string
		dialect                 llm.Dialect
		allow                   []string
	}{
		{"POST", "/v1/chat/completions?x=1", "", "/v1/chat/completions", "", llm.OpenAI, nil},
		{"GET", "/v1/models", "2023-06-01", "/v1/models", "", llm.Anthropic, nil},
		{"HEAD", "/v1/models", "", "/v1/models", "", llm.OpenAI, nil},
		{"GET", "/v1/models/a%2Fb%20c:d", "", "/v1/models/{id}", "a/b c:d", llm.OpenAI, nil},
		{"GET", "/anthropic/v1/models/x", "", "/v1/models/{id}", "x", llm.Anthropic, nil},
		{"POST", "/v1/models/x", "", "", "x", llm.OpenAI, []string{"GET"}},
		{"GET", "/anthropic/v2/messages", "", "", "", llm.OpenAI, nil},
		{"GET", "/anthropicv1/messages", "", "", "", llm.OpenAI, nil},
		{"POST", "/openai/v1/messages", "", "/v1/messages", "", llm.Anthropic, nil},
	} {
		r := httptest.NewRequest(c.method, c.target, nil)
		if c.version != "" {
			r.Header.Set("Anthropic-Version", c.version)
		}
		route, id, allow, d := find(r)
		pattern := ""
		if route != nil {
			pattern = route.Pattern
		}
		if pattern != c.pattern || route != nil && id != c.id || !slices.Equal(allow, c.allow) || d != c.dialect {
			t.Errorf("%s %s: %q, id %q, allow %v, %s", c.method, c.target, pattern, id, allow, d)
		}
	}
	ids := map[string]bool{}
	for i := range routes {
		ids[operationID(&routes[i])] = true
		if routes[i].Summary == "" || routes[i].Op == "" || routes[i].Upstream == "" && routes[i].Op != llm.LimitStatus {
			t.Errorf("%+v", routes[i])
		}
	}
	if len(ids) != len(routes) {
		t.Errorf("%d ids for %d routes", len(ids), len(routes))
	}
}

// A fault before the answer has begun is a whole answer; a client that is gone
// gets none, and never an empty 200.
func TestFail(t *testing.T) {
	c := Default()
	p := c.Compile()
	for _, k := range fault.Kinds() {
		w := httptest.NewRecorder()
		x, err := Open(&p, w, httptest.NewRequest("POST", "/v1/chat/completions", nil))
		if err != nil {
			t.Fatal(err)
		}
		cut := x.Fail(&fault.Error{Kind: k})
		gone := k.Status() == 499
		if cut != gone || x.Status() != k.Status() || x.Begun() == gone || !gone && w.Code != k.Status() {
			t.Errorf("%s: cut %v, status %d, wrote %d", k, cut, x.Status(), w.Code)
		}
	}
	w := httptest.NewRecorder()
	x, _ := Open(&p, w, httptest.NewRequest("POST", "/v1/chat/completions", nil))
	x.Answer(200, Buffered, nil)
	_, _ = x.Write([]byte("{"))
	if !x.Fail(&fault.Error{Kind: fault.UpstreamTruncated}) || w.Body.String() != "{" {
		t.Errorf("an answer that breaks off is not cut: %q", w.Body)
	}
	w = httptest.NewRecorder()
	x, _ = Open(&p, w, httptest.NewRequest("POST", "/v1/messages", nil))
	x.Answer(200, Streaming, nil)
	x.Begin()
	if x.Fail(&fault.Error{Kind: fault.UpstreamTruncated}) || !strings.HasPrefix(w.Body.String(), "event: error\n") {
		t.Errorf("a stream that breaks off: %q", w.Body)
	}
}

func TestRetryHeaders(t *testing.T) {
	h := http.Header{}
	retryHeaders(wire.Header(h), &fault.Error{RetryAfter: 1_000_000_001, Final: true})
	if h.Get("Retry-After") != "2" || h.Get("Retry-After-Ms") != "1001" || h.Get("X-Should-Retry") != "false" {
		t.Errorf("%v", h)
	}
	h = http.Header{}
	if retryHeaders(wire.Header(h), &fault.Error{}); len(h) != 0 {
		t.Errorf("%v", h)
	}
}

func TestMistakes(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"server.api.listen":             func(c *Config) { c.Listen = "nowhere" },
		"server.api.max_body":           func(c *Config) { c.MaxBody = 1 },
		"server.api.max_header":         func(c *Config) { c.MaxHeader = 1 },
		"server.api.max_streams":        func(c *Config) { c.MaxStreams = 0 },
		"server.api.max_connections":    func(c *Config) { c.MaxConnections = -1 },
		"server.api.request_id":         func(c *Config) { c.RequestID = "maybe" },
		"server.api.trusted_proxies[0]": func(c *Config) { c.TrustedProxies = []string{"10.0.0.1"} },
		"server.api.body_timeout":       func(c *Config) { c.BodyTimeout = 0 },
		"server.api.tls.min_version":    func(c *Config) { c.TLS.MinVersion = "1.1" },
		"server.api.tls.key":            func(c *Config) { c.TLS.Cert = "config.go" },
	} {
		c := Default()
		change(&c)
		var p setting.Problems
		c.Validate("server.api", &p)
		if len(p) != 1 || p[0].Path != want {
			t.Errorf("%s: %v", want, p)
		}
	}
	c := Default()
	var p setting.Problems
	if c.Validate("server.api", &p); len(p) > 0 {
		t.Error(p)
	}
}
