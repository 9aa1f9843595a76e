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

// A stream's buffer begins small, because most events are; one that had to
// grow for a large event is not kept for later streams.
const (
	firstBuffer = 4 << 10
	keepBuffer  = 64 << 10
)

var buffers = sync.Pool{New: func() any { b := make([]byte, firstBuffer); return &b }}

func getBuffer() []byte { return *buffers.Get().(*[]byte) }

func putBuffer(b []byte) {
	if cap(b) <= keepBuffer {
		b = b[:cap(b)]
		buffers.Put(&b)
	}
}

// room makes place for the next read: it moves what is left to the front, and
// grows the buffer when one event fills it.
func (c *copier) room() error {
	if c.r > 0 {
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r, c.from = 0, 0
	}
	if c.w < len(c.buf) {
		return nil
	}
	if c.w >= c.plan.maxEvent {
		return fault.New(fault.UpstreamMalformed, "stream.Copy", "The model's provider sent an event larger than the %d bytes this gateway accepts.", c.plan.maxEvent)
	}
	c.reserve(len(c.buf))
	return nil
}

// reserve grows the buffer to hold n bytes behind w.
func (c *copier) reserve(n int) {
	if c.w+n <= len(c.buf) {
		return
	}
	grown := make([]byte, max(2*len(c.buf), c.w+n))
	copy(grown, c.buf[:c.w])
	c.buf = grown
}

var bom = []byte("\xef\xbb\xbf")

// send writes the consumed bytes, and flushes as the plan says or if must is
// set.
func (c *copier) send(now time.Time, must bool) error {
	if c.r > c.from {
		out := c.buf[c.from:c.r]
		if !c.started {
			out = c.begin(out)
		}
		c.from = c.r
		if len(out) > 0 {
			if err := c.write(out); err != nil {
				return err
			}
		}
	}
	if c.pending > 0 && (must || c.due()) {
		return c.flush()
	}
	return nil
}

// begin writes what stands before the first bytes: the reconnection time, as a
// field of the first event, because some parsers take a block of its own for an
// empty event.
func (c *copier) begin(out []byte) []byte {
	c.started = true
	out = bytes.TrimPrefix(out, bom)
	if c.plan.retryMS == 0 || len(out) == 0 {
		return out
	}
	// One write is worth the copy, which happens once a stream.
	return append(sse.AppendRetry(make([]byte, 0, len(out)+24), c.plan.retryMS), out...)
}

// due is whether what was written is to be flushed now.
func (c *copier) due() bool {
	switch c.plan.flush {
	case flushCoalesce:
		return c.pending >= 4<<10
	case flushFull:
		return c.pending >= c.plan.buffer
	}
	return true
}

func (c *copier) write(p []byte) error {
	c.watch.lock()
	_, err := c.To.Write(p)
	c.pending += len(p)
	waited := c.watch.unlock(c.pending > 0)
	return c.wrote(waited, err)
}

func (c *copier) flush() error {
	if c.pending == 0 {
		return nil
	}
	c.watch.lock()
	err := c.To.Flush()
	c.pending = 0
	waited := c.watch.unlock(false)
	return c.wrote(waited, err)
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

func blank(b []byte) bool { return len(bytes.Trim(b, "\r\n")) == 0 }

// trimLineEnd drops the line ends at the end of an event that lacks its blank
// line, so that a blank line can be put there whatever was there.
func trimLineEnd(b []byte) []byte { return bytes.TrimRight(b, "\r\n") }
