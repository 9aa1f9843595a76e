package h1

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// silent reads requests and says nothing, or the start of an answer.
func silent(start string) func(net.Conn) {
	return func(c net.Conn) {
		_, _, _ = readRequest(c)
		_, _ = io.WriteString(c, start)
		_, _ = c.Read(make([]byte, 1))
	}
}

// TestCancel ends the context at every stage. Plainly cancelled it reads so;
// with a cause it gives the cause.
func TestCancel(t *testing.T) {
	mine := errors.New("mine")
	for _, stage := range []string{"dial", "queue", "head", "part of the head", "counted", "chunked", "closed"} {
		for _, cause := range []error{nil, mine} {
			t.Run(stage, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				s := rawServer(t, silent(map[string]string{
					"part of the head": "HTTP/1.1 200 OK\r\nA", "counted": okHead + "Content-Length: 10\r\n\r\nhello",
					"chunked": okHead + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "closed": okHead + "\r\nhello",
				}[stage]))
				cfg := Config{}
				if stage == "queue" {
					cfg.MaxConns = 1
				}
				if stage == "dial" {
					cfg.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
						<-ctx.Done()
						return nil, errors.New("dial ended")
					}
				}
				tr := newTransport(t, cfg)
				if stage == "queue" {
					blocker, stop := withCancel(t, newRequest(t, "GET", s.url(), ""))
					done := make(chan struct{})
					go func() { defer close(done); _, _ = tr.roundTrip(blocker, nil) }()
					eventually(t, "blocking", func() bool { return tr.Stats().Dialled == 1 })
					defer func() { stop(); <-done }()
				}
				time.AfterFunc(30*time.Millisecond, func() { cancel(cause) })
				body := newMemory("x")
				req := newRequest(t, "POST", s.url(), "").WithContext(ctx)
				req.Body = body
				resp, err := tr.roundTrip(req, nil)
				if err == nil {
					var b []byte
					if b, err = io.ReadAll(resp.Body); string(b) != "hello" {
						t.Errorf("body %q", b)
					}
					if _, again := resp.Body.Read(make([]byte, 1)); again != err {
						t.Errorf("then %v", again)
					}
					resp.Body.Close()
				}
				want := cause
				if cause == nil {
					want = context.Canceled
				}
				if !errors.Is(err, want) || body.closes != 1 {
					t.Errorf("error %v, closes %d", err, body.closes)
				}
				if st := tr.Stats(); st.Idle != 0 {
					t.Errorf("%+v", st)
				}
			})
		}
	}
}

// TestCancelAfterHead: bytes that are in the buffer are not read after the end
// of the context.
func TestCancelAfterHead(t *testing.T) {
	s := rawServer(t, silent(okHead+"Content-Length: 10\r\n\r\nhello"))
	tr := newTransport(t, Config{})
	req, cancel := withCancel(t, newRequest(t, "GET", s.url(), ""))
	resp, err := tr.roundTrip(req, nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if n, err := resp.Body.Read(make([]byte, 10)); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v", n, err)
	}
	if st := tr.Stats(); st.Open != 0 {
		t.Errorf("%+v", st)
	}
}

// TestCancelAtTheEnd: a context that ends when the body does costs at most the
// connection, never the next request (client pitfall 2).
func TestCancelAtTheEnd(t *testing.T) {
	s := rawServer(t, answering(short))
	tr := newTransport(t, Config{})
	for i := range 2000 {
		req, cancel := withCancel(t, newRequest(t, "GET", s.url(), ""))
		resp, err := tr.roundTrip(req, nil)
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			go cancel()
		}
		_, _ = io.ReadAll(resp.Body)
		if i%2 == 1 {
			go cancel()
		}
		must(t, tr, newRequest(t, "POST", s.url(), "x"))
		cancel()
	}
}

func TestDoneBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	body := newMemory("x")
	req := newRequest(t, "POST", "http://localhost:1/", "").WithContext(ctx)
	req.Body = body
	if _, err := newTransport(t, Config{}).roundTrip(req, nil); !errors.Is(err, context.Canceled) || body.closes != 1 {
		t.Errorf("%v, %d", err, body.closes)
	}
}

