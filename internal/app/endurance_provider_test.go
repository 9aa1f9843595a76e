package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/lab/race"
)

// script is a provider that answers every request with the same bytes, as they
// stand, and then ends the connection or keeps it.
type script struct {
	l      net.Listener
	answer atomic.Pointer[string]
	then   atomic.Int32 // closes, resets or keeps
	served atomic.Int64
	wg     sync.WaitGroup
	conns  sync.Map // net.Conn: nil
}

const (
	closes = iota
	resets
	keeps
)

func newScript(t *testing.T) *script {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &script{l: l}
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.conns.Store(c, nil)
			s.wg.Go(func() {
				defer s.conns.Delete(c)
				s.serve(c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.conns.Range(func(c, _ any) bool { _ = c.(net.Conn).Close(); return true })
		s.wg.Wait()
	})
	return s
}

func (s *script) serve(c net.Conn) {
	defer c.Close()
	for r := bufio.NewReader(c); ; {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if _, err := r.Discard(int(req.ContentLength)); err != nil {
			return
		}
		s.served.Add(1)
		_, _ = c.Write([]byte(*s.answer.Load()))
		switch s.then.Load() {
		case resets:
			_ = c.(*net.TCPConn).SetLinger(0)
			return
		case closes:
			return
		}
	}
}

// setup is a gateway in front of it.
func (s *script) setup(transport string) setup {
	return setup{YAML: `server: {api: {listen: "127.0.0.1:0", shutdown_grace: 200ms}, admin: {listen: "127.0.0.1:0"}}
providers:
  - {name: p, dialect: openai, base_url: "http://` + s.l.Addr().String() + `/v1", transport: ` + transport + `, timeouts: {total: 5s, first_token: 5s, idle: 2s}}
models: [{name: "*", targets: [{provider: p}]}]
keys: [{name: test, secret: "literal:` + key + `", tenant: tests}]
`}
}

const goldenWhole = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hé"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`

// chunks frames a body, a few bytes a chunk.
func chunks(body string) string {
	var b strings.Builder
	for len(body) > 0 {
		n := min(len(body), 150)
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n\r\n"
}

// A provider that dies at any byte of its whole response, head and framing
// included, by an end or by a reset of the connection: an answer in one piece
// is whole or an error, a stream is whole or ends with an error event. For both
// transports.
func TestProviderDiesAtEveryByteOfTheResponse(t *testing.T) {
	step := 1
	if race.Enabled {
		step = 13
	}
	_, events := scan(goldenStream)
	for _, transport := range []string{"h1", "std"} {
		for what, text := range map[string]string{
			"whole, length":  fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(goldenWhole), goldenWhole),
			"whole, chunked": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(goldenWhole),
			"stream":         "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(goldenStream),
		} {
			t.Run(transport+", "+what, func(t *testing.T) {
				t.Parallel()
				s := newScript(t)
				g := start(t, s.setup(transport))
				body := chatBody
				if what == "stream" {
					body = slowBody
				}
				head := strings.Index(text, "\r\n\r\n") + 4
				failed := 0
				for i := 0; i < 2*len(text); i += step {
					n, cut := i/2, text[:i/2]
					s.answer.Store(&cut)
					s.then.Store(int32(i % 2))
					a := g.post(chatPath, body)
					if a.StatusCode != 200 {
						failed++
						if code := within(a.JSON(t), "error", "code"); a.StatusCode != 502 || code == nil || len(a.JSON(t)) != 1 {
							t.Fatalf("cut at %d: %d %s", n, a.StatusCode, a.Bytes)
						}
						if what == "stream" && n > head+200 && i%2 == closes {
							t.Fatalf("cut at %d: a token that had come was not passed on: %s", n, a.Bytes)
						}
						continue
					}
					if what != "stream" {
						if string(a.Bytes) != goldenWhole || n < len(text)-7 {
							t.Fatalf("cut at %d: %d %s", n, a.StatusCode, a.Bytes)
						}
						continue
					}
					_, got := scan(string(a.Bytes))
					last := got[len(got)-1]
					if slices.Equal(got, events) {
						continue // at least the finish was there
					}
					failed++
					var m any
					if err := json.Unmarshal([]byte(last), &m); err != nil || within(m, "error", "code") != "UPSTREAM_TRUNCATED" {
						t.Fatalf("cut at %d: ends with %s", n, last)
					}
					if !slices.Equal(got[:len(got)-1], events[:len(got)-1]) {
						t.Fatalf("cut at %d: %q", n, got)
					}
				}
				if failed < 10 {
					t.Errorf("only %d were cut", failed)
				}
				whole := text
				s.answer.Store(&whole)
				s.then.Store(keeps)
				for range 3 {
					if a := g.post(chatPath, body); a.StatusCode != 200 {
						t.Errorf("afterwards: %d %s", a.StatusCode, a.Bytes)
					}
				}
				wait(t, "nothing to be in flight", func() bool { return g.metric("headgate_inflight_requests") == 0 })
			})
		}
	}
}

// noticed is when net/http has surely seen what came unasked. It takes it for the
// answer to the next call if that is sent before its goroutine has looked. Our
// own transport looks whenever it takes a connection, and needs no such mercy.
const noticed = 50 * time.Millisecond

// A provider whose Content-Length is not that of its body. What is missing
// makes an error, and what is too much is never the beginning of another
// client's answer.
func TestProviderLiesAboutTheLength(t *testing.T) {
	log.SetOutput(io.Discard) // where net/http's transport tells of them
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	for _, transport := range []string{"h1", "std"} {
		s := newScript(t)
		g := start(t, s.setup(transport))
		serve := func(status string, length any, body string, then int32) {
			text := fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %v\r\n\r\n%s", status, length, body)
			s.answer.Store(&text)
			s.then.Store(then)
		}
		for _, more := range []int{1, 1000} {
			serve("200 OK", len(goldenWhole)+more, goldenWhole, closes)
			if a := g.post(chatPath, chatBody); a.StatusCode != 502 || within(a.JSON(t), "error", "code") != "UPSTREAM_TRUNCATED" {
				t.Errorf("%s: %d bytes too few: %d %s", transport, more, a.StatusCode, a.Bytes)
			}
		}
		for _, length := range []any{"-1", "+5", "5, 6", "1e3", "99999999999999999999", "0x10"} {
			serve("200 OK", length, goldenWhole, closes)
			if a := g.post(chatPath, chatBody); a.StatusCode != 502 {
				t.Errorf("%s: the length %v: %d %s", transport, length, a.StatusCode, a.Bytes)
			}
		}
		evil := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"evil\":\"evil\"}"
		serve("200 OK", len(goldenWhole), goldenWhole+evil, keeps)
		for i := range 20 {
			if transport == "std" {
				time.Sleep(noticed)
			}
			a := g.post(chatPath, chatBody)
			if a.StatusCode != 200 || string(a.Bytes) != goldenWhole {
				t.Fatalf("%s: bytes behind the answer came to the client of request %d: %d %s", transport, i, a.StatusCode, a.Bytes)
			}
		}
		// The same behind answers that have no body, where the temptation is larger.
		for _, status := range []string{"204 No Content", "304 Not Modified"} {
			serve(status, len(evil), evil, keeps)
			for range 5 {
				if transport == "std" {
					time.Sleep(noticed)
				}
				if a := g.post(chatPath, chatBody); strings.Contains(string(a.Bytes), "evil") {
					t.Fatalf("%s, %s: %d %s", transport, status, a.StatusCode, a.Bytes)
				}
			}
		}
		serve("200 OK", len(goldenWhole), goldenWhole, keeps)
		time.Sleep(noticed)
		if a := g.post(chatPath, chatBody); a.StatusCode != 200 || string(a.Bytes) != goldenWhole {
			t.Errorf("%s: afterwards: %d %s", transport, a.StatusCode, a.Bytes)
		}
	}
}

// A provider that takes connections and never says anything, or that does so
// for a while: calls end in time, and those that wait for a connection too.
func TestProviderOfHalfOpenConnections(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"h1", "std"} {
		s := newScript(t)
		yaml := strings.ReplaceAll(s.setup(transport).YAML, "total: 5s", "total: 500ms")
		g := start(t, setup{YAML: strings.Replace(yaml, "transport:", "max_connections: 2, transport:", 1)})
		silent := ""
		s.answer.Store(&silent)
		s.then.Store(keeps)
		began := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				a := g.send(g.request("POST", chatPath, strings.NewReader(chatBody)))
				if a.Err != nil || a.StatusCode != 504 {
					t.Errorf("%s: %v %v %s", transport, a.Err, a.Response, a.Bytes)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("%s: ten calls took %v", transport, took)
		}
		whole := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(goldenWhole), goldenWhole)
		s.answer.Store(&whole)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if a := g.send(g.request("POST", chatPath, strings.NewReader(chatBody)).WithContext(ctx)); a.Err != nil || a.StatusCode != 200 {
			t.Errorf("%s: afterwards: %v %v %s", transport, a.Err, a.Response, a.Bytes)
		}
		cancel()
	}
}
