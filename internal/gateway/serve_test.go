package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/authn"
	"github.com/headgate-ai/headgate/internal/edge"
	"github.com/headgate-ai/headgate/internal/gateway"
	"github.com/headgate-ai/headgate/internal/journal"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/route"
	"github.com/headgate-ai/headgate/internal/setting"
	"github.com/headgate-ai/headgate/internal/stream"
	"github.com/headgate-ai/headgate/internal/upstream"
	"github.com/headgate-ai/headgate/lab/race"
)

// still is a client that has sent its body and takes whatever comes, without
// allocating, so that what is counted is the gateway's.
type still struct {
	header  http.Header
	status  int
	n       int
	limited bool // it was told of a limit
}

func (s *still) Header() http.Header         { return s.header }
func (s *still) WriteHeader(status int)      { s.status = status }
func (s *still) Write(p []byte) (int, error) { s.n += len(p); return len(p), nil }
func (s *still) FlushError() error           { return nil }

// The loop for inference calls takes fields without a map, so this does, too.
func (s *still) BeginHead(status int) { s.status = status }
func (*still) Put(string, string)     {}
func (s *still) PutBytes(n string, _ []byte) {
	s.limited = s.limited || n == "X-Ratelimit-Limit-Tokens"
}
func (*still) EndHead() {}

func (*still) SetReadDeadline(time.Time) error  { return nil }
func (*still) SetWriteDeadline(time.Time) error { return nil }

// provider is a model provider that answers every request with the same bytes
// and allocates nothing while it does.
func provider(t testing.TB, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answerAll(c, []byte(answer))
		}
	}()
	return "http://" + l.Addr().String() + "/v1"
}