// TestLateClose closes a body after its connection was given out again, twice:
// the other exchange must not notice (pitfall 1 under Both).
func TestLateClose(t *testing.T) {
	s := rawServer(t, answering(okHead+"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"))
	tr := newTransport(t, Config{})
	var old []*http.Response
	for range 100 {
		resp, err := tr.roundTrip(newRequest(t, "GET", s.url(), ""), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range old {
			if err := o.Body.Close(); err != nil {
				t.Error(err)
			}
			if _, err := o.Body.Read(make([]byte, 1)); err != http.ErrBodyReadAfterClose {
				t.Errorf("%v", err)
			}
		}
		if b, err := readAll(resp.Body, 1); b != "hello" || err != nil {
			t.Fatalf("%q, %v", b, err)
		}
		if _, err := resp.Body.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%v", err)
		}
		old = append(old, resp)
	}
	if st := tr.Stats(); st.Dialled != 1 || st.Idle != 1 {
		t.Errorf("%+v", st)
	}
}

// TestCloseEarly: what has come is taken, what has not costs the connection.
func TestCloseEarly(t *testing.T) {
	const chunked = okHead + "Transfer-Encoding: chunked\r\n\r\n"
	for _, c := range []struct {
		name, answer string
		read         int
		keep         bool
	}{
		{"counted, all here", okHead + "Content-Length: 5\r\n\r\nhello", 1, true},
		{"counted, nothing read", okHead + "Content-Length: 5\r\n\r\nhello", 0, true},
		{"counted, not here", okHead + "Content-Length: 6\r\n\r\nhello", 1, false},
		{"counted, large", okHead + "Content-Length: 100000\r\n\r\n" + strings.Repeat("x", 100000), 1, false},
		{"last chunk here", chunked + "5\r\nhello\r\n0\r\n\r\n", 5, true},
		{"last chunk with trailer", chunked + "5\r\nhello\r\n0\r\nA: b\r\n\r\n", 5, true},
		{"last chunk not here", chunked + "5\r\nhello\r\n", 5, false},
		{"last chunk in part", chunked + "5\r\nhello\r\n0\r\n", 5, false},
		{"bytes after", chunked + "5\r\nhello\r\n0\r\n\r\nx", 5, false},
		{"bad chunk", chunked + "5\r\nhello\r\nx\r\n\r\n", 5, false},
		{"to the end", okHead + "\r\nhello", 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := rawServer(t, answering(c.answer))
			tr := newTransport(t, Config{})
			resp, err := tr.roundTrip(newRequest(t, "GET", s.url(), ""), nil)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
			if _, err := io.ReadFull(resp.Body, make([]byte, c.read)); err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			resp.Body.Close()
			if st := tr.Stats(); (st.Idle == 1) != c.keep || st.InUse != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestCloseEarlyInKernel: a stream is read in large pieces, so its last chunk
// lies in no buffer of ours.
func TestCloseEarlyInKernel(t *testing.T) {
	s := rawServer(t, func(c net.Conn) {
		for {
			if _, _, err := readRequest(c); err != nil {
				return
			}
			for _, piece := range []string{okHead + "Transfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n", "0\r\n\r\n"} {
				_, _ = io.WriteString(c, piece)
				time.Sleep(20 * time.Millisecond)
			}
		}
	})
	tr := newTransport(t, Config{})
	resp, err := tr.roundTrip(newRequest(t, "GET", s.url(), ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	n, err := resp.Body.Read(make([]byte, 4096))
	if n != 5 || err != nil {
		t.Fatal(n, err)
	}
	time.Sleep(60 * time.Millisecond)
	resp.Body.Close()
	if st := tr.Stats(); st.Idle != 1 {
		t.Errorf("%+v", st)
	}
}

// TestCloseWhileReading: Close from another goroutine ends a Read.
func TestCloseWhileReading(t *testing.T) {
	s := rawServer(t, silent(okHead+"Content-Length: 10\r\n\r\n"))
	tr := newTransport(t, Config{})
	resp, err := tr.roundTrip(newRequest(t, "GET", s.url(), ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { resp.Body.Close() })
	if _, err := resp.Body.Read(make([]byte, 10)); err != http.ErrBodyReadAfterClose {
		t.Errorf("%v", err)
	}
	eventually(t, "closing", func() bool { return tr.Stats().Open == 0 })
}
