package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headgate-ai/headgate/internal/app"
	"github.com/headgate-ai/headgate/internal/config/source/static"
	"github.com/headgate-ai/headgate/lab/fake"
)

// No test may leave a goroutine behind: start's cleanup stops each gateway and
// its provider, and this looks at what is left after the last of them.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The credentials of the standard configuration.
const (
	key         = "sk-headgate-test-0123456789"
	upstreamKey = "sk-upstream-test-9876543210"
)

// setup says how a gateway is to be started; the zero value is a gateway with
// one well-behaved simulated provider that speaks both dialects.
type setup struct {
	// YAML is the whole configuration; API, Provider, Keys and More are then
	// ignored. %s, where it occurs, becomes the provider's address.
	YAML string
	// API, Provider, Keys and More are lines to put into the standard
	// configuration: into server.api, into both providers, into keys, and at the
	// top level. They need no indentation of their own.
	API, Provider, Keys, More string
	// Fake changes the simulated provider's behaviour.
	Fake func(*fake.Config)
	// Upstream answers instead of the simulated provider.
	Upstream http.Handler
}

// Gateway is a gateway that runs on loopback, with its provider.
type Gateway struct {
	*app.App
	t testing.TB
	// URL and AdminURL are the addresses of the two listeners, with http://.
	URL, AdminURL string
	// Key is a key that may do everything.
	Key string
	// Fake is the simulated provider; nil where the setup has its own Upstream.
	Fake *fake.Server
	// UpstreamURL is the provider's address.
	UpstreamURL string
	// Client keeps its connections until the test ends and decodes nothing.
	Client *http.Client
	// Source is the configuration; Set it and Reload.
	Source *static.Source
	// Log is what the gateway has logged so far.
	Log *logBuffer
	// Stop shuts the gateway down and waits; it is called in any case when the
	// test ends.
	Stop func() error
}

// start runs a gateway for the length of the test.
func start(t testing.TB, s setup) *Gateway {
	t.Helper()
	g := &Gateway{t: t, Key: key, Log: &logBuffer{}}
	handler := s.Upstream
	if handler == nil {
		c := fake.Default()
		if s.Fake != nil {
			s.Fake(&c)
		}
		g.Fake = fake.New(c)
		handler = g.Fake
	}
	upstream := httptest.NewServer(handler)
	t.Cleanup(func() { upstream.CloseClientConnections(); upstream.Close() })
	g.UpstreamURL = upstream.URL
	g.Source = static.New("test.yaml", []byte(s.document(upstream.URL)))
	a, err := app.New(t.Context(), app.Options{Source: g.Source, Version: "test", Commit: "0000000", LogOutput: g.Log})
	if err != nil {
		t.Fatal(err)
	}
	g.App, g.URL, g.AdminURL = a, "http://"+a.API(), "http://"+a.Admin()
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 256}
	g.Client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	g.Stop = sync.OnceValue(func() error {
		cancel()
		transport.CloseIdleConnections()
		select {
		case err := <-ended:
			return err
		case <-time.After(15 * time.Second):
			buf := make([]byte, 1<<20)
			return fmt.Errorf("the gateway does not stop:\n%s", buf[:runtime.Stack(buf, true)])
		}
	})
	t.Cleanup(func() {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	})
	wait(t, "ready", func() bool { ok, _ := a.Ready(); return ok })
	return g
}

// document is the configuration. Its grace is short, so that a test with a
// stream that never ends is over soon.
func (s setup) document(upstream string) string {
	if s.YAML != "" {
		return strings.ReplaceAll(s.YAML, "%s", upstream)
	}
	var b strings.Builder
	lines := func(indent, text string) {
		for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
			if line != "" {
				b.WriteString(indent + line + "\n")
			}
		}
	}
	lines("", "server:\n  api:\n    listen: 127.0.0.1:0")
	if !strings.Contains(s.API, "shutdown_grace") {
		lines("    ", "shutdown_grace: 200ms")
	}
	lines("    ", s.API)
	lines("", "  admin: {listen: \"127.0.0.1:0\"}\nproviders:")
	for _, dialect := range []string{"openai", "anthropic"} {
		base := upstream
		if dialect == "openai" {
			base += "/v1"
		}
		lines("  ", "- name: "+dialect+"\n  dialect: "+dialect+"\n  base_url: "+base+"\n  credentials: [{secret: \"literal:"+upstreamKey+"\"}]")
		lines("    ", s.Provider)
	}
	lines("", `models:
  - {name: chat, targets: [{provider: openai, model: sim-small}]}
  - {name: haiku, targets: [{provider: anthropic, model: sim-small}]}
  - {name: claude-*, targets: [{provider: anthropic}]}
  - {name: sim-*, targets: [{provider: openai}]}
  - {name: gpt-*, targets: [{provider: openai}]}
keys:
  - {name: test, secret: "literal:`+key+`", tenant: tests}`)
	lines("  ", s.Keys)
	lines("", s.More)
	return b.String()
}

