package h1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const short = okHead + "Content-Length: 2\r\n\r\nok"

// TestStale lets a server spoil a connection that lies in the pool. None of
// that may reach the next request, which must not fail either (client pitfall
// 1).
func TestStale(t *testing.T) {
	for name, after := range map[string]string{
		"closed":           "",
		"408":              "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		"another answer":   okHead + "Content-Length: 6\r\n\r\nforged",
		"one byte":         "\n",
		"closed with data": short,
	} {
		t.Run(name, func(t *testing.T) {
			spoil, spoilt := make(chan struct{}), make(chan struct{})
			var n atomic.Int32
			s := rawServer(t, func(c net.Conn) {
				first := n.Add(1) == 1
				for {
					if _, _, err := readRequest(c); err != nil {
						return
					}
					_, _ = io.WriteString(c, short)
					if first {
						break
					}
				}
				<-spoil
				_, _ = io.WriteString(c, after)
				if after == "" || name == "closed with data" {
					c.Close()
				}
				close(spoilt)
				_, _ = c.Read(make([]byte, 1))
			})
			tr := newTransport(t, Config{})
			must(t, tr, newRequest(t, "POST", s.url(), "x"))
			close(spoil)
			<-spoilt
			time.Sleep(20 * time.Millisecond)
			_, body, info := must(t, tr, newRequest(t, "POST", s.url(), "y"))
			if body != "ok" || info.Reused || info.Retried != 0 {
				t.Errorf("%q, %+v", body, info)
			}
			if st := tr.Stats(); st.Stale != 1 || st.Dialled != 2 || st.Open != 1 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestReuse: only an answer that was read to its exact end, in HTTP/1.1,
// without close, leaves a connection (client pitfall 3).
func TestReuse(t *testing.T) {
	const chunks = okHead + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
	for _, c := range []struct {
		name, answer string
		reuse        bool
		change       func(*http.Request)
	}{
		{"counted", short, true, nil},
		{"chunked", chunks, true, nil},
		{"chunked with trailer", okHead + "Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\n", true, nil},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", true, nil},
		{"1xx", "HTTP/1.1 103 x\r\n\r\n" + short, true, nil},
		{"HEAD", okHead + "Content-Length: 10\r\n\r\n", true, func(r *http.Request) { r.Method = "HEAD" }},
		{"close", okHead + "Connection: close\r\nContent-Length: 2\r\n\r\nok", false, nil},
		{"close in a list", okHead + "Connection: a\r\nConnection: b , CLOSE\r\nContent-Length: 2\r\n\r\nok", false, nil},
		{"1.0", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", false, nil},
		{"both framings", okHead + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false, nil},
		{"bytes after", short + "x", false, nil},
		{"bytes after chunks", chunks + "x", false, nil},
		{"bytes after 204", "HTTP/1.1 204 No Content\r\n\r\nx", false, nil},
		{"request closes", short, false, func(r *http.Request) { r.Close = true }},
		{"request's field closes", short, false, func(r *http.Request) { r.Header.Set("Connection", "close") }},
	} {
		for _, size := range []int{1, 4096} {
			t.Run(fmt.Sprint(c.name, size), func(t *testing.T) {
				s := rawServer(t, answering(c.answer))
				tr := newTransport(t, Config{})
				req := newRequest(t, "GET", s.url(), "")
				if c.change != nil {
					c.change(req)
				}
				resp, err := tr.roundTrip(req, nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := readAll(resp.Body, size); err != nil {
					t.Fatal(err)
				}
				if st := tr.Stats(); (st.Idle == 1) != c.reuse || (st.Open == 1) != c.reuse {
					t.Errorf("%+v", st)
				}
				resp.Body.Close()
			})
		}
	}
}

func TestMaxIdleAndTimeout(t *testing.T) {
	s := rawServer(t, answering(short))
	tr := newTransport(t, Config{MaxIdle: 2, IdleTimeout: 50 * time.Millisecond})
	var open []*http.Response
	for range 4 {
		resp, err := tr.roundTrip(newRequest(t, "GET", s.url(), ""), nil)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, resp)
	}
	if st := tr.Stats(); st.InUse != 4 || st.Idle != 0 {
		t.Errorf("%+v", st)
	}
	for _, r := range open {
		_, _ = io.ReadAll(r.Body)
	}
	if st := tr.Stats(); st.Open != 2 || st.Idle != 2 {
		t.Errorf("%+v", st)
	}
	eventually(t, "the sweep", func() bool { st := tr.Stats(); return st.Open == 0 && st.Expired == 2 })
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.hosts) != 0 || tr.armed {
		t.Error("something is left of an idle transport")
	}
}

// TestLIFO: the connection that was used last is used next.
func TestLIFO(t *testing.T) {
	s := rawServer(t, func(c net.Conn) {
		answering(okHead + fmt.Sprintf("X-Conn: %s\r\nContent-Length: 2\r\n\r\nok", c.RemoteAddr()))(c)
	})
	tr := newTransport(t, Config{})
	a, _ := tr.roundTrip(newRequest(t, "GET", s.url(), ""), nil)
	b, _ := tr.roundTrip(newRequest(t, "GET", s.url(), ""), nil)
	for _, r := range []*http.Response{b, a} {
		_, _ = io.ReadAll(r.Body)
	}
	for range 3 {
		resp, _, _ := must(t, tr, newRequest(t, "GET", s.url(), ""))
		if resp.Header.Get("X-Conn") != a.Header.Get("X-Conn") {
			t.Error("not the last connection")
		}
	}
}

// TestMaxConns: callers above the limit get their turns in the order in which
// they came; who leaves does not hold up the others.
func TestMaxConns(t *testing.T) {
	s := rawServer(t, answering(short))
	tr := newTransport(t, Config{MaxConns: 1})
	first, err := tr.roundTrip(newRequest(t, "GET", s.url(), ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	leave, cancel := context.WithCancelCause(t.Context())
	for i := range 20 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			req := newRequest(t, "GET", s.url(), "")
			if i%3 == 0 {
				if _, err := tr.roundTrip(req.WithContext(leave), nil); err == nil || err.Error() != "left" {
					t.Errorf("who left got %v", err)
				}
				return
			}
			resp, err := tr.roundTrip(req, nil)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			if i%2 == 0 {
				_, _ = io.ReadAll(resp.Body)
			} else {
				resp.Header = nil
			}
			resp.Body.Close()
		}()
		eventually(t, "waiting", func() bool { return tr.Stats().Waiting == i+1 })
	}
	cancel(errors.New("left"))
	eventually(t, "leaving", func() bool { return tr.Stats().Waiting == 13 })
	first.Body.Close()
	wg.Wait()
	for i := 1; i < len(order); i++ {
		if order[i] < order[i-1] {
			t.Fatalf("order %v", order)
		}
	}
	if st := tr.Stats(); len(order) != 13 || st.Open > 1 || st.Waiting != 0 {
		t.Errorf("%v, %+v", order, st)
	}
}

// TestDialFails: a slot comes back when a dial fails, to who waits.
func TestDialFails(t *testing.T) {
	bad := errors.New("no route")
	tr := newTransport(t, Config{MaxConns: 2, Dial: func(context.Context, string, string) (net.Conn, error) {
		time.Sleep(time.Millisecond)
		return nil, bad
	}})
	var wg sync.WaitGroup
	for range 20 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			body := newMemory("x")
			req := newRequest(t, "POST", "http://h/", "")
			req.Body = body
			var info Info
			if _, err := tr.roundTrip(req, &info); !errors.Is(err, bad) || info.Wrote || !info.Connected.IsZero() || body.closes != 1 {
				t.Errorf("%v, %+v", err, info)
			}
		}()
	}
	wg.Wait()
	if st := tr.Stats(); st.Open != 0 || st.DialErrors != 20 {
		t.Errorf("%+v", st)
	}
}

// TestCloseIdle: connections in use are closed when they come back, unless
// another request came meanwhile.
func TestCloseIdle(t *testing.T) {
	s := rawServer(t, answering(short))
	tr := newTransport(t, Config{IdleTimeout: time.Hour})
	resp, err := tr.roundTrip(newRequest(t, "GET", s.url(), ""), nil)
	if err != nil {
		t.Fatal(err)
	}
	tr.CloseIdleConnections()
	_, _ = io.ReadAll(resp.Body)
	if st := tr.Stats(); st.Open != 0 {
		t.Errorf("%+v", st)
	}
	must(t, tr, newRequest(t, "GET", s.url(), ""))
	if st := tr.Stats(); st.Idle != 1 {
		t.Errorf("%+v", st)
	}
}

func TestManyHosts(t *testing.T) {
	tr := newTransport(t, Config{})
	for range 3 {
		s := rawServer(t, answering(short))
		must(t, tr, newRequest(t, "GET", s.url(), ""))
		must(t, tr, newRequest(t, "GET", s.url(), ""))
	}
	if st := tr.Stats(); st.Idle != 3 || st.Dialled != 3 || st.Reused != 3 {
		t.Errorf("%+v", st)
	}
}
