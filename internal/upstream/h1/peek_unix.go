//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package h1

import (
	"io"
	"syscall"

	"github.com/headgate-ai/headgate/internal/socket"
)

const canPeek = true

// quiet is whether a plain connection is open with nothing to read.
func (c *conn) quiet() bool {
	c.peeked.n, c.peeked.err = 0, io.EOF
	if c.raw.Read(c.peekFn) != nil {
		return false
	}
	err := c.peeked.err
	return c.peeked.n <= 0 && (err == syscall.EAGAIN || err == syscall.EWOULDBLOCK)
}

func (c *conn) peekFD(fd uintptr) bool {
	c.peeked.n, c.peeked.err = socket.Peek(fd, c.one[:])
	return true
}

// receive waits for bytes and reads them into a buffer that is taken only when
// they are there.
func (c *conn) receive() received {
	c.got = received{}
	err := c.raw.Read(c.recvFn)
	got := c.got
	c.got = received{}
	if err != nil {
		return received{err: err}
	}
	return got
}

func (c *conn) recvFD(fd uintptr) bool {
	b := newBlock()
	n, err := readFD(fd, b[:])
	if err == errNothing {
		b.free()
		return false
	}
	c.got = received{b, n, err}
	return true
}

// readNow reads what has come, without waiting.
func readNow(raw syscall.RawConn, p []byte) (n int, err error) {
	if e := raw.Read(func(fd uintptr) bool {
		n, err = readFD(fd, p)
		return true
	}); e != nil {
		return 0, e
	}
	return n, err
}

// readFD is one read(2), with the errors of io and os.
func readFD(fd uintptr, p []byte) (int, error) {
	n, err := socket.Read(fd, p)
	if err == syscall.EAGAIN || err == syscall.EWOULDBLOCK {
		return 0, errNothing
	}
	return n, socket.Error("read", n, err)
}
