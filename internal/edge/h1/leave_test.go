//go:build linux

package h1

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// leaver is a handler that waits for its context's end and says when it came.
func leaver(begun chan<- struct{}, ended chan<- error, flush bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if flush {
			_, _ = io.WriteString(w, "token")
			_ = http.NewResponseController(w).Flush()
		}
		begun <- struct{}{}
		select {
		case <-r.Context().Done():
			ended <- context.Cause(r.Context())
		case <-time.After(5 * time.Second):
			ended <- errors.New("not cancelled")
		}
	}
}

func TestClientLeaves(t *testing.T) {
	for name, leave := range map[string]func(*peer){
		"close":      func(p *peer) { _ = p.Close() },
		"reset":      func(p *peer) { _ = p.SetLinger(0); _ = p.Close() },
		"half-close": func(p *peer) { _ = p.CloseWrite() },
	} {
		quickest := time.Hour // the machine may be busy
		for _, flush := range []bool{false, true, false, true} {
			begun, ended := make(chan struct{}, 1), make(chan error, 1)
			s := start(t, leaver(begun, ended, flush))
			p := s.dial()
			p.send(post("x"))
			<-begun
			if flush {
				_, _ = p.br.Peek(1)
			}
			at := time.Now()
			leave(p)
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("%s, flushed %v: %v", name, flush, err)
			}
			quickest = min(quickest, time.Since(at))
			within(t, time.Second, "connection closed", func() bool { return s.Stats().Open == 0 })
			if s.Stats().HangUps != 1 {
				t.Errorf("%s: stats %+v", name, s.Stats())
			}
		}
		if quickest > 100*time.Millisecond {
			t.Errorf("%s: after %v", name, quickest)
		}
	}
}

func TestClientLeavesOnALaterRequest(t *testing.T) {
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	wait := leaver(begun, ended, false)
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Wait") == "" {
			echo(w, r)
			return
		}
		wait(w, r)
	})
	p := s.dial()
	for range 3 {
		p.send(post("one"))
		p.wantAnswer(200, "one")
	}
	p.send(post("x", "X-Wait: 1\r\n"))
	<-begun
	_ = p.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestWatchDoesNotRead: bytes that come while the handler runs are neither
// taken for a client that leaves nor lost.
func TestWatchDoesNotRead(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		time.Sleep(50 * time.Millisecond)
		if r.Context().Err() != nil {
			t.Error("cancelled by a pipelined request")
		}
		_, _ = w.Write(b)
	})
	p := s.dial()
	p.send(post("one"))
	time.Sleep(20 * time.Millisecond)
	p.send(post("two") + post(strings.Repeat("3", 10_000)))
	p.wantAnswer(200, "one")
	p.wantAnswer(200, "two")
	p.wantAnswer(200, strings.Repeat("3", 10_000))
}

// TestLeavingWithinTheBody: the body's reader sees it, and so does everyone
// else, by the context.
func TestLeavingWithinTheBody(t *testing.T) {
	got := make(chan error, 1)
	s := start(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		if r.Context().Err() == nil {
			t.Error("not cancelled")
		}
		if _, again := r.Body.Read(make([]byte, 1)); !errors.Is(again, io.ErrUnexpectedEOF) {
			t.Errorf("again: %v", again)
		}
		got <- err
	})
	p := s.dial()
	p.send("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf")
	_ = p.Close()
	if err := <-got; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

// TestEventOfAnEarlierConnection: an event that was on its way when its
// connection was closed must not reach the connection that has got the same
// descriptor.
func TestEventOfAnEarlierConnection(t *testing.T) {
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	s := start(t, leaver(begun, ended, false))
	descriptor := func() (id uint64, fd int) {
		c := s.all()[0]
		_ = c.raw.Control(func(f uintptr) { fd = int(f) })
		return c.id, fd
	}
	p := s.dial()
	p.send(post("x"))
	<-begun
	id1, fd1 := descriptor()
	_ = p.Close()
	<-ended
	within(t, time.Second, "connection closed", func() bool { return len(s.all()) == 0 })

	var q *peer
	var id2 uint64
	for range 50 { // until the system gives the same descriptor again
		q = s.dial()
		q.send(post("x"))
		<-begun
		var fd2 int
		if id2, fd2 = descriptor(); fd2 == fd1 {
			break
		}
		_ = q.Close()
		<-ended
		within(t, time.Second, "connection closed", func() bool { return len(s.all()) == 0 })
	}
	ev := event(id1)
	s.hungUp(eventID(&ev))
	select {
	case err := <-ended:
		t.Fatalf("ended by the event of another connection: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	s.hungUp(id2)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestDescriptorsInUseAgain: connections that come and go beside others that
// stay. No one is cancelled for another.
func TestDescriptorsInUseAgain(t *testing.T) {
	var wrong atomic.Int32
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("X-Stay") != "" {
			time.Sleep(3 * time.Millisecond)
			if r.Context().Err() != nil {
				wrong.Add(1)
			}
		}
	})
	for range 300 {
		a := s.dial()
		a.send(post("x"))
		a.wantAnswer(200, "")
		_ = a.SetLinger(0)
		_ = a.Close()
		b := s.dial()
		b.send(post("x", "X-Stay: 1\r\n"))
		b.wantAnswer(200, "")
		_ = b.Close()
	}
	if wrong.Load() > 0 {
		t.Errorf("%d requests cancelled for another connection", wrong.Load())
	}
}

func TestEventCarriesTheGeneration(t *testing.T) {
	for _, id := range []uint64{0, 1, 1 << 31, 1<<32 - 1, 1 << 32, 1<<63 + 12345, 1<<64 - 1} {
		if ev := event(id); eventID(&ev) != id {
			t.Errorf("%d became %d", id, eventID(&ev))
		}
	}
}

// TestWatchEnds: its goroutine goes, a connection is not added any more, and
// is handed over then.
func TestWatchEnds(t *testing.T) {
	s := start(t, echo)
	p := s.dial()
	p.send(post("x"))
	p.wantAnswer(200, "x")
	c := s.all()[0]
	s.watch.close()
	if err := s.watch.add(c.raw, 7); err == nil || errors.Is(err, syscall.EBADF) {
		t.Errorf("add after close: %v", err)
	}
	q := s.dial()
	q.send(post("y"))
	q.wantAnswer(200, "y")
	if s.Stats().Handed[Unwatched] != 1 {
		t.Errorf("stats %+v", s.Stats())
	}
}

// TestClientLeavesAtOnce, before it is watched.
func TestClientLeavesAtOnce(t *testing.T) {
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	s := start(t, leaver(begun, ended, false))
	for range 50 {
		p := s.dial()
		p.send(post("x"))
		_ = p.Close()
		<-begun
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
}
