//go:build linux

package h1

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"syscall"

	"github.com/headgate-ai/headgate/internal/scope"
	"github.com/headgate-ai/headgate/internal/socket"
)

// conn is one connection. It belongs to the goroutine of serve, but for what
// is atomic and for life; the body and the response of the exchange under way
// reach in under their own locks.
type conn struct {
	s    *Server
	id   uint64 // the generation; set by track
	link *link
	rw   net.Conn // link, or the TLS above it
	raw  syscall.RawConn
	sock *socket.Conn         // does the input and output of plain text
	tls  *tls.Conn            // nil for plain text
	seen *tls.ConnectionState // nil for plain text

	life    scope.Scope // ends when the client leaves
	remote  string
	stamp   atomic.Int64
	watched atomic.Bool // is in the hang-up watch
	gone    bool        // handed over
	served  int         // requests so far

	in      input
	tryFill func(fd uintptr) bool // a method value made once
	fillErr error                 // of the last tryFill
	one     [1]byte
}

func newConn(s *Server, l *link) *conn {
	c := &conn{s: s, link: l, rw: l}
	c.stamp.Store(stamp(s.clock.Load(), fresh))
	c.life.Begin(localContext{s.base, l})
	c.tryFill = c.readIfReady
	return c
}

// localContext answers for the local address, as net/http does.
type localContext struct {
	context.Context
	l *link
}

func (c localContext) Value(key any) any {
	if key == http.LocalAddrContextKey {
		return c.l.LocalAddr()
	}
	return c.Context.Value(key)
}

// serve is the connection's goroutine.
func (c *conn) serve() {
	defer c.end()
	var err error
	if c.raw, err = c.link.SyscallConn(); err != nil || !c.open() {
		return
	}
	c.remote = c.link.RemoteAddr().String()
	c.sock = socket.New(c.raw)
	for c.next() {
	}
}

// end gives back what the connection holds. A panic that comes here is a
// mistake of this package; it must not end the process.
func (c *conn) end() {
	if p := recover(); p != nil {
		c.s.logf("h1: panic on the connection of %s: %v\n%s", c.remote, p, debug.Stack())
	}
	c.in.release()
	c.life.End(nil)
	if c.gone {
		return // the link is net/http's
	}
	c.s.forget(c)
	_ = c.rw.Close()
}

// open shakes hands where the client is to speak TLS. It is false where the
// connection is not the loop's.
func (c *conn) open() bool {
	if c.s.TLS == nil {
		return true
	}
	t := tls.Server(c.link, c.s.TLS)
	if err := t.Handshake(); err != nil { // the sweeper bounds it
		if e, ok := errors.AsType[tls.RecordHeaderError](err); ok && e.Conn != nil && looksLikeHTTP(e.RecordHeader) {
			_, _ = io.WriteString(e.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
		}
		c.s.logf("h1: TLS handshake error from %v: %v", c.link.RemoteAddr(), err)
		return false
	}
	st := t.ConnectionState()
	c.rw, c.tls, c.seen = t, t, &st
	if st.NegotiatedProtocol != "" && st.NegotiatedProtocol != "http/1.1" {
		c.handOver(ALPN)
		return false
	}
	return c.enter(fresh)
}

func looksLikeHTTP(b [5]byte) bool {
	switch string(b[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}

// next serves one request, and is whether another one may follow.
func (c *conn) next() bool {
	text, lines, v := c.readHead()
	if v.kind == fast {
		var h head
		if h, v = parse(text, lines, c.s.Known); v.kind == fast {
			if c.watch() {
				c.in.skip(len(text))
				return c.enter(active) && c.exchange(&h)
			}
			v = handed(Unwatched)
		}
	}
	switch v.kind {
	case toStd:
		c.handOver(v.reason)
	case refuse:
		c.refuse(v)
	}
	return false
}

// watch begins to watch the connection with its first request; what is handed
// over before never costs the call.
func (c *conn) watch() bool {
	if c.watched.Load() {
		return true
	}
	if err := c.s.watch.add(c.raw, c.id); err != nil {
		return false
	}
	c.watched.Store(true)
	return true
}

// refuse answers a head that must not be looked at any further, and closes
// (RFC 9112, 2.2, 5.1, 6.3).
func (c *conn) refuse(v verdict) {
	if !c.enter(finishing) {
		return
	}
	c.s.refused.Add(1)
	text := statusText(v.status)
	_, _ = io.WriteString(c.rw, "HTTP/1.1 "+text+"\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"+text+": "+v.why+"\n")
	c.linger()
}

// enter begins a state. It is false when the connection has been ended
// meanwhile.
func (c *conn) enter(st state) bool {
	for {
		v := c.stamp.Load()
		if _, old := unstamp(v); old == dead {
			return false
		}
		if c.stamp.CompareAndSwap(v, stamp(c.s.clock.Load(), st)) {
			return true
		}
	}
}

// abort ends the connection from any goroutine; that of serve finds out.
func (c *conn) abort() {
	_ = c.enter(dead)
	c.life.End(nil)
	c.s.forget(c)
	_ = c.link.Close()
}

// stopIfIdle ends the connection if no request is under way, for a graceful
// stop.
func (c *conn) stopIfIdle() bool {
	v := c.stamp.Load()
	clock, st := unstamp(v)
	if st != fresh && st != idle || !c.stamp.CompareAndSwap(v, stamp(clock, dead)) {
		return false
	}
	c.abort()
	return true
}
