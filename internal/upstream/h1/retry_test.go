package h1

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// closing makes a server that reads the second request of its first connection,
// in part or whole, and closes without an answer: what the peek can't see.
func closing(t *testing.T, seen *atomic.Int32) *raw {
	var n atomic.Int32
	return rawServer(t, func(c net.Conn) {
		first := n.Add(1) == 1
		for i := 0; ; i++ {
			if _, _, err := readRequest(c); err != nil {
				return
			}
			seen.Add(1)
			if first && i == 1 {
				return
			}
			_, _ = io.WriteString(c, short)
		}
	})
}

// TestRetry: a request that was written is repeated only if its method is
// safe. A POST could be billed twice, even with an Idempotency-Key.
func TestRetry(t *testing.T) {
	for _, c := range []struct {
		method, key string
		again       bool
	}{
		{"GET", "", true}, {"HEAD", "", true}, {"OPTIONS", "", true},
		{"POST", "", false}, {"PUT", "", false}, {"DELETE", "", false}, {"POST", "k", false},
	} {
		t.Run(c.method+c.key, func(t *testing.T) {
			var seen atomic.Int32
			s := closing(t, &seen)
			tr := newTransport(t, Config{})
			must(t, tr, newRequest(t, "GET", s.url(), ""))
			body := ""
			if c.method == "POST" {
				body = "pay"
			}
			req := newRequest(t, c.method, s.url(), body)
			req.GetBody = func() (io.ReadCloser, error) { return newMemory(body), nil }
			if c.key != "" {
				req.Header.Set("Idempotency-Key", c.key)
			}
			var info Info
			resp, err := tr.roundTrip(req, &info)
			if (err == nil) != c.again || !info.Wrote {
				t.Fatalf("%v, %+v", err, info)
			}
			want := int32(2)
			if c.again {
				resp.Body.Close()
				want++
			} else if !errors.Is(err, io.EOF) {
				t.Errorf("error %v", err)
			}
			if seen.Load() != want || info.Reused == c.again || (info.Retried == 1) != c.again {
				t.Errorf("the server saw %d requests, %+v", seen.Load(), info)
			}
		})
	}
}

// failing is a connection whose writes fail when told to.
type failing struct {
	net.Conn
	fail  *atomic.Bool
	after int // bytes that are written first
}

func (f *failing) Write(p []byte) (int, error) {
	if f.fail.Swap(false) {
		n, _ := f.Conn.Write(p[:min(f.after, len(p))])
		f.Conn.Close()
		return n, errors.New("write failed")
	}
	return f.Conn.Write(p)
}

// TestRetryUnwritten: nothing was written, so anything may be repeated whose
// body can be had again. A byte changes that.
func TestRetryUnwritten(t *testing.T) {
	for _, c := range []struct {
		name  string
		after int
		size  int
		body  string // memory, getter or once
		again bool
	}{
		{"memory", 0, 10, "memory", true}, {"large", 0, 200 << 10, "memory", true},
		{"getter", 0, 10, "getter", true}, {"once", 0, 10, "once", false},
		{"memory after a byte", 1, 10, "memory", false}, {"large after a byte", 1, 200 << 10, "memory", false},
		{"getter after a byte", 1, 10, "getter", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(echo))
			defer s.Close()
			var fail atomic.Bool
			tr := newTransport(t, Config{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
				return &failing{nc, &fail, c.after}, err
			}})
			must(t, tr, newRequest(t, "GET", s.URL, ""))
			fail.Store(true)
			text := string(make([]byte, c.size))
			m := newMemory(text)
			req := newRequest(t, "POST", s.URL, "")
			req.Body, req.ContentLength = m, int64(c.size)
			if c.body != "memory" {
				req.Body = struct{ io.ReadCloser }{m}
			}
			if c.body == "getter" {
				req.GetBody = func() (io.ReadCloser, error) { return newMemory(text), nil }
			}
			var info Info
			resp, err := tr.roundTrip(req, &info)
			if (err == nil) != c.again || (info.Retried == 1) != c.again {
				t.Fatalf("%v, %+v", err, info)
			}
			if info.Wrote != (c.after > 0 || c.again) {
				t.Errorf("%+v", info)
			}
			if err == nil {
				b, _ := io.ReadAll(resp.Body)
				if string(b) != text {
					t.Error("the body changed")
				}
			}
			if m.closes != 1 {
				t.Errorf("body closed %d times", m.closes)
			}
		})
	}
}

// TestFreshIsNotRetried: a new connection that closes says something.
func TestFreshIsNotRetried(t *testing.T) {
	s := rawServer(t, once(""))
	tr := newTransport(t, Config{})
	var info Info
	_, err := tr.roundTrip(newRequest(t, "GET", s.url(), ""), &info)
	if !errors.Is(err, io.EOF) || info.Retried != 0 || !info.Wrote {
		t.Errorf("%v, %+v", err, info)
	}
}