func answerAll(c net.Conn, answer []byte) {
	defer c.Close()
	br := bufio.NewReaderSize(c, 64<<10)
	for {
		length := 0
		for {
			line, err := br.ReadSlice('\n')
			if err != nil {
				return
			}
			if n, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
				for _, d := range bytes.TrimSpace(n) {
					length = length*10 + int(d-'0')
				}
			}
			if len(line) <= 2 {
				break
			}
		}
		if _, err := br.Discard(length); err != nil {
			return
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

func build(t testing.TB, base string) *gateway.Gateway {
	t.Helper()
	cfg := journal.Default()
	j, err := journal.New(journal.Options{Config: cfg, Output: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Shutdown(context.Background()) })
	g := &gateway.Gateway{Authn: authn.New(), Quota: quota.New(), Upstream: upstream.New(), Journal: j}
	t.Cleanup(g.Upstream.Close)
	var p setting.Problems
	pc := upstream.ProviderConfig{}
	pc.SetDefaults()
	pc.Name, pc.Dialect, pc.BaseURL = "up", llm.OpenAI, base
	pc.Credentials = []upstream.CredentialConfig{{Secret: setting.NewSecret("literal:sk-up"), Weight: 1}}
	s := &gateway.Snapshot{}
	s.Edge = new(edge.Default()).Compile()
	keys := &authn.Config{Keys: []authn.KeyConfig{{Name: "k", Secret: setting.NewSecret("literal:sk-client")}}}
	s.Authn, _ = keys.Compile(&p)
	s.Upstream, _ = g.Upstream.Compile([]upstream.ProviderConfig{pc}, &p)
	s.Route = (&route.Config{Providers: []string{"up"}, Models: []route.ModelConfig{{Name: "chat", Targets: []route.TargetConfig{{Provider: "up", Model: "gpt-real", Weight: 1}}}}}).Compile()
	s.Stream = new(stream.Default()).Compile()
	if s.Journal, err = cfg.Compile(); err != nil {
		t.Fatal(err)
	}
	if len(p) > 0 {
		t.Fatal(p)
	}
	g.Adopt(s)
	return g
}

// exchange is one request, made to be served again and again.
type exchange struct {
	g    *gateway.Gateway
	req  *http.Request
	body *strings.Reader
	text string
	w    *still
}

func newExchange(g *gateway.Gateway, body string) *exchange {
	req, _ := http.NewRequest("POST", "http://gateway/v1/chat/completions", nil)
	req.RemoteAddr = "192.0.2.1:4711"
	for name, value := range map[string]string{"Authorization": "Bearer sk-client", "Content-Type": "application/json", "User-Agent": "OpenAI/Go 3.0", "Accept": "application/json"} {
		req.Header.Set(name, value)
	}
	return &exchange{g, req, strings.NewReader(body), body, &still{header: http.Header{}}}
}

func (e *exchange) serve() {
	e.body.Reset(e.text)
	e.req.Body, e.req.ContentLength = io.NopCloser(e.body), int64(len(e.text))
	clear(e.w.header)
	e.w.status, e.w.n = 0, 0
	e.g.ServeHTTP(e.w, e.req)
}

const unaryAnswer = `{"id":"c","object":"chat.completion","created":1,"model":"gpt-real","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}`

func unary() string {
	return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(unaryAnswer)) + "\r\n\r\n" + unaryAnswer
}

func streamed(tokens int) string {
	var b strings.Builder
	b.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	chunk := func(s string) { fmt.Fprintf(&b, "%x\r\n%s\r\n", len(s), s) }
	for range tokens {
		chunk("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" tok\"},\"finish_reason\":null}]}\n\n")
	}
	chunk("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n")
	chunk("data: [DONE]\n\n")
	b.WriteString("0\r\n\r\n")
	return b.String()
}

const (
	askUnary  = `{"model":"chat","messages":[{"role":"user","content":"hello there"}]}`
	askStream = `{"model":"chat","stream":true,"messages":[{"role":"user","content":"hello there"}]}`
)

// perRequest is what an exchange allocates each time, in objects and bytes. It
// is the same each time, whatever else the machine does: nothing is collected
// meanwhile, because a collection empties the pools, and one processor does it
// all, because each has pools of its own. Now and then the journal enters a
// batch of records into the metrics, which meets new ranges of latency; so the
// least of many series counts, which has none of that in it.
func perRequest(e *exchange) (objects, bytes uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const series, requests = 40, 25
	objects, bytes = math.MaxUint64, math.MaxUint64
	var before, after runtime.MemStats
	for range series {
		runtime.ReadMemStats(&before)
		for range requests {
			e.serve()
		}
		runtime.ReadMemStats(&after)
		objects, bytes = min(objects, (after.Mallocs-before.Mallocs)/requests), min(bytes, (after.TotalAlloc-before.TotalAlloc)/requests)
	}
	return objects, bytes
}

// The budgets are what a request may allocate from its first byte to its last,
// journal and both halves of the provider's exchange included. Raise one only
// with a reason that a profile gave.
func TestAllocationBudgets(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	for _, c := range []struct {
		name, answer, ask string
		budget            uint64
	}{
		{"unary", unary(), askUnary, 30},
		{"stream of 100 tokens", streamed(100), askStream, 43},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newExchange(build(t, provider(t, c.answer)), c.ask)
			e.serve()
			if e.w.status != 200 || e.w.n == 0 {
				t.Fatalf("status %d, %d bytes", e.w.status, e.w.n)
			}
			got, bytes := perRequest(e)
			t.Logf("%d allocations, %d bytes", got, bytes)
			if got > c.budget {
				t.Errorf("%d allocations a request, the budget is %d", got, c.budget)
			}
		})
	}
}

func BenchmarkServeUnary(b *testing.B)  { benchmarkServe(b, unary(), askUnary) }
func BenchmarkServeStream(b *testing.B) { benchmarkServe(b, streamed(100), askStream) }

func benchmarkServe(b *testing.B, answer, ask string) {
	e := newExchange(build(b, provider(b, answer)), ask)
	b.ReportAllocs()
	for b.Loop() {
		e.serve()
	}
}

// A provider that repeats its credential in an error event does not get it
// through to the client.
func TestErrorEventsDoNotLeak(t *testing.T) {
	answer := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" +
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"tok\"}}]}\n\n" +
		"data: {\"error\":{\"message\":\"bad key sk-up\",\"type\":\"server_error\",\"code\":null}}\n\n"
	e := newExchange(build(t, provider(t, answer)), askStream)
	e.body.Reset(e.text)
	e.req.Body, e.req.ContentLength = io.NopCloser(e.body), int64(len(e.text))
	w := httptest.NewRecorder()
	e.g.ServeHTTP(w, e.req)
	got := w.Body.String()
	if strings.Contains(got, "sk-up") || !strings.Contains(got, `"content":"tok"`) || !strings.Contains(got, `"error":`) {
		t.Errorf("the client got\n%s", got)
	}
}
