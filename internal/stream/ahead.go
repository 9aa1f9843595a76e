package stream

import (
	"io"
	"sync"
	"time"
)

// ahead reads a body on while the client is slow, into a bounded buffer. It
// costs a goroutine and a copy, which is why it is a mode and not the rule.
type ahead struct {
	body io.ReadCloser
	done chan struct{}

	mu     sync.Mutex
	cond   sync.Cond
	buf    []byte // a ring; it grows up to limit, as most clients keep up
	limit  int
	head   int   // the oldest byte
	size   int   // the bytes there are
	err    error // of the body, told after the last byte
	closed bool
	waited time.Duration
}

// aheadRead is the most that is read at once, and what the ring begins with.
const aheadRead = 4 << 10

func readAhead(body io.ReadCloser, limit int) *ahead {
	a := &ahead{body: body, done: make(chan struct{}), buf: make([]byte, min(limit, aheadRead)), limit: limit}
	a.cond.L = &a.mu
	go a.fill()
	return a
}

// fill is the reader's goroutine; it ends with the body or with close.
func (a *ahead) fill() {
	defer close(a.done)
	chunk := make([]byte, aheadRead)
	for {
		n, err := a.body.Read(chunk)
		if !a.put(chunk[:n], err) {
			return
		}
	}
}

func (a *ahead) put(p []byte, err error) (more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(p) > a.limit-a.size && !a.closed {
		began := time.Now()
		for len(p) > a.limit-a.size && !a.closed {
			a.cond.Wait()
		}
		a.waited += time.Since(began)
	}
	if a.closed {
		return false
	}
	a.grow(len(p))
	for len(p) > 0 {
		at := (a.head + a.size) % len(a.buf)
		n := copy(a.buf[at:min(len(a.buf), at+len(a.buf)-a.size)], p)
		p, a.size = p[n:], a.size+n
	}
	a.err = err
	a.cond.Broadcast()
	return err == nil
}

// grow makes room for n more bytes, which are within the limit.
func (a *ahead) grow(n int) {
	if a.size+n <= len(a.buf) {
		return
	}
	ring := make([]byte, min(a.limit, max(2*len(a.buf), a.size+n)))
	first := copy(ring, a.buf[a.head:min(len(a.buf), a.head+a.size)])
	copy(ring[first:], a.buf[:a.size-first])
	a.buf, a.head = ring, 0
}

// Read gives what has been read ahead.
func (a *ahead) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.size == 0 && a.err == nil {
		a.cond.Wait()
	}
	if a.size == 0 {
		return 0, a.err
	}
	n := copy(p, a.buf[a.head:min(len(a.buf), a.head+a.size)])
	a.head, a.size = (a.head+n)%len(a.buf), a.size-n
	a.cond.Broadcast()
	return n, nil
}

// Close closes the body itself.
func (a *ahead) Close() error { return a.body.Close() }

// close ends the reader and returns how long it had waited for room.
func (a *ahead) close() time.Duration {
	a.mu.Lock()
	a.closed = true
	a.cond.Broadcast()
	a.mu.Unlock()
	_ = a.body.Close()
	<-a.done
	return a.waited
}
