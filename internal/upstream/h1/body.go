package h1

import (
	"errors"
	"fmt"
	"io"
	"net/http"
)

// directRead is how large a caller's buffer must be to be read into without
// one of our own between. Smaller reads would cost a system call each.
const directRead = 512

// Read reads from the response's body. It gives what one read from the
// connection brought; io.EOF comes together with the last bytes where the end
// is known by then.
func (x *exchange) Read(p []byte) (int, error) {
	x.rd.Lock()
	defer x.rd.Unlock()
	switch {
	case x.closed.Load():
		return 0, http.ErrBodyReadAfterClose
	case x.final != nil:
		return 0, x.final
	case x.ctx.Err() != nil:
		return 0, x.fail(x.ctx.Err())
	case len(p) == 0:
		return 0, nil
	}
	c := x.conn.Load()
	if c == nil { // Close has just taken it
		return 0, x.fail(http.ErrBodyReadAfterClose)
	}
	n, done, err := x.read(c, p)
	switch {
	case done:
		return n, x.complete()
	case err != nil:
		return n, x.fail(bodyError(err))
	}
	return n, nil
}

func bodyError(err error) error {
	if err == io.EOF {
		// RFC 9112, section 8: a body that was cut off is not complete.
		return io.ErrUnexpectedEOF
	}
	if errors.Is(err, ErrMalformed) {
		return err
	}
	return fmt.Errorf("h1: reading the response's body: %w", err)
}

// complete ends an exchange whose body was read to its end.
func (x *exchange) complete() error {
	if err := x.mergeTrailer(); err != nil {
		return x.fail(err)
	}
	x.final = io.EOF
	x.end(true)
	return io.EOF
}

// read reads once, and is done when the body has ended.
func (x *exchange) read(c *conn, p []byte) (n int, done bool, err error) {
	switch x.mode {
	case countedBody:
		n, err = x.take(c, p[:min(int64(len(p)), x.left)])
		x.left -= int64(n)
		return n, x.left == 0, err
	case chunkedBody:
		return x.readChunks(c, p)
	}
	n, err = x.take(c, p)
	return n, err == io.EOF, err
}

// take gives bytes from the buffer if there are any, else from the connection.
func (x *exchange) take(c *conn, p []byte) (int, error) {
	if x.in.len() == 0 {
		if len(p) >= directRead {
			n, err := c.nc.Read(p)
			if err != nil {
				x.keep = false
			}
			return n, err
		}
		if err := x.in.fill(c); err != nil {
			return 0, err
		}
	}
	n := copy(p, x.in.bytes())
	x.in.use(n)
	return n, nil
}

// readChunks reads a chunked body: from the buffer if there is something, else
// straight into p, where it is decoded in place, so that a stream that waits
// for its next event holds no buffer.
func (x *exchange) readChunks(c *conn, p []byte) (n int, done bool, err error) {
	for n == 0 && !done && err == nil {
		switch {
		case x.in.len() > 0:
			var used int
			used, n, err = x.dec.decode(p, x.in.bytes())
			x.in.use(used)
		case len(p) >= directRead:
			n, err = x.readInPlace(c, p)
		default:
			err = x.in.fill(c)
		}
		done = x.dec.done()
	}
	return n, done, err
}

func (x *exchange) readInPlace(c *conn, p []byte) (int, error) {
	k, rerr := c.nc.Read(p)
	used, n, err := x.dec.decode(p, p[:k])
	if used < k || rerr != nil {
		x.keep = false // more than was asked for, or the end
	}
	if err == nil && !x.dec.done() {
		err = rerr
	}
	return n, err
}

// Close ends the exchange. It may be called at any time, by anyone, and more
// than once. A body that is not at its end costs the connection: reading on
// could take for ever. But if the rest has already come, as the last chunk
// after a stream's last event mostly has, it is taken and the connection kept.
func (x *exchange) Close() error {
	if x.closed.Swap(true) {
		return nil
	}
	if !x.rd.TryLock() {
		// A Read may be waiting: end the connection under it.
		if c := x.conn.Swap(nil); c != nil {
			x.finish(c, false)
		}
		x.rd.Lock()
	}
	defer x.rd.Unlock()
	if x.final == nil {
		x.final = http.ErrBodyReadAfterClose
	}
	c := x.conn.Load()
	x.end(c != nil && x.keep && x.ctx.Err() == nil && x.restIsHere(c))
	return nil
}

// restIsHere takes the rest of the body if it can be had without waiting, and
// is true if that was all of it.
func (x *exchange) restIsHere(c *conn) bool {
	x.in.use(x.skip(x.in.bytes()))
	if x.in.len() > 0 || x.ended() {
		return x.ended()
	}
	if x.mode == countedBody && x.left > int64(len(block{})) {
		return false
	}
	b := newBlock()
	defer b.free()
	n, err := c.tryRead(b[:])
	if err != nil {
		return false
	}
	return x.skip(b[:n]) == n && x.ended()
}

// skip takes what belongs to the body from the start of b, and says how much.
func (x *exchange) skip(b []byte) int {
	switch x.mode {
	case countedBody:
		n := min(int64(len(b)), x.left)
		x.left -= n
		return int(n)
	case chunkedBody:
		n, _, err := x.dec.decode(b, b)
		if err != nil {
			x.keep = false
		}
		return n
	}
	return 0
}

func (x *exchange) ended() bool {
	switch x.mode {
	case countedBody:
		return x.left == 0
	case chunkedBody:
		return x.keep && x.dec.done()
	}
	return false
}
