package h1

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a body that is in memory, and counts how often it was closed.
type memory struct {
	*bytes.Reader
	b      []byte
	closes int
}

func newMemory(s string) *memory { return &memory{Reader: bytes.NewReader([]byte(s)), b: []byte(s)} }

// Parts cuts the body in two, as an edited one is.
func (m *memory) Parts() (a, b []byte) {
	cut := len(m.b) / 3
	return m.b[:cut:cut], m.b[cut:]
}
func (m *memory) Close() error { m.closes++; return nil }

// newTransport makes a transport that is empty again when the test ends.
func newTransport(t testing.TB, c Config) *Transport {
	tr := New(c)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// newRequest makes a request with its body in memory.
func newRequest(t testing.TB, method, url, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Body, req.ContentLength = newMemory(body), int64(len(body))
	}
	return req
}

// raw is a server that lets a function speak for it, once a connection.
type raw struct {
	net.Listener
	done chan struct{}
}

func rawServer(t testing.TB, speak func(net.Conn)) *raw {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &raw{l, make(chan struct{})}
	var open []chan struct{}
	go func() {
		defer close(s.done)
		for {
			c, err := l.Accept()
			if err != nil {
				for _, o := range open {
					<-o
				}
				return
			}
			o := make(chan struct{})
			open = append(open, o)
			go func() {
				defer close(o)
				defer c.Close()
				speak(c)
			}()
		}
	}()
	t.Cleanup(func() { l.Close() })
	return s
}

func (s *raw) url() string { return "http://" + s.Addr().String() }

// readRequest reads a head, and as much body as it says.
func readRequest(c net.Conn) (head, body string, err error) {
	var b []byte
	p := make([]byte, 64<<10)
	for {
		if i := bytes.Index(b, []byte("\r\n\r\n")); i >= 0 {
			head = string(b[:i+4])
			n := length(head)
			for len(b) < i+4+n && err == nil {
				var k int
				k, err = c.Read(p)
				b = append(b, p[:k]...)
			}
			return head, string(b[i+4:]), err
		}
		n, err := c.Read(p)
		b = append(b, p[:n]...)
		if err != nil {
			return string(b), "", err
		}
	}
}

func length(head string) int {
	_, v, ok := strings.Cut(head, "Content-Length: ")
	if !ok {
		return 0
	}
	v, _, _ = strings.Cut(v, "\r\n")
	n := 0
	for _, c := range v {
		n = n*10 + int(c-'0')
	}
	return n
}

// answering serves every request with the same bytes.
func answering(answer string) func(net.Conn) {
	return func(c net.Conn) {
		for {
			if _, _, err := readRequest(c); err != nil {
				return
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
}

// must makes an exchange and reads its body.
func must(t testing.TB, tr *Transport, req *http.Request) (*http.Response, string, Info) {
	t.Helper()
	var info Info
	resp, err := tr.roundTrip(req, &info)
	if err != nil {
		t.Fatalf("Do: %v", err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("body: %v", err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return resp, string(b), info
}

// eventually waits for something that another goroutine does.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s did not happen", what)
}

func withCancel(t testing.TB, req *http.Request) (*http.Request, context.CancelFunc) {
	ctx, cancel := context.WithCancel(req.Context())
	t.Cleanup(cancel)
	return req.WithContext(ctx), cancel
}

func dialTo(c net.Conn) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) { return c, nil }
}

func dialAt(addr string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
}
