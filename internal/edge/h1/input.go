//go:build linux

package h1

import (
	"bytes"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/headgate-ai/headgate/internal/socket"
)

// A page is the buffer of a connection's input or output. It is held only
// while bytes are in it, so that neither an idle connection nor an open stream
// holds one.
type page [4 << 10]byte

var pages = sync.Pool{New: func() any { return new(page) }}

// input is what was read of a connection and not yet used: buf[r:w].
type input struct {
	buf  []byte // nil when nothing is held
	page *page  // behind buf; nil if buf has outgrown it
	r, w int
}

func (in *input) len() int { return in.w - in.r }

// hold makes room for at least one byte.
func (in *input) hold() {
	switch {
	case in.buf == nil:
		in.page = pages.Get().(*page)
		in.buf, in.r, in.w = in.page[:], 0, 0
	case in.w < len(in.buf):
	case in.r > 0:
		in.w = copy(in.buf, in.buf[in.r:in.w])
		in.r = 0
	default:
		grown := make([]byte, 2*len(in.buf))
		copy(grown, in.buf[:in.w])
		if in.page != nil {
			pages.Put(in.page)
		}
		// A grown buffer is left to the collector: in the pool it would stay
		// large for ever.
		in.buf, in.page = grown, nil
	}
}

// release gives the buffer back, and with it all that is in it.
func (in *input) release() {
	if in.page != nil {
		pages.Put(in.page)
	}
	*in = input{}
}

// skip is for bytes that have been used.
func (in *input) skip(n int) {
	if in.r += n; in.r == in.w {
		in.release()
	}
}

// take moves bytes out.
func (in *input) take(p []byte) int {
	n := copy(p, in.buf[in.r:in.w])
	in.skip(n)
	return n
}

// copy is all that is there, in memory of its own.
func (in *input) copy() []byte { return bytes.Clone(in.buf[in.r:in.w]) }

// fill waits for bytes and reads them into the input.
func (c *conn) fill() error {
	if c.tls != nil {
		return c.fillTLS()
	}
	if err := c.raw.Read(c.tryFill); err != nil {
		return err
	}
	return c.fillErr
}

// readIfReady reads what is there; where nothing is, it gives the buffer back
// and has the poller wait.
func (c *conn) readIfReady(fd uintptr) bool {
	in := &c.in
	in.hold()
	n, err := socket.Read(fd, in.buf[in.w:])
	switch {
	case err == syscall.EAGAIN: //nolint:errorlint // an Errno as it is
		if in.len() == 0 {
			in.release()
		}
		return false
	case err != nil:
		c.fillErr = err
	case n == 0:
		c.fillErr = io.EOF
	default:
		c.fillErr = nil
		in.w += n
	}
	return true
}

// fillTLS waits with a read of one byte, because it cannot be seen from the
// socket whether TLS has bytes. The rest of the record is then in memory.
func (c *conn) fillTLS() error {
	in := &c.in
	if in.len() > 0 {
		in.hold()
		n, err := c.tls.Read(in.buf[in.w:])
		in.w += n
		if n > 0 {
			return nil
		}
		return err
	}
	in.release()
	if n, err := c.tls.Read(c.one[:]); n == 0 {
		return err
	}
	in.hold()
	in.w = copy(in.buf, c.one[:])
	return nil
}

// read reads into p: what is left in the input, else from the connection.
func (c *conn) read(p []byte) (int, error) {
	if c.in.len() > 0 {
		return c.in.take(p), nil
	}
	if c.tls == nil {
		return c.sock.Read(p)
	}
	return c.tls.Read(p)
}

// discard reads n bytes away, within d. It is the number that is left.
func (c *conn) discard(n int64, d time.Duration) int64 {
	if had := int64(c.in.len()); had > 0 {
		had = min(had, n)
		c.in.skip(int(had))
		n -= had
	}
	if n == 0 {
		return 0
	}
	_ = c.rw.SetReadDeadline(time.Now().Add(d))
	defer func() { _ = c.rw.SetReadDeadline(time.Time{}) }()
	p := pages.Get().(*page)
	defer pages.Put(p)
	for n > 0 {
		got, err := c.rw.Read(p[:min(n, int64(len(p)))])
		n -= int64(got)
		if err != nil {
			break
		}
	}
	return n
}

// lingerTime is how long a client that still sends is listened to after the
// last byte of its answer, so that the system does not answer with a reset
// that destroys what the client has not read yet (RFC 9112, 9.6).
const lingerTime = 500 * time.Millisecond

// linger closes the sending half and reads away what comes.
func (c *conn) linger() {
	c.in.release()
	if c.tls != nil {
		_ = c.tls.CloseWrite()
	}
	if c.link.CloseWrite() != nil {
		return
	}
	_ = c.link.SetReadDeadline(time.Now().Add(lingerTime))
	p := records.Get().(*[recordSize]byte)
	defer records.Put(p)
	for {
		if _, err := c.link.Read(p[:]); err != nil {
			return
		}
	}
}
