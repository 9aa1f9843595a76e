//go:build linux

package h1

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// wire is what the server sends for one request, to the end.
func wire(t *testing.T, h http.HandlerFunc) (head, body string, s *server) {
	t.Helper()
	s = start(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		h(w, r)
	})
	p := s.dial()
	p.send(post("x", "Connection: close\r\n"))
	b, err := io.ReadAll(p.br)
	if err != nil {
		t.Fatal(err)
	}
	head, body, _ = strings.Cut(string(b), "\r\n\r\n")
	return head, body, s
}

func has(t *testing.T, head string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(head+"\r\n", "\r\n"+w+"\r\n") {
			t.Errorf("no %q in\n%s", w, head)
		}
	}
}

func hasNot(t *testing.T, head string, names ...string) {
	t.Helper()
	for _, n := range names {
		if strings.Contains(head, "\r\n"+n+":") {
			t.Errorf("%s in\n%s", n, head)
		}
	}
}

func TestAnswerWithoutLength(t *testing.T) {
	head, body, _ := wire(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	has(t, head, "Content-Length: 5", "Content-Type: text/plain; charset=utf-8", "Connection: close")
	hasNot(t, head, "Transfer-Encoding")
	if body != "hello" || !strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n") || !strings.Contains(head, "\r\nDate: ") {
		t.Errorf("%s\n\n%s", head, body)
	}
}

// TestFramingInBytes: what frames the answer is there once, however it was put.
func TestFramingInBytes(t *testing.T) {
	head, body, _ := wire(t, func(w http.ResponseWriter, _ *http.Request) {
		h := w.(*response)
		h.BeginHead(200)
		for _, f := range [][2]string{{"Content-Length", "5"}, {"Content-Type", "text/x"}, {"Date", "today"}, {"Connection", "keep-alive"}, {"Transfer-Encoding", "chunked"}} {
			h.PutBytes(f[0], []byte(f[1]))
		}
		h.EndHead()
		_, _ = io.WriteString(w, "hello")
	})
	has(t, head, "Content-Length: 5", "Content-Type: text/x", "Date: today", "Connection: close")
	for _, name := range []string{"Content-Length", "Content-Type", "Date", "Connection"} {
		if n := strings.Count(head, "\r\n"+name+":"); n != 1 {
			t.Errorf("%s is there %d times", name, n)
		}
	}
	hasNot(t, head, "Transfer-Encoding")
	if body != "hello" {
		t.Errorf("%q", body)
	}
}

func TestEmptyAnswer(t *testing.T) {
	head, body, _ := wire(t, func(http.ResponseWriter, *http.Request) {})
	has(t, head, "Content-Length: 0")
	hasNot(t, head, "Content-Type")
	if body != "" {
		t.Errorf("body %q", body)
	}
}

func TestChunks(t *testing.T) {
	large := strings.Repeat("L", 10_000)
	head, body, _ := wire(t, func(w http.ResponseWriter, _ *http.Request) {
		rc := http.NewResponseController(w)
		w.Header()["Date"] = nil
		w.Header().Set("Content-Type", "text/event-stream")
		_ = rc.Flush() // the head alone
		_, _ = io.WriteString(w, "ab")
		_, _ = io.WriteString(w, "c")
		_ = rc.Flush()
		_ = rc.Flush()
		_, _ = io.WriteString(w, "d")
		_, _ = io.WriteString(w, large)
		_, _ = io.WriteString(w, "end")
	})
	has(t, head, "Transfer-Encoding: chunked", "Content-Type: text/event-stream")
	hasNot(t, head, "Content-Length", "Date")
	if want := "3\r\nabc\r\n2711\r\nd" + large + "\r\n3\r\nend\r\n0\r\n\r\n"; body != want {
		t.Errorf("got %d %.60q, want %d", len(body), body, len(want))
	}
}

func TestChunksFillingTheBuffer(t *testing.T) {
	for n := 3700; n < 4200; n += 7 {
		_, body, s := wire(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("a", n/2))
			_, _ = io.WriteString(w, strings.Repeat("b", n-n/2))
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, strings.Repeat("c", n))
		})
		if !strings.Contains(body, strings.Repeat("c", n)+"\r\n0\r\n\r\n") || strings.Count(body, "a") < n/2 || strings.Count(body, "b") < n-n/2 {
			t.Errorf("%d: %d bytes", n, len(body))
		}
		_ = s.Close()
	}
}

