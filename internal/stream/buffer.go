package stream

import (
	"bytes"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/wire/sse"
)

type (
	scanner = sse.Scanner
	event   = sse.Event
)

// A stream's buffer is small while the stream waits, because there may be
// thousands of them and most events are; it is grown while more comes than fits,
// and for an event that is larger.
const (
	firstBuffer = 2 << 10
	grownBuffer = 16 << 10
)

var (
	buffers = sync.Pool{New: func() any { return new([firstBuffer]byte) }}
	grown   = sync.Pool{New: func() any { return new([grownBuffer]byte) }}
)

func getBuffer() []byte { return buffers.Get().(*[firstBuffer]byte)[:] }

// putBuffer gives a buffer back. What had to be larger still is left to the
// collector.
func putBuffer(b []byte) {
	switch len(b) {
	case firstBuffer:
		buffers.Put((*[firstBuffer]byte)(b))
	case grownBuffer:
		grown.Put((*[grownBuffer]byte)(b))
	}
}

// room makes place for the next read, behind one of n bytes: it moves what is left
// to the front, and fits the buffer to what comes. Nothing is waiting to be
// written then.
func (c *copier) room(n int) error {
	full := c.w == len(c.buf)
	if c.r > 0 {
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r, c.from, c.out = 0, 0, 0
	}
	switch {
	case c.w >= c.plan.maxEvent:
		return c.tooLarge()
	case full && (c.w == len(c.buf) || len(c.buf) < grownBuffer):
		c.grow(c.w + 1)
	case c.w == 0 && n < firstBuffer/2 && len(c.buf) > firstBuffer:
		putBuffer(c.buf)
		c.buf = getBuffer()
	}
	return nil
}

func (c *copier) tooLarge() *fault.Error {
	return fault.New(fault.UpstreamMalformed, "stream.Copy", "The model's provider sent an event larger than the %d bytes this gateway accepts.", c.plan.maxEvent)
}

// reserve makes the buffer hold n bytes behind w.
func (c *copier) reserve(n int) {
	if c.w+n > len(c.buf) {
		c.grow(c.w + n)
	}
}

// grow takes a larger buffer, of size bytes at least. Nothing of an event may be in
// use.
func (c *copier) grow(size int) {
	var b []byte
	if size <= grownBuffer && len(c.buf) < grownBuffer {
		b = grown.Get().(*[grownBuffer]byte)[:]
	} else {
		b = make([]byte, max(2*len(c.buf), size))
	}
	copy(b, c.buf[:c.w])
	putBuffer(c.buf)
	c.buf = b
}

var bom = []byte("\xef\xbb\xbf")

// keep lets the block at at pass, and returns where it lies then. It joins what
// is to be written already, so that dropped blocks between two others cost no
// write of their own.
func (c *copier) keep(at int) int {
	if c.out == c.from {
		c.from, c.out = at, at
	}
	place := c.out
	if place != at {
		copy(c.buf[place:], c.buf[at:c.r])
	}
	c.out += c.r - at
	if c.r == c.w && bytes.HasSuffix(c.buf[place:c.out], []byte("\n\r")) {
		// The LF that follows is on its way, and some clients wait for it.
		c.reserve(1)
		c.buf[c.out] = '\n'
		c.out++
	}
	return place
}

// keepData is keep for an event. The first one is given the reconnection time,
// as a field of its own: some clients take a block of fields without data for
// an empty event.
func (c *copier) keepData(at int) {
	place := c.keep(at)
	if c.glued == glueWaits {
		c.glued, c.glue = gluePlaced, place
		if c.buf[place] == '\n' { // it belongs to the line end before
			c.glue++
		}
	}
}

// glue is the state of the reconnection time.
type glue uint8

const (
	glueWaits  glue = iota // no event has passed yet
	gluePlaced             // its place is known
	glueDone               // it has been written
)

// send writes what is to be written, and flushes as the plan says or if must is
// set.
func (c *copier) send(must bool) error {
	out := c.buf[c.from:c.out]
	if c.glued == gluePlaced {
		out = c.withRetry(out)
	}
	c.from, c.out = c.r, c.r
	if len(out) == 0 && !must {
		return nil
	}
	return c.put(out, must)
}

// withRetry is out with the reconnection time put in. One write is worth the
// copy, which happens once a stream.
func (c *copier) withRetry(out []byte) []byte {
	c.glued = glueDone
	if c.plan.retryMS == 0 {
		return out
	}
	at := c.glue - c.from
	with := append(make([]byte, 0, len(out)+24), out[:at]...)
	return append(sse.AppendRetry(with, c.plan.retryMS), out[at:]...)
}

// put writes and flushes.
func (c *copier) put(p []byte, must bool) (err error) {
	w := &c.watch
	w.lock(len(p))
	if len(p) > 0 && p[0] == '\n' && !w.cr {
		// The LF of a CRLF whose CR is not what the client was sent last: alone it
		// would be a blank line.
		p = p[1:]
	}
	if len(p) > 0 {
		w.cr = p[len(p)-1] == '\r'
	}
	if c.plan.flush == flushFull {
		p = c.hold(p, must)
	}
	if len(p) > 0 {
		_, err = c.To.Write(p)
		w.pending += len(p)
	}
	if err == nil && w.pending > 0 && (must || c.due(w.pending)) {
		err = c.To.Flush()
		w.pending = 0
	}
	return c.wrote(w.unlock(), err)
}

// hold keeps bytes back until a buffer is full, or there are no more to come.
// They are kept here and not left to the client's side, which has buffers of
// its own size.
func (c *copier) hold(p []byte, must bool) []byte {
	c.held = append(c.held, p...)
	if !must && len(c.held) < c.plan.buffer {
		return nil
	}
	p, c.held = c.held, nil
	return p
}

// due is whether what is pending is to be flushed now.
func (c *copier) due(pending int) bool {
	switch c.plan.flush {
	case flushCoalesce:
		return pending >= 4<<10
	case flushFull:
		return pending >= c.plan.buffer
	}
	return true
}

// wrote accounts for a write. A client that cannot be written to has gone, or
// has stopped reading.
func (c *copier) wrote(waited time.Duration, err error) error {
	if waited > stalled {
		c.receipt.BackPressure += waited
	}
	if err == nil {
		return nil
	}
	if c.watch.slow.Load() {
		return fault.Wrap(fault.SlowClient, "stream.Copy", err)
	}
	return fault.Wrap(fault.Canceled, "stream.Copy", err)
}

// stalled is how long a write must take to count as waiting for the client.
const stalled = time.Millisecond

// comment is whether a block that holds no field is one; other lines mean
// nothing, and blank ones are dropped.
func comment(block []byte) bool {
	return bytes.HasPrefix(bytes.TrimPrefix(block, []byte("\n")), []byte(":"))
}
