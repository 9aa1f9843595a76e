//go:build linux

package h1

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// stream is what the own loop needs of a connection.
type stream interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

// link is an accepted socket. It is closed once, and then gives its slot back,
// whoever owns the connection by then.
type link struct {
	stream
	s      *Server
	closed atomic.Bool
}

// Close closes the socket.
func (l *link) Close() error {
	if l.closed.Swap(true) {
		return net.ErrClosed
	}
	err := l.stream.Close()
	l.s.open.Add(-1)
	l.s.unslot()
	return err
}

// handoff is the listener from which net/http takes what is handed over.
type handoff struct {
	addr net.Addr
	ch   chan net.Conn
	done chan struct{}
	once sync.Once
}

func newHandoff() *handoff {
	return &handoff{ch: make(chan net.Conn), done: make(chan struct{})}
}

// Accept is called by net/http.
func (h *handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.ch:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close ends it; what is handed over later is closed.
func (h *handoff) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

// Addr is the address of the first listener.
func (h *handoff) Addr() net.Addr { return h.addr }

// give hands a connection to net/http, for good.
func (s *Server) give(c net.Conn, why Reason) {
	s.handed[why].Add(1)
	select {
	case s.handoff.ch <- c:
	case <-s.handoff.done:
		_ = c.Close()
	}
}

// handOver gives the connection, with what was read of it, to net/http.
func (c *conn) handOver(why Reason) {
	read := c.in.copy()
	if !c.enter(dead) {
		return // the sweeper was quicker
	}
	c.s.forget(c)
	c.gone = true
	switch {
	case c.tls == nil:
		c.s.give(&replayed{c.link, replay{read}}, why)
	case len(read) == 0:
		c.s.give(c.tls, why)
	default:
		c.s.give(&replayedTLS{c.tls, replay{read}}, why)
	}
}

// replay is what was read before the hand-over. It is forgotten once it has
// been read again.
type replay struct{ read []byte }

func (r *replay) again(p []byte) int {
	n := copy(p, r.read)
	if r.read = r.read[n:]; len(r.read) == 0 {
		r.read = nil
	}
	return n
}

type replayed struct {
	*link
	replay
}

func (r *replayed) Read(p []byte) (int, error) {
	if len(r.read) > 0 {
		return r.again(p), nil
	}
	return r.link.Read(p)
}

// replayedTLS keeps the methods by which net/http sees that it is TLS.
type replayedTLS struct {
	*tls.Conn
	replay
}

func (r *replayedTLS) Read(p []byte) (int, error) {
	if len(r.read) > 0 {
		return r.again(p), nil
	}
	return r.Conn.Read(p)
}