func TestTrailers(t *testing.T) {
	head, body, _ := wire(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Declared, Content-Length")
		_, _ = io.WriteString(w, "ab")
		_ = http.NewResponseController(w).Flush()
		w.Header().Set("X-Declared", "1")
		w.Header().Set(http.TrailerPrefix+"X-Usage", "a\r\nb")
		w.Header().Set(http.TrailerPrefix+"Content-Length", "7")
	})
	has(t, head, "Trailer: X-Declared, Content-Length")
	if want := "2\r\nab\r\n0\r\nX-Declared: 1\r\nX-Usage: a  b\r\n\r\n"; body != want {
		t.Errorf("got %q, want %q", body, want)
	}
	_, body, _ = wire(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ab")
		w.Header().Set(http.TrailerPrefix+"X-Usage", "1")
	})
	if want := "2\r\nab\r\n0\r\nX-Usage: 1\r\n\r\n"; body != want {
		t.Errorf("unflushed: got %q, want %q", body, want)
	}
}

func TestHeaderCannotBecomeTwo(t *testing.T) {
	head, _, _ := wire(t, func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h["X-Split"] = []string{"a\r\nX-Evil: 1", "b\x00c\n"}
		h["X-Evil\r\nName"] = []string{"v"}
		h["X Evil"] = []string{"v"}
		h[""] = []string{"v"}
	})
	has(t, head, "X-Split: a  X-Evil: 1", "X-Split: b c")
	hasNot(t, head, "X-Evil", "Name", "X Evil", "")
}

func TestStatusesWithoutBody(t *testing.T) {
	for _, status := range []int{204, 304} {
		head, body, _ := wire(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Content-Length", "5")
			w.WriteHeader(status)
			if _, err := io.WriteString(w, "hello"); !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Errorf("%d: %v", status, err)
			}
		})
		hasNot(t, head, "Content-Length", "Transfer-Encoding")
		if body != "" {
			t.Errorf("%d: body %q", status, body)
		}
		if strings.Contains(head, "Content-Type") != (status == 204) {
			t.Errorf("%d: %s", status, head)
		}
	}
}

func TestInterimAnswer(t *testing.T) {
	head, body, _ := wire(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(103)
		_, _ = io.WriteString(w, "x")
	})
	if !strings.HasPrefix(head, "HTTP/1.1 103 Early Hints\r\nLink: </a>") || !strings.HasPrefix(body, "HTTP/1.1 200 OK\r\n") {
		t.Errorf("%s\n\n%s", head, body)
	}
}

func TestSuperfluousAndInvalidStatus(t *testing.T) {
	head, _, s := wire(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(404)
		w.Header().Set("X-Late", "1")
		w.WriteHeader(500)
	})
	hasNot(t, head, "X-Late")
	if !strings.HasPrefix(head, "HTTP/1.1 404 Not Found\r\n") || !strings.Contains(s.log.String(), "superfluous") {
		t.Errorf("%s\n%s", head, s.log)
	}
	head, _, _ = wire(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(42) })
	if !strings.HasPrefix(head, "HTTP/1.1 500 ") {
		t.Error(head)
	}
	head, _, _ = wire(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(599) })
	if !strings.HasPrefix(head, "HTTP/1.1 599 status code 599\r\n") {
		t.Error(head)
	}
	head, body, _ := wire(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "many")
		w.Header().Set("Transfer-Encoding", "gzip")
		_, _ = io.WriteString(w, "x")
	})
	has(t, head, "Content-Length: 1")
	hasNot(t, head, "Transfer-Encoding")
	if body != "x" {
		t.Errorf("%q", body)
	}
}

func TestIdentity(t *testing.T) {
	head, body, _ := wire(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Transfer-Encoding", "identity")
		_, _ = io.WriteString(w, "x")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, "y")
	})
	hasNot(t, head, "Transfer-Encoding", "Content-Length")
	if body != "xy" {
		t.Errorf("%q", body)
	}
}

func TestLengthIsKept(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Length", "4")
		n, err := w.Write(b[:min(4, len(b))])
		if n != min(4, len(b)) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if len(b) > 4 {
			if _, err = w.Write(b[4:]); !errors.Is(err, http.ErrContentLength) {
				t.Errorf("too much: %v", err)
			}
		}
	})
	p := s.dial()
	p.send(post("1234") + post("1234"))
	p.wantAnswer(200, "1234")
	p.wantAnswer(200, "1234")
	p.send(post("123")) // too little: the connection must end
	r, err := http.ReadResponse(p.br, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("too little: %q, %v", b, err)
	}
	q := s.dial()
	q.send(post("123456"))
	q.wantAnswer(200, "1234")
	q.wantEnd()
}

