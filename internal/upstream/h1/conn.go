package h1

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/headgate-ai/headgate/internal/scope"
	"github.com/headgate-ai/headgate/internal/socket"
)

// conn is a connection to a host. Nothing of an exchange lives in it: what is
// left of one when it ends must not reach the next.
type conn struct {
	host   *host
	nc     net.Conn        // what is read and written
	below  net.Conn        // the transport below TLS, or nc itself
	raw    syscall.RawConn // of below; nil if it can't be asked
	sock   *socket.Conn    // does the input and output of a plain connection; nil if it can't
	wire   *wire           // between TLS and below; nil without TLS
	state  *tls.ConnectionState
	reused bool
	idleAt time.Time

	// Bound once, so that an exchange need not allocate them.
	expire func() // makes every read and write fail, now and later
	peekFn func(uintptr) bool
	recvFn func(uintptr) bool
	got    received // recvFn's result
	peeked struct {
		n   int
		err error
	}
	one [1]byte
}

// Ended implements scope.Watcher.
func (c *conn) Ended() { c.expire() }

// received is what one read into a pooled buffer brought.
type received struct {
	buf *block
	n   int
	err error
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// dial makes a connection in a slot that is already taken, and gives the slot
// back if that fails.
func (t *Transport) dial(ctx context.Context, h *host, info *Info) (*conn, error) {
	c, err := t.connect(ctx, h)
	if err != nil {
		t.mu.Lock()
		t.stats.DialErrors++
		t.freeSlot(h)
		t.mu.Unlock()
		if ctx.Err() != nil {
			return nil, scope.Cause(ctx)
		}
		return nil, err
	}
	t.count(func(s *Stats) { s.Dialled++ })
	info.Connected, info.Reused = time.Now(), false
	return c, nil
}

func (t *Transport) connect(ctx context.Context, h *host) (*conn, error) {
	name, addr := address(h.key)
	below, err := t.cfg.Dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &conn{host: h, nc: below, below: below}
	if s, ok := below.(syscall.Conn); ok && canPeek {
		if raw, err := s.SyscallConn(); err == nil {
			c.raw = raw
		}
	}
	if h.key.scheme == "http" && c.raw != nil {
		c.sock = socket.New(c.raw)
		c.nc = plain{below, c.sock}
	}
	if h.key.scheme == "https" {
		if err := t.handshake(ctx, c, name); err != nil {
			_ = below.Close()
			return nil, err
		}
	}
	c.expire = func() { _ = c.below.SetDeadline(past) }
	c.peekFn, c.recvFn = c.peekFD, c.recvFD
	return c, nil
}

// handshake puts TLS on a connection.
func (t *Transport) handshake(ctx context.Context, c *conn, name string) error {
	cfg := t.cfg.TLS
	if cfg.ServerName == "" {
		cfg = cfg.Clone()
		cfg.ServerName = name
	}
	if d := t.cfg.HandshakeTimeout; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, errHandshake)
		defer cancel()
	}
	c.wire = &wire{Conn: c.below, raw: c.raw}
	tc := tls.Client(c.wire, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		if context.Cause(ctx) == errHandshake {
			return errHandshake
		}
		return err
	}
	state := tc.ConnectionState()
	if p := state.NegotiatedProtocol; p != "" && p != "http/1.1" {
		return fmt.Errorf("h1: server chose %q instead of http/1.1", p)
	}
	c.nc, c.state = tc, &state
	return nil
}

// passing is a net.Error after which crypto/tls can go on: it remembers only
// errors that are not temporary.
type passing string

func (p passing) Error() string { return string(p) }
func (passing) Timeout() bool   { return true }
func (passing) Temporary() bool { return true }

const (
	errHandshake passing = "h1: TLS handshake timeout"
	// errNothing says that nothing can be read now. It is not a deadline's
	// error, so that a connection that has been cancelled does not look idle.
	errNothing passing = "h1: nothing to read"
)

// close ends a connection in good order: with TLS it says so to the peer.
func (c *conn) close() { _ = c.nc.Close() }

// abort ends a connection at once. TLS would wait up to 5 s to say good-bye to
// a peer that does not read.
func (c *conn) abort() { _ = c.below.Close() }

// alive is whether an idle connection may be used: it is open, and nothing
// came that was not asked for. A server that closed, sent a 408, or sent more
// than its answer, is found out here (RFC 9112, section 9.5). Where the system
// can't be asked the answer is yes.
//
// Below TLS, bytes may also be session tickets, which servers send after the
// handshake (RFC 8446, section 4.6.1), so there TLS itself reads what has come.
func (c *conn) alive() bool {
	if c.raw == nil {
		return true
	}
	if c.wire == nil {
		return c.quiet()
	}
	n, err := c.tryRead(c.one[:])
	return n == 0 && errors.Is(err, errNothing)
}

// tryRead reads what has come, without waiting: if there is nothing the error
// is errNothing.
func (c *conn) tryRead(p []byte) (int, error) {
	if c.raw == nil {
		return 0, errNothing
	}
	if c.wire == nil {
		return readNow(c.raw, p)
	}
	c.wire.now = true
	n, err := c.nc.Read(p)
	c.wire.now = false
	return n, err
}

// next waits for bytes, and only then takes a buffer for them.
func (c *conn) next() received {
	if c.raw != nil && c.wire == nil {
		return c.receive()
	}
	if c.raw == nil {
		b := newBlock()
		n, err := c.nc.Read(b[:])
		return received{b, n, err}
	}
	n, err := c.nc.Read(c.one[:])
	if n == 0 {
		return received{nil, 0, err}
	}
	b := newBlock()
	b[0] = c.one[0]
	more, err := c.tryRead(b[1:]) // the rest of the record, which TLS has
	if errors.Is(err, errNothing) {
		err = nil
	}
	return received{b, 1 + more, err}
}

// write writes b and then body, together if the connection can. The number
// counts what left this process, which with TLS is more.
func (c *conn) write(b []byte, body parts) (int64, error) {
	var before int64
	if c.wire != nil {
		before = c.wire.written.Load()
	}
	if c.sock != nil {
		return c.sock.Write(b, body.a, body.b)
	}
	var n int64
	var err error
	if body.len() == 0 {
		var k int
		k, err = c.nc.Write(b)
		n = int64(k)
	} else {
		v := net.Buffers{b, body.a, body.b}
		n, err = v.WriteTo(c.nc)
	}
	if c.wire != nil {
		n = c.wire.written.Load() - before
	}
	return n, err
}

// plain is a connection whose bytes go through its socket directly.
type plain struct {
	net.Conn
	sock *socket.Conn
}

func (p plain) Read(b []byte) (int, error) { return p.sock.Read(b) }

func (p plain) Write(b []byte) (int, error) {
	n, err := p.sock.Write(b, nil, nil)
	return int(n), err
}

// wire lies between TLS and the connection below it.
type wire struct {
	net.Conn
	raw     syscall.RawConn
	now     bool // reads do not wait; owned by who reads
	written atomic.Int64
}

// Read gives errNothing if it may not wait and there is nothing.
func (w *wire) Read(p []byte) (int, error) {
	if w.now {
		return readNow(w.raw, p)
	}
	return w.Conn.Read(p)
}

// Write counts the bytes: a record that was written in part is none to TLS.
func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.written.Add(int64(n))
	return n, err
}