// answer is a response that has been read to its end. Err is how reading it,
// or sending the request, failed.
type answer struct {
	*http.Response
	Bytes []byte
	Err   error
}

// ID is the request's id.
func (a answer) ID() string { return a.Header.Get("X-Request-Id") }

// JSON decodes the body into a map.
func (a answer) JSON(t testing.TB) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(a.Bytes, &m); err != nil {
		t.Fatalf("%v in %q", err, a.Bytes)
	}
	return m
}

// request makes a request to the gateway with its key. Headers are pairs; a
// value of "-" removes one.
func (g *Gateway) request(method, path string, body io.Reader, headers ...string) *http.Request {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), method, g.URL+path, body)
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+g.Key)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "-" {
			r.Header.Del(headers[i])
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	return r
}

// send sends a request and reads the answer to its end. It may be called from
// any goroutine.
func (g *Gateway) send(r *http.Request) answer {
	res, err := g.Client.Do(r)
	if err != nil {
		return answer{Response: &http.Response{Header: http.Header{}}, Err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return answer{res, b, err}
}

// post sends a JSON body and fails the test if there is no whole answer.
func (g *Gateway) post(path, body string, headers ...string) answer {
	g.t.Helper()
	return g.whole(g.send(g.request("POST", path, strings.NewReader(body), headers...)))
}

// get sends a GET and fails the test if there is no whole answer.
func (g *Gateway) get(path string, headers ...string) answer {
	g.t.Helper()
	return g.whole(g.send(g.request("GET", path, nil, headers...)))
}

func (g *Gateway) whole(a answer) answer {
	g.t.Helper()
	if a.Err != nil {
		g.t.Fatal(a.Err)
	}
	return a
}

// admin calls the operators' listener; headers are pairs.
func (g *Gateway) admin(method, path string, headers ...string) answer {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), method, g.AdminURL+path, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	return g.whole(g.send(r))
}

// record is the closed record of a request, as GET /admin/v1/requests/{id}
// shows it. The record is closed after the last byte, so it is waited for.
func (g *Gateway) record(id string) map[string]any {
	g.t.Helper()
	var a answer
	wait(g.t, "the record of "+id, func() bool {
		a = g.admin("GET", "/admin/v1/requests/"+url.PathEscape(id))
		return a.StatusCode == http.StatusOK
	})
	return a.JSON(g.t)
}

// metric is the sum of all samples of a metric whose labels contain every one
// of the given pairs, written as name="value".
func (g *Gateway) metric(name string, labels ...string) (sum float64) {
	g.t.Helper()
	for line := range strings.SplitSeq(string(g.admin("GET", "/metrics").Bytes), "\n") {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		i := strings.LastIndexByte(rest, ' ')
		found := true
		for _, l := range labels {
			found = found && strings.Contains(rest[:i], l)
		}
		var v float64
		if _, err := fmt.Sscan(rest[i+1:], &v); found && err == nil {
			sum += v
		}
	}
	return sum
}

// upstream is the latest request that the simulated provider has seen.
func (g *Gateway) upstream() fake.Request {
	g.t.Helper()
	all := g.Fake.Requests()
	if len(all) == 0 {
		g.t.Fatal("no request has reached the provider")
	}
	return all[len(all)-1]
}

// reload replaces the configuration.
func (g *Gateway) reload(yaml string) error {
	g.Source.Set([]byte(yaml))
	return g.Reload(g.t.Context())
}

// wait returns when ok does, and fails the test if that takes too long.
func wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still waiting for: %s", what)
		}
	}
}

// within is v's member at a path of keys and indexes; nil where there is none.
func within(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// logBuffer collects log lines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestHarness(t *testing.T) {
	g := start(t, setup{})
	a := g.post("/v1/chat/completions", `{"model":"chat","messages":[{"role":"user","content":"hi"}]}`)
	if a.StatusCode != 200 || g.record(a.ID())["target"] != "openai/sim-small" {
		t.Errorf("%d %s", a.StatusCode, a.Bytes)
	}
}
