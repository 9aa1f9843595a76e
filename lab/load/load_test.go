package load

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headgate-ai/headgate/lab/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// provider runs a simulated provider.
func provider(t *testing.T, change func(*fake.Config)) (*fake.Server, string) {
	t.Helper()
	c := fake.Default()
	c.Stamp = true
	if change != nil {
		change(&c)
	}
	s := fake.New(c)
	return s, serve(t, s)
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func run(t *testing.T, c Config) *Report {
	t.Helper()
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// small is a short run against a URL.
func small(url string) Config {
	c := Default()
	c.URL, c.Model, c.Duration, c.Requests, c.Connections, c.Timeout = url, "sim-small", 5*time.Second, 40, 4, 5*time.Second
	return c
}

func TestSessionsShareAPrefixAndAUser(t *testing.T) {
	for _, dialect := range []string{OpenAI, Anthropic} {
		c := small("http://127.0.0.1:1")
		c.Dialect, c.PromptBytes, c.Model = dialect, 500, `odd "name"`
		m, err := newMaker(&c)
		if err != nil {
			t.Fatal(err)
		}
		var prompts, users []string
		for i, session := range []int{3, 3, 4, 0} {
			var body struct {
				Model, User string
				Messages    []struct{ Content string }
				Metadata    struct {
					UserID string `json:"user_id"`
				}
			}
			if err := json.Unmarshal(m.body(i, session), &body); err != nil {
				t.Fatal(err)
			}
			if body.Model != c.Model || len(body.Messages[0].Content) != 500 {
				t.Errorf("%s: model %q, prompt of %d bytes", dialect, body.Model, len(body.Messages[0].Content))
			}
			prompts, users = append(prompts, body.Messages[0].Content), append(users, body.User+body.Metadata.UserID)
		}
		if want := []string{"session-3", "session-3", "session-4", ""}; !slices.Equal(users, want) {
			t.Errorf("%s: users %q", dialect, users)
		}
		if prompts[0][:250] != prompts[1][:250] || prompts[0] == prompts[1] || prompts[0][:20] == prompts[2][:20] {
			t.Errorf("%s: prompts of sessions: %q", dialect, prompts)
		}
	}
}

// A server that stands still for a second, and is quick otherwise: the one
// request that it held is 1 % of 200, but half of them fell due meanwhile.
func TestOpenLoopChargesAStallToAllThatWasDue(t *testing.T) {
	var stall sync.Mutex
	var once sync.Once
	begun := time.Now()
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		stall.Lock() // one at a time, so that few are in flight
		defer stall.Unlock()
		if time.Since(begun) > 300*time.Millisecond {
			once.Do(func() { time.Sleep(time.Second) })
		}
		_, _ = io.WriteString(w, `{}`)
	}))
	c := small(url)
	c.Rate, c.Duration, c.Requests, c.InFlight = 100, 2*time.Second, 10_000, 2
	r := run(t, c)
	if r.OK != 200 || r.Failed != 0 {
		t.Fatalf("%d ok, %d failed", r.OK, r.Failed)
	}
	if r.Latency.P99 < 900 || r.Latency.P90 < 600 {
		t.Errorf("the stall is hidden: p90 %v ms, p99 %v ms", r.Latency.P90, r.Latency.P99)
	}
	if r.Service.P95 > 500 {
		t.Errorf("the comparison says nothing: service p95 %v ms", r.Service.P95)
	}
	// The closed loop is blind to it; that it is tells the two apart.
	begun, once = time.Now(), sync.Once{}
	c.Rate, c.Connections = 0, 1
	c.Requests = 400
	if r := run(t, c); r.Latency.P99 > 500 {
		t.Errorf("the comparison says nothing: closed loop, p99 %v ms of %d", r.Latency.P99, r.OK)
	}
}

