//go:build linux

package h1

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain looks for goroutines that were left. net/http sleeps for half a
// second behind some answers, whatever becomes of its server.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

const hot = "/v1/chat/completions"

// server is a Server under test.
type server struct {
	*Server
	t    testing.TB
	addr string
	log  *lines
}

type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start serves h. with may change the configuration.
func start(t testing.TB, h http.HandlerFunc, with ...func(*Config)) *server {
	t.Helper()
	out := &lines{}
	c := Config{
		Handler: h, Known: func(p string) bool { return p == hot || p == "/p" },
		ErrorLog: log.New(out, "", 0),
	}
	for _, f := range with {
		f(&c)
	}
	if c.Std == nil {
		c.Std = &http.Server{Handler: c.Handler, ErrorLog: c.ErrorLog}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Server: New(c), t: t, addr: l.Addr().String(), log: out}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-done; err != http.ErrServerClosed { //nolint:errorlint // exactly that
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

// peer is a client that writes bytes.
type peer struct {
	*net.TCPConn
	t  testing.TB
	br *bufio.Reader
}

func (s *server) dial() *peer {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return &peer{c.(*net.TCPConn), s.t, bufio.NewReader(c)}
}

func (p *peer) send(s string) {
	p.t.Helper()
	if _, err := io.WriteString(p.TCPConn, s); err != nil {
		p.t.Fatal(err)
	}
}

// answer reads one answer with its body.
func (p *peer) answer() (*http.Response, string) {
	p.t.Helper()
	r, err := http.ReadResponse(p.br, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Fatalf("body %q: %v", b, err)
	}
	return r, string(b)
}

// wantAnswer reads one answer and compares.
func (p *peer) wantAnswer(status int, body string) *http.Response {
	p.t.Helper()
	r, b := p.answer()
	if r.StatusCode != status || b != body {
		p.t.Fatalf("got %d %q, want %d %q", r.StatusCode, b, status, body)
	}
	return r
}

// wantEnd expects that the server closes without another byte.
func (p *peer) wantEnd() {
	p.t.Helper()
	if b, err := io.ReadAll(p.br); len(b) > 0 || err != nil {
		p.t.Fatalf("got %q, %v; want the end", b, err)
	}
}

func post(body string, fields ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s",
		hot, strings.Join(fields, ""), len(body), body)
}

// echo answers with the body of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	_, _ = w.Write(b)
}

// within waits for something to become true.
func within(t testing.TB, d time.Duration, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", d, what)
		}
	}
}

func shutdown(t testing.TB, s *server, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return s.Shutdown(ctx)
}

func withTLS(conf *tls.Config) func(*Config) { return func(c *Config) { c.TLS = conf } }
