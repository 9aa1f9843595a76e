//go:build linux

package h1

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// What a handler leaves of a body is read away, so that the connection can be
// used again, if it is little and comes soon. The amount is net/http's.
const (
	maxDrain  = 256 << 10
	drainTime = 250 * time.Millisecond
)

// body is the body of one request: exactly as many bytes as its
// Content-Length says (RFC 9112, 6.3).
type body struct {
	c *conn

	mu     sync.Mutex // held while reading
	left   int64      // guarded by mu
	err    error      // guarded by mu: nothing more will come
	closed bool       // guarded by mu: by the handler, or because it was drained
	over   bool       // guarded by mu: the exchange has ended
}

// Read implements io.Reader. Like net/http, it gives the end with the last
// bytes. A connection that ends too early is io.ErrUnexpectedEOF, and the
// client gone.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed || b.over:
		return 0, http.ErrBodyReadAfterClose
	case b.err != nil:
		return 0, b.err
	case b.left == 0:
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.c.read(p)
	if b.left -= int64(n); b.left == 0 {
		return n, io.EOF
	}
	if err != nil {
		err = b.failed(err)
	}
	return n, err
}

// failed judges an error of the connection. A deadline that passed does not
// say that the client has left.
func (b *body) failed(err error) error {
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		return err
	}
	b.c.life.End(nil)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	b.err = err
	return err
}

// Close implements io.Closer. What is left is dealt with by the exchange.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

// settle is called before the head of an answer is sent: a client that sends
// all of its request before it reads must not be left writing for ever. It is
// whether the connection can take another request. A body that another
// goroutine is reading is left alone.
func (b *body) settle() bool {
	if !b.mu.TryLock() {
		return true
	}
	defer b.mu.Unlock()
	switch {
	case b.left == 0:
		return true
	case b.err != nil || b.left-int64(b.c.in.len()) > maxDrain:
		return false
	}
	b.closed = true
	b.left = b.c.discard(b.left, drainTime)
	return b.left == 0
}

// end takes the connection back from the body, and is how much of it is left.
// A goroutine that still reads, although the handler has returned, is
// interrupted; the connection is then not idle and of no more use.
func (b *body) end() (left int64, idle bool) {
	idle = b.mu.TryLock()
	if !idle {
		_ = b.c.rw.SetReadDeadline(time.Unix(1, 0))
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	b.over = true
	if b.err != nil {
		idle = false
	}
	return b.left, idle
}