func TestBoth(t *testing.T) {
	for _, dialect := range []string{OpenAI, Anthropic} {
		for _, stream := range []bool{false, true} {
			s, url := provider(t, func(c *fake.Config) { c.Keys = []string{"sk-load"}; c.Tokens = fake.Count(20) })
			c := small(url)
			c.Dialect, c.Stream, c.Key, c.Header = dialect, stream, "sk-load", http.Header{"X-Sim-First-Token": {"5ms"}}
			r := run(t, c)
			if r.OK != 40 || r.Failed != 0 || r.Loop != "closed" {
				t.Fatalf("%s, stream %v: %d ok, errors %v", dialect, stream, r.OK, r.Examples)
			}
			if got := s.Stats().Requests; got != 40 {
				t.Errorf("%d requests arrived", got)
			}
			if r.Latency.P50 < 5 || r.Phases.FirstByte.Count != 40 || r.Phases.Connect.Count == 0 || r.Phases.TLS.Count != 0 || r.Reused < .8 {
				t.Errorf("%s: %+v, reused %v", dialect, r.Phases, r.Reused)
			}
			if !stream {
				continue
			}
			if r.Tokens != (Tokens{Received: 800}) || r.TTFT.P50 < 5 || r.Gap.Count != 760 || r.Added.Count != 800 || r.Added.P50 > 1000 {
				t.Errorf("%s: %+v, ttft %+v, added %+v", dialect, r.Tokens, r.TTFT, r.Added)
			}
		}
	}
}

func TestFaultsAreToldApart(t *testing.T) {
	for fault, want := range map[string]Kind{
		"status=503": Status, "fault=no-done": Truncated, "fault=abort": Truncated, "fault=malformed": Malformed, "fault=error-event": Refused,
		"fault=cut-json": Truncated, "reset-after=0": Transport, "fault=stall": Timeout, "fault=unary": Malformed,
	} {
		_, url := provider(t, nil)
		c := small(url)
		c.Stream, c.Requests, c.Timeout = true, 3, 300*time.Millisecond
		c.Model = "sim-small+" + fault
		r := run(t, c)
		if r.Failed != 3 || r.Errors[want] != 3 {
			t.Errorf("%s: %v, %v", fault, r.Errors, r.Examples)
		}
	}
	c := small("http://127.0.0.1:1")
	c.Requests = 2
	if r := run(t, c); r.Errors[Transport] != 2 {
		t.Errorf("no server: %v", r.Errors)
	}
}

func TestWholeAnswersAreChecked(t *testing.T) {
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/short/") {
			w.Header().Set("Content-Length", "100")
		}
		_, _ = io.WriteString(w, `{"choices":[`)
	}))
	for path, want := range map[string]Kind{"/short": Truncated, "/bad": Malformed} {
		c := small(url + path)
		c.Requests = 2
		if r := run(t, c); r.Errors[want] != 2 {
			t.Errorf("%s: %v %v", path, r.Errors, r.Examples)
		}
	}
}

func TestPatternsAndBoundsHold(t *testing.T) {
	_, url := provider(t, nil)
	for _, p := range Patterns {
		c := small(url)
		c.Rate, c.Pattern, c.Requests, c.Period, c.BurstLength, c.Duration = 400, p, 50, 200*time.Millisecond, 50*time.Millisecond, time.Second
		if r := run(t, c); r.OK == 0 || r.OK > 50 || r.Pattern != p || r.Loop != "open" {
			t.Errorf("%s: %d ok, %v", p, r.OK, r.Examples)
		}
	}
	c := small(url)
	c.Duration, c.Requests = 200*time.Millisecond, 1_000_000
	if r := run(t, c); r.Elapsed > 3 || r.OK == 0 {
		t.Errorf("the time does not bound: %v s, %d ok", r.Elapsed, r.OK)
	}
}

