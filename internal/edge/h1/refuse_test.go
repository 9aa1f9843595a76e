//go:build linux

package h1

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// TestEarlyRefusal: the answer to a large request that is refused at once
// arrives, although nobody reads the request.
func TestEarlyRefusal(t *testing.T) {
	t.Parallel()
	s := start(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(w, "too large")
	})
	body := strings.Repeat("x", 10<<20)
	for range 5 {
		p := s.dial()
		go func() { _, _ = io.WriteString(p.TCPConn, post(body)) }()
		time.Sleep(10 * time.Millisecond)
		if r := p.wantAnswer(413, "too large"); !r.Close {
			t.Error("no Connection: close")
		}
		p.wantEnd()
	}
	r, err := http.Post("http://"+s.addr+hot, "text/plain", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if b, err := io.ReadAll(r.Body); r.StatusCode != 413 || string(b) != "too large" || err != nil {
		t.Errorf("%d %q %v", r.StatusCode, b, err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestSmallRestIsReadAway: the connection is used again.
func TestSmallRestIsReadAway(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = r.Body.Read(make([]byte, 10))
		if r.Header.Get("X-Close") != "" {
			_ = r.Body.Close()
		}
		if r.Header.Get("X-Duplex") != "" {
			_ = http.NewResponseController(w).EnableFullDuplex()
		}
		w.WriteHeader(401)
	})
	p := s.dial()
	for _, field := range []string{"X-A: 1\r\n", "X-Close: 1\r\n", "X-Duplex: 1\r\n"} {
		for _, n := range []int{5, 5000, 200 << 10} {
			p.send(post(strings.Repeat("x", n), field))
			if r := p.wantAnswer(401, ""); r.Close {
				t.Errorf("%s %d: Connection: close", field, n)
			}
		}
	}
	if st := s.Stats(); st.Served != 9 || st.Accepted != 1 {
		t.Errorf("stats %+v", st)
	}
}

// TestRestThatDoesNotCome is not waited for.
func TestRestThatDoesNotCome(t *testing.T) {
	t.Parallel()
	s := start(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) })
	p := s.dial()
	p.send("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf")
	at := time.Now()
	if r := p.wantAnswer(401, ""); !r.Close || time.Since(at) > 2*time.Second {
		t.Errorf("close %v after %v", r.Close, time.Since(at))
	}
	p.wantEnd()
	within(t, 2*time.Second, "connection closed", func() bool { return s.Stats().Open == 0 })
}

// TestReaderThatOutlivesItsHandler is interrupted.
func TestReaderThatOutlivesItsHandler(t *testing.T) {
	t.Parallel()
	got := make(chan error, 1)
	s := start(t, func(_ http.ResponseWriter, r *http.Request) {
		reading := make(chan struct{})
		go func() {
			close(reading)
			_, err := io.ReadAll(r.Body)
			got <- err
		}()
		<-reading
		time.Sleep(20 * time.Millisecond)
	})
	p := s.dial()
	p.send("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf")
	p.wantAnswer(200, "")
	if err := <-got; err == nil {
		t.Error("read to the end")
	}
	p.wantEnd()
}

func TestFullDuplex(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		b := make([]byte, 1)
		for {
			if n, err := r.Body.Read(b); n == 0 {
				if !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				return
			}
			_, _ = w.Write(b)
			_ = rc.Flush()
		}
	})
	p := s.dial()
	p.send("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nx")
	r, err := http.ReadResponse(p.br, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if _, err := io.ReadFull(r.Body, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		p.send("x")
	}
	if b, err := io.ReadAll(r.Body); string(b) != "x" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	p.send(post("y"))
	p.wantAnswer(200, "y")
}

func TestReadDeadline(t *testing.T) {
	t.Parallel()
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		if err := rc.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
			t.Error(err)
		}
		b, err := io.ReadAll(r.Body)
		if len(b) == 5 && err == nil {
			_, _ = w.Write(b)
			return // leaves the deadline to the server
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || r.Context().Err() != nil {
			t.Errorf("%v, context %v", err, r.Context().Err())
		}
		w.WriteHeader(408)
	})
	p := s.dial()
	for range 3 {
		p.send(post("hello"))
		p.wantAnswer(200, "hello")
		p.send("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe")
		time.Sleep(10 * time.Millisecond)
		p.send("llo")
		p.wantAnswer(200, "hello")
		time.Sleep(320 * time.Millisecond)
	}
	p.send("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe")
	if r := p.wantAnswer(408, ""); !r.Close {
		t.Error("no Connection: close")
	}
	p.wantEnd()
}

// TestWriteDeadlineDuringAWrite is how a client that does not read is given up.
func TestWriteDeadlineDuringAWrite(t *testing.T) {
	took := make(chan time.Duration, 1)
	s := start(t, func(w http.ResponseWriter, _ *http.Request) {
		rc := http.NewResponseController(w)
		time.AfterFunc(50*time.Millisecond, func() { _ = rc.SetWriteDeadline(time.Unix(1, 0)) })
		at := time.Now()
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				took <- time.Since(at)
				panic(http.ErrAbortHandler)
			}
		}
	})
	p := s.dial()
	p.send(post("x"))
	if d := <-took; d > 2*time.Second {
		t.Errorf("after %v", d)
	}
}

func TestSlowHeadAndIdleConnection(t *testing.T) {
	t.Parallel()
	s := start(t, echo, func(c *Config) { c.HeaderTimeout, c.IdleTimeout = 150*time.Millisecond, 300*time.Millisecond })
	ended := func(p *peer) time.Duration {
		at := time.Now()
		_, _ = io.ReadAll(p.br)
		return time.Since(at)
	}
	silent := s.dial()
	if d := ended(silent); d > time.Second {
		t.Errorf("a silent client: after %v", d)
	}
	slow := s.dial()
	go func() {
		for _, b := range []byte(post("x", "X-A: "+strings.Repeat("a", 500)+"\r\n")) {
			if _, err := slow.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	if d := ended(slow); d > time.Second {
		t.Errorf("a slow head: after %v", d)
	}
	p := s.dial()
	for range 3 {
		p.send(post("x"))
		p.wantAnswer(200, "x")
		time.Sleep(100 * time.Millisecond) // under IdleTimeout
	}
	if d := ended(p); d < 100*time.Millisecond || d > time.Second {
		t.Errorf("an idle connection: after %v", d)
	}
	if s.Stats().TimedOut != 3 {
		t.Errorf("stats %+v", s.Stats())
	}
}

// TestLongAnswersAreNotTimedOut: the bounds are for heads and idle connections.
func TestLongAnswersAreNotTimedOut(t *testing.T) {
	t.Parallel()
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(400 * time.Millisecond)
		echo(w, r)
	}, func(c *Config) { c.HeaderTimeout, c.IdleTimeout = 100*time.Millisecond, 100*time.Millisecond })
	p := s.dial()
	p.send("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx")
	time.Sleep(200 * time.Millisecond)
	p.send("y")
	p.wantAnswer(200, "xy")
}

func TestRefusalArrives(t *testing.T) {
	s := start(t, echo)
	for range 20 {
		p := s.dial()
		go func() {
			_, _ = io.WriteString(p.TCPConn, strings.Replace(post(strings.Repeat("x", 1<<20)), "\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n", 1))
		}()
		r, b := p.answer()
		if r.StatusCode != 400 || !r.Close || !strings.Contains(b, "Transfer-Encoding with Content-Length") {
			t.Errorf("%d %v %q", r.StatusCode, r.Close, b)
		}
		_ = p.Close()
	}
}
