// Package socket reads and writes the socket of a connection without telling
// Go's scheduler that a system call is under way.
//
// The scheduler has to be told of calls that may block. On a socket of package
// net none does: the descriptor is non-blocking, and what cannot be done at
// once is waited for in the poller. To be told costs it a little each time, and
// in a process that is idle between requests much more: it wakes the runtime's
// monitor thread, which then polls for a while. That was a quarter of what a
// small request cost the gateway.
//
// The two halves of HTTP/1.1, edge/h1 and upstream/h1, use it for plain TCP.
// Elsewhere than on Linux, and under the race detector, which must see the
// calls to know what happened before what, the ordinary calls are made.
package socket

import (
	"io"
	"os"
	"syscall"
)

// Conn does the input and output of one connection. One goroutine may read
// while another writes. Deadlines and closing stay with the net.Conn.
type Conn struct {
	raw syscall.RawConn

	in      []byte
	inN     int
	inErr   error
	readFn  func(uintptr) bool // bound once, so that a call need not allocate it
	out     [3][]byte
	outN    int64
	outErr  error
	writeFn func(uintptr) bool
}

// New makes a Conn over the raw connection of a stream socket.
func New(raw syscall.RawConn) *Conn {
	c := &Conn{raw: raw}
	c.readFn, c.writeFn = c.tryRead, c.tryWrite
	return c
}

// Read waits until there is something and reads it, at most len(p) bytes.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.in, c.inN, c.inErr = p, 0, nil
	err := c.raw.Read(c.readFn)
	c.in = nil
	if err != nil {
		return 0, err
	}
	return c.inN, c.inErr
}

func (c *Conn) tryRead(fd uintptr) bool {
	n, err := Read(fd, c.in)
	if err == syscall.EAGAIN { //nolint:errorlint // an Errno as it is
		return false
	}
	c.inN, c.inErr = n, Error("read", n, err)
	return true
}

// Write writes one to three parts, one behind the other, with as few calls as
// the system allows. It returns how many bytes were taken.
func (c *Conn) Write(a, b, d []byte) (int64, error) {
	c.out, c.outN, c.outErr = [3][]byte{a, b, d}, 0, nil
	err := c.raw.Write(c.writeFn)
	c.out = [3][]byte{}
	if err != nil {
		return c.outN, err
	}
	return c.outN, c.outErr
}

func (c *Conn) tryWrite(fd uintptr) bool {
	for {
		c.drop()
		if len(c.out[0]) == 0 {
			return true
		}
		n, err := writev(fd, &c.out)
		switch {
		case err == syscall.EAGAIN: //nolint:errorlint // an Errno as it is
			return false
		case err != nil:
			c.outErr = Error("write", n, err)
			return true
		}
		c.took(n)
	}
}

// drop moves the parts up over those that are empty.
func (c *Conn) drop() {
	for i := 0; i < len(c.out) && len(c.out[0]) == 0; i++ {
		c.out[0], c.out[1], c.out[2] = c.out[1], c.out[2], nil
	}
	if len(c.out[1]) == 0 {
		c.out[1], c.out[2] = c.out[2], nil
	}
}

// took takes n written bytes off the parts.
func (c *Conn) took(n int) {
	c.outN += int64(n)
	for i := range c.out {
		k := min(n, len(c.out[i]))
		c.out[i], n = c.out[i][k:], n-k
	}
}

// Error is what a read or write comes to in the terms of packages io and os.
func Error(call string, n int, err error) error {
	switch {
	case err != nil:
		return os.NewSyscallError(call, err)
	case n == 0 && call == "read":
		return io.EOF
	}
	return nil
}