func TestEndBreaksOff(t *testing.T) {
	_, url := provider(t, func(c *fake.Config) { c.FirstToken = fake.Wait(time.Minute) })
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	c := small(url)
	c.Duration, c.Timeout = time.Minute, time.Minute
	r, err := Run(ctx, c)
	if err != nil || r.Elapsed > 5 || r.Aborted != 4 || r.Failed != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestHTTP2AndFresh(t *testing.T) {
	_, plain := provider(t, nil)
	c := small(plain)
	c.Fresh = true
	if r := run(t, c); r.OK != 40 || r.Reused != 0 || r.Phases.Connect.Count != 40 {
		t.Errorf("fresh: %d ok, %v reused, %d connects", r.OK, r.Reused, r.Phases.Connect.Count)
	}
	server := httptest.NewUnstartedServer(fake.New(fake.Default()))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	c = small(server.URL)
	c.HTTP2, c.Insecure, c.Stream = true, true, true
	if r := run(t, c); r.OK != 40 || r.Phases.TLS.Count == 0 {
		t.Errorf("http2: %d ok, %v, %d handshakes", r.OK, r.Examples, r.Phases.TLS.Count)
	}
}

// TestClients: plain HTTP/1.1 goes through our own client, what it does not
// speak and headers that are not just sent through net/http, all alike.
func TestClients(t *testing.T) {
	var closes atomic.Int64
	answer := func(w http.ResponseWriter, r *http.Request) {
		if r.Close {
			closes.Add(1)
		}
		if want := r.URL.Query().Get("want"); want != strings.Join(r.Header["X-A"], ",") {
			http.Error(w, want, http.StatusBadRequest)
		}
		_, _ = io.WriteString(w, "{}")
	}
	url := serve(t, http.HandlerFunc(answer))
	secure := httptest.NewTLSServer(http.HandlerFunc(answer))
	defer secure.Close()
	for _, tt := range []struct {
		url    string
		header http.Header
		own    bool
	}{
		{url, nil, true},
		{url + "/v1?want=1,2", http.Header{"X-A": {"1", "2"}}, true},
		{url, http.Header{"connection": {"close"}}, false},
		{secure.URL, nil, false},
	} {
		c := small(tt.url)
		c.Header, c.Insecure = tt.header, true
		m, err := newMaker(&c)
		if err != nil {
			t.Fatal(err)
		}
		if _, own := newClient(&c, m).(*ownClient); own != tt.own {
			t.Errorf("%s, %v: own client %v", tt.url, tt.header, own)
		}
		r := run(t, c)
		if r.OK != 40 || r.Phases.FirstByte.Count != 40 || r.Phases.Connect.Count == 0 {
			t.Errorf("%s: %d ok, %v, phases %+v", tt.url, r.OK, r.Examples, r.Phases)
		}
	}
	if n := closes.Load(); n != 40 {
		t.Errorf("%d requests closed their connections", n)
	}
	c := small(url)
	c.Header = http.Header{"X-A": {"a\r\nb"}}
	if _, err := Run(t.Context(), c); err == nil {
		t.Error("a header that would be two is sent")
	}
}

func TestProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc")
	}
	_, url := provider(t, nil)
	c := small(url)
	c.PID, c.Requests = os.Getpid(), 2000
	r := run(t, c)
	if r.Process == nil || r.Process.CPU <= 0 || r.Process.CPUPerRequest <= 0 || r.Process.PeakRSS < 1<<20 {
		t.Errorf("%+v", r.Process)
	}
	c.PID = 1 << 30
	if _, err := Run(t.Context(), c); err == nil {
		t.Error("a process that does not exist can be measured")
	}
}

func TestReportAsJSONAndTable(t *testing.T) {
	_, url := provider(t, func(c *fake.Config) { c.ErrorRate = .3 })
	c := small(url)
	c.Stream, c.Rate = true, 200
	told := make(chan Progress, 100)
	c.Progress = func(p Progress) { told <- p }
	c.Requests = 150
	r := run(t, c)
	if len(told) == 0 {
		t.Error("no progress was told")
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"target", "loop", "pattern", "requests", "ok", "failed", "requests_per_s", "tokens_per_s", "latency_ms", "service_ms", "ttft_ms", "gap_ms", "added_ms", "phases_ms", "errors", "statuses", "tokens", "series", "elapsed_s", "connections_reused"} {
		if _, ok := back[name]; !ok {
			t.Errorf("the JSON lacks %s: %s", name, b)
		}
	}
	if back["latency_ms"].(map[string]any)["p99"].(float64) <= 0 || back["errors"].(map[string]any)["status"].(float64) <= 0 {
		t.Errorf("%s", b)
	}
	var text bytes.Buffer
	if err := r.WriteTable(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"open loop, 200/s, constant", "latency, from when due", "added to a token", "phase first byte", "0 lost", "status, such as: 503"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, text.String())
		}
	}
}

func TestSVGIsXML(t *testing.T) {
	_, url := provider(t, nil)
	c := small(url + "/a&b<c")
	for _, rep := range []*Report{run(t, small(url)), run(t, c), {}} {
		var b bytes.Buffer
		if err := rep.WriteSVG(&b); err != nil {
			t.Fatal(err)
		}
		if s := b.String(); strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
			t.Error("the plot has places that are none")
		}
		names := map[string]int{}
		for dec := xml.NewDecoder(&b); ; {
			tok, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if e, ok := tok.(xml.StartElement); ok {
				names[e.Name.Local]++
			}
		}
		if names["svg"] != 1 || names["polyline"] < 2 || names["text"] < 8 {
			t.Errorf("%v", names)
		}
	}
}