func TestHeadAndDataInOneWrite(t *testing.T) {
	// TCP_NODELAY is on, so each write arrives as it was made.
	for _, size := range []int{10, 3000, 20_000} {
		go1 := make(chan struct{})
		s := start(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			rc := http.NewResponseController(w)
			_, _ = w.Write(make([]byte, size))
			_ = rc.Flush()
			<-go1
			_, _ = w.Write(make([]byte, size))
			_ = rc.Flush()
			<-go1
		})
		p := s.dial()
		p.send(post("x"))
		b := make([]byte, 64<<10)
		time.Sleep(20 * time.Millisecond)
		n, _ := p.Read(b)
		if !strings.HasPrefix(string(b[:n]), "HTTP/1.1 200") || n < size || !strings.HasSuffix(string(b[:n]), "\r\n") {
			t.Errorf("%d: first read of %d bytes", size, n)
		}
		go1 <- struct{}{}
		time.Sleep(20 * time.Millisecond)
		n, _ = p.Read(b)
		if want := len(fmt.Sprintf("%x", size)) + 2 + size + 2; n != want {
			t.Errorf("%d: second read of %d bytes, want %d", size, n, want)
		}
		go1 <- struct{}{}
	}
}

func TestPanicAndAbort(t *testing.T) {
	var n atomic.Int32
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begun")
		_ = http.NewResponseController(w).Flush()
		if n.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		panic("a mistake of the handler")
	})
	for range 2 {
		p := s.dial()
		p.send(post("x"))
		b, _ := io.ReadAll(p.br)
		if !strings.HasSuffix(string(b), "5\r\nbegun\r\n") {
			t.Errorf("%q", b)
		}
		if n.Load() == 1 && s.log.String() != "" {
			t.Errorf("an abort was logged: %s", s.log)
		}
	}
	if l := s.log.String(); !strings.Contains(l, "a mistake of the handler") || !strings.Contains(l, "answer_test.go") {
		t.Errorf("log %q", l)
	}
	p := s.dial()
	p.send(strings.Replace(post("x"), hot, "/other", 1))
	_ = p.Close()
}

func TestGoexit(t *testing.T) {
	s := start(t, func(http.ResponseWriter, *http.Request) { runtime.Goexit() })
	p := s.dial()
	p.send(post("x"))
	p.wantEnd()
	within(t, time.Second, "connection closed", func() bool { return s.Stats().Open == 0 })
}

func TestLateUseHurtsNobody(t *testing.T) {
	type kept struct {
		w http.ResponseWriter
		r *http.Request
	}
	keep := make(chan kept, 1)
	var first atomic.Bool
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if first.CompareAndSwap(false, true) {
			keep <- kept{w, r}
			_, _ = io.ReadAll(r.Body)
			return
		}
		k := <-keep
		b, _ := io.ReadAll(r.Body)
		rc := http.NewResponseController(k.w)
		k.w.Header().Set("X-Evil", "1")
		k.w.WriteHeader(500)
		if _, err := io.WriteString(k.w, "evil"); err == nil {
			t.Error("a late Write succeeded")
		}
		if rc.Flush() == nil || rc.SetReadDeadline(time.Unix(1, 0)) == nil || rc.SetWriteDeadline(time.Unix(1, 0)) == nil {
			t.Error("a late call succeeded")
		}
		if n, err := k.r.Body.Read(make([]byte, 10)); n > 0 || err == nil {
			t.Error("a late Read succeeded")
		}
		_ = k.r.Body.Close()
		if k.r.Context().Err() == nil || r.Context().Err() != nil {
			t.Error("contexts")
		}
		_, _ = w.Write(b)
	})
	p := s.dial()
	p.send(post("one") + post("two"))
	p.wantAnswer(200, "")
	if r := p.wantAnswer(200, "two"); r.Header.Get("X-Evil") != "" {
		t.Error("late header")
	}
}

func TestWriteAfterFailureFails(t *testing.T) {
	failed := make(chan error, 1)
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				_, again := io.WriteString(w, "x")
				if again == nil {
					again = rc.Flush()
				}
				if again == nil || r.Context().Err() == nil {
					t.Errorf("after a failed write: %v, %v", again, r.Context().Err())
				}
				failed <- err
				return
			}
		}
	})
	p := s.dial() // and does not read
	p.send(post("x"))
	var timeout interface{ Timeout() bool }
	if err := <-failed; !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Error(err)
	}
	within(t, 2*time.Second, "connection closed", func() bool { return s.Stats().Open == 0 })
}

func TestConnectionIsTheServers(t *testing.T) {
	head, _, _ := wire(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "keep-alive") })
	if strings.Count(head, "Connection:") != 1 {
		t.Error(head)
	}
	for _, v := range []string{"close", "Close", "keep-alive, close"} {
		s := start(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", v) })
		p := s.dial()
		p.send(post(""))
		if r := p.wantAnswer(200, ""); !r.Close {
			t.Errorf("%s: %v", v, r.Header)
		}
		p.wantEnd()
	}
}
