package h1

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// upload writes a request on a goroutine of its own, so that an answer that
// comes early is seen (RFC 9112, section 9.3). It goes on after that answer's
// head: some servers answer while they read.
//
// It closes the request's body when it has done with it. The exchange waits
// for it before it ends, except while the body's Read blocks, which nobody can
// interrupt: then the upload ends, and closes the body, when Read returns.
type upload struct {
	done  chan struct{}
	phase atomic.Int32
	gone  atomic.Bool // the exchange has left
	all   atomic.Bool // all was written but for a look for more
	wrote atomic.Bool

	// Valid when done.
	err  error
	own  bool // the error is the body's
	body io.ReadCloser
}

const (
	writing int32 = iota
	reading
)

// settleTime is how long a response that came to its end waits for the end of
// its request, as in net/http.
const settleTime = 50 * time.Millisecond

var errLeft = errors.New("h1: the exchange ended before its request")

// startUpload begins to write a head and the body. It takes over both.
func startUpload(c *conn, o *outgoing, p *[]byte, head []byte) *upload {
	u := &upload{done: make(chan struct{}), body: o.body}
	o.body = nil
	body, inMemory, length := o.parts, o.inMemory, o.length
	go func() {
		defer close(u.done)
		defer u.caught(c)
		u.run(c, head, body, inMemory, length)
		freeOut(p, head)
	}()
	return u
}

// caught turns a panic of the body into its error: on this goroutine nobody
// else can, and it would end the process.
func (u *upload) caught(c *conn) {
	if v := recover(); v != nil {
		u.err, u.own, u.body = fmt.Errorf("h1: the request's body panicked: %v", v), true, nil
		c.expire()
	}
}

func (u *upload) run(c *conn, head []byte, all parts, inMemory bool, length int64) {
	if inMemory {
		if u.err = u.write(c, head, all); u.err != nil && !u.wrote.Load() {
			return // it may be sent again, so its owner closes it
		}
	} else if u.err = u.write(c, head, parts{}); u.err == nil {
		u.err = u.stream(c, length)
	}
	body := u.body
	u.body = nil
	if err := body.Close(); err != nil && u.err == nil && !inMemory {
		u.err, u.own = err, true
	}
	if u.own {
		c.expire() // no answer is worth waiting for
	}
}

func (u *upload) write(c *conn, b []byte, rest parts) error {
	if u.gone.Load() {
		return errLeft
	}
	n, err := c.write(b, rest)
	if n > 0 {
		u.wrote.Store(true)
	}
	if err != nil {
		return fmt.Errorf("h1: writing the request: %w", err)
	}
	return nil
}

// read reads from the body. It says so before, and looks whether the exchange
// has left after that; leave does both in the other order.
func (u *upload) read(p []byte) (int, error) {
	u.phase.Store(reading)
	defer u.phase.Store(writing)
	if u.gone.Load() {
		return 0, errLeft
	}
	n, err := u.body.Read(p)
	if n < 0 || n > len(p) {
		n, err = 0, errors.New("h1: the request's body read more than it was asked for")
	}
	u.own = err != nil && err != io.EOF
	return n, err
}

var copyBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func (u *upload) stream(c *conn, length int64) error {
	buf := copyBuffers.Get().(*[32 << 10]byte)
	defer copyBuffers.Put(buf)
	if length < 0 {
		return u.chunked(c, buf[:])
	}
	return u.counted(c, buf[:], length)
}

// counted sends a body of a known length, and makes sure of it: a byte less
// would leave the server waiting, a byte more would begin another request.
func (u *upload) counted(c *conn, buf []byte, length int64) error {
	for left := length; left > 0; {
		n, err := u.read(buf[:min(int64(len(buf)), left)])
		left -= int64(n)
		if n > 0 {
			if err := u.write(c, buf[:n], parts{}); err != nil {
				return err
			}
		}
		if err == io.EOF && left > 0 {
			u.own = true
			return fmt.Errorf("h1: ContentLength is %d, the body ended after %d bytes: %w",
				length, length-left, io.ErrUnexpectedEOF)
		}
		if err != nil && err != io.EOF {
			return err
		}
	}
	u.all.Store(true)
	return u.none(buf, length)
}

// none makes sure that nothing follows.
func (u *upload) none(buf []byte, length int64) error {
	for range 100 {
		n, err := u.read(buf[:1])
		if n > 0 {
			u.own = true
			return fmt.Errorf("h1: ContentLength is %d, the body is longer: %w", length, http.ErrContentLength)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	u.own = true
	return io.ErrNoProgress
}

// chunked sends a body of unknown length, a chunk and a write a Read (RFC
// 9112, section 7.1).
func (u *upload) chunked(c *conn, buf []byte) error {
	const front = len("7fff\r\n")
	const end = "\r\n0\r\n\r\n"
	for idle := 0; ; {
		n, err := u.read(buf[front : len(buf)-len(end)])
		if err != nil && err != io.EOF {
			return err
		}
		b := buf[front : front+n]
		if n > 0 {
			var size [front]byte
			s := append(strconv.AppendInt(size[:0], int64(n), 16), "\r\n"...)
			from := front - len(s)
			copy(buf[from:], s)
			b = append(buf[from:front+n], "\r\n"...)
		}
		if err == io.EOF {
			return u.write(c, append(b, "0\r\n\r\n"...), parts{})
		}
		if n == 0 {
			if idle++; idle > 100 {
				u.own = true
				return io.ErrNoProgress
			}
			continue
		}
		idle = 0
		if err := u.write(c, b, parts{}); err != nil {
			return err
		}
	}
}

// over is whether the upload has ended.
func (u *upload) over() bool {
	select {
	case <-u.done:
		return true
	default:
		return false
	}
}

// failedItself is whether an upload that is over failed, and not because the
// exchange left it.
func (u *upload) failedItself() bool {
	return u.err != nil && u.err != errLeft && !errors.Is(u.err, net.ErrClosed)
}

// settled is whether the whole request was written. A response can be read
// before the goroutine that wrote the request has come to say so.
func (u *upload) settled(wait bool) bool {
	if !u.over() && wait && (u.phase.Load() == writing || u.all.Load()) {
		timer := time.NewTimer(settleTime)
		defer timer.Stop()
		select {
		case <-u.done:
		case <-timer.C:
		}
	}
	return wait && u.over() && u.err == nil
}

// leave ends an upload: nothing is written any more.
func (u *upload) leave(c *conn) {
	u.gone.Store(true)
	c.abort()
	if u.phase.Load() != reading {
		<-u.done
	}
}
