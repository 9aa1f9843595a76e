package h1

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/lab/race"
)

// fixed answers as a provider does: 16 fields, lower case, and a body.
func fixed(bodySize int) string {
	return okHead + "date: Sun, 29 Nov 2026 20:00:00 GMT\r\ncontent-type: application/json\r\n" +
		"content-length: " + strconv.Itoa(bodySize) + "\r\nconnection: keep-alive\r\nopenai-version: 2020-10-01\r\n" +
		"openai-processing-ms: 312\r\nopenai-organization: org\r\nx-ratelimit-limit-requests: 10000\r\n" +
		"x-ratelimit-limit-tokens: 200000\r\nx-ratelimit-remaining-requests: 9999\r\nx-ratelimit-remaining-tokens: 199000\r\n" +
		"x-ratelimit-reset-requests: 8ms\r\nx-request-id: req_0123456789abcdef\r\nserver: cloudflare\r\ncf-ray: 8f\r\n" +
		"alt-svc: h3=\":443\"\r\n\r\n" + strings.Repeat("x", bodySize)
}

// answerer is a server that allocates nothing an exchange, so that a count of
// allocations is the client's.
func answerer(t testing.TB, answer string) string {
	out := []byte(answer)
	s := rawServer(t, func(c net.Conn) {
		p := make([]byte, 256<<10)
		for {
			n, need := 0, -1
			for need < 0 || n < need {
				k, err := c.Read(p[n:])
				if err != nil {
					return
				}
				if n += k; need < 0 {
					need = whole(p[:n])
				}
			}
			if _, err := c.Write(out); err != nil {
				return
			}
		}
	})
	return s.url()
}

var lengthField, headEnd = "Content-Length: ", "\r\n\r\n"

// whole gives the length of a request, or -1.
func whole(b []byte) int {
	end := index(b, headEnd)
	if end < 0 {
		return -1
	}
	n := 0
	if i := index(b, lengthField); i >= 0 {
		for _, c := range b[i+len(lengthField):] {
			if c < '0' || c > '9' {
				break
			}
			n = n*10 + int(c-'0')
		}
	}
	return end + 4 + n
}

func index(b []byte, s string) int {
	for i := 0; i+len(s) <= len(b); i++ {
		if string(b[i:i+len(s)]) == s {
			return i
		}
	}
	return -1
}

// unary makes exchanges as the gateway does: a cancellable context, four
// fields, a body in memory, and an answer read into one buffer.
type unary struct {
	rt   http.RoundTripper
	req  http.Request
	ctx  context.Context
	body string
	p    []byte
}

func newUnary(t testing.TB, rt http.RoundTripper, url string, size int) *unary {
	u := &unary{rt: rt, body: strings.Repeat("x", size), p: make([]byte, 128<<10)}
	u.req = *newRequest(t, "POST", url+"/v1/chat/completions", "")
	u.req.Header = http.Header{
		"Authorization": {"Bearer sk-0123456789"}, "Content-Type": {"application/json"},
		"Accept": {"application/json"}, "User-Agent": {"headgate"},
	}
	var cancel context.CancelFunc
	u.ctx, cancel = context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return u
}

func (u *unary) do(t testing.TB) {
	req := u.req.WithContext(u.ctx)
	req.Body, req.ContentLength = newMemory(u.body), int64(len(u.body))
	if u.rt != nil {
		if _, ours := u.rt.(*Transport); !ours {
			req.Body = io.NopCloser(strings.NewReader(u.body))
		}
	}
	resp, err := u.rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	for {
		_, err := resp.Body.Read(u.p)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	resp.Body.Close()
}

func transports(b *testing.B, f func(b *testing.B, rt http.RoundTripper)) {
	b.Run("h1", func(b *testing.B) { f(b, newTransport(b, Config{})) })
	b.Run("std", func(b *testing.B) {
		std := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1024}
		defer std.CloseIdleConnections()
		f(b, std)
	})
}

func BenchmarkUnary(b *testing.B) { benchUnary(b, 600, 800) }
func BenchmarkLarge(b *testing.B) { benchUnary(b, 64<<10, 64<<10) }

func benchUnary(b *testing.B, in, out int) {
	transports(b, func(b *testing.B, rt http.RoundTripper) {
		u := newUnary(b, rt, answerer(b, fixed(out)), in)
		u.do(b)
		b.ReportAllocs()
		for b.Loop() {
			u.do(b)
		}
	})
}

func BenchmarkUnaryParallel(b *testing.B) {
	transports(b, func(b *testing.B, rt http.RoundTripper) {
		url := answerer(b, fixed(800))
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			u := newUnary(b, rt, url, 600)
			for pb.Next() {
				u.do(b)
			}
		})
	})
}

// BenchmarkStream reads 100 events, each a chunk and a write of its own.
func BenchmarkStream(b *testing.B) {
	event := []byte("40\r\n" + strings.Repeat("e", 64) + "\r\n")
	head := []byte(okHead + "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
	end := []byte("0\r\n\r\n")
	transports(b, func(b *testing.B, rt http.RoundTripper) {
		s := rawServer(b, func(c net.Conn) {
			p := make([]byte, 4096)
			for {
				if _, err := c.Read(p); err != nil {
					return
				}
				_, _ = c.Write(head)
				for range 100 {
					_, _ = c.Write(event)
				}
				_, _ = c.Write(end)
			}
		})
		u := newUnary(b, rt, s.url(), 100)
		u.do(b)
		b.ReportAllocs()
		for b.Loop() {
			u.do(b)
		}
	})
}

// TestAllocations: an exchange's budget. What it has: the exchange, the
// context's watch, the response's header (map, text, values), and the request
// and its body, which are the test's.
func TestAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	u := newUnary(t, newTransport(t, Config{}), answerer(t, fixed(800)), 600)
	mine := testing.AllocsPerRun(200, func() {
		req := u.req.WithContext(u.ctx)
		req.Body = newMemory(u.body)
		sink = req
	})
	got := testing.AllocsPerRun(500, func() { u.do(t) }) - mine
	t.Logf("%.1f allocations an exchange", got)
	if got > 14 {
		t.Errorf("%.1f allocations an exchange", got)
	}
}

var sink any

// TestStreamMemory: what an open stream holds while it waits for an event.
func TestStreamMemory(t *testing.T) {
	if race.Enabled {
		t.Skip("not with the race detector")
	}
	const n = 400
	hold := make(chan struct{})
	text := okHead + "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
	s := rawServer(t, func(c net.Conn) {
		p := make([]byte, 4096)
		_, _ = c.Read(p)
		_, _ = io.WriteString(c, text)
		<-hold
	})
	tr := newTransport(t, Config{})
	u := newUnary(t, tr, s.url(), 100)
	open := make([]*http.Response, 0, n)
	before := heap()
	for range n {
		req := u.req.WithContext(u.ctx)
		req.Body = newMemory(u.body)
		resp, err := tr.roundTrip(req, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadFull(resp.Body, u.p[:5])
		open = append(open, resp)
	}
	time.Sleep(50 * time.Millisecond)
	each := (heap() - before) / n
	t.Logf("%d bytes a stream, with both ends' sockets, the server's goroutine and its buffer of 4096", each)
	if each-4096-2048 > 6<<10 {
		t.Errorf("%d bytes a stream", each)
	}
	for _, r := range open {
		r.Body.Close()
	}
	close(hold)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
