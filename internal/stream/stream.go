// Package stream carries a response to the client and watches it pass. One
// goroutine does it, within the frame of the request: it reads from the
// provider, finds whole events, lets a tap look at them, and writes and flushes
// what one read brought in one go. Only the hallway uses it.
package stream

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
)

// Client is the client's side of a response.
type Client interface {
	io.Writer
	Flush() error
	SetWriteDeadline(time.Time) error
	// Begun is whether the response's head has been sent; the first Write sends
	// it.
	Begun() bool
}

// Upstream is the provider's side of a response.
type Upstream interface {
	// FirstToken says that the first content has come.
	FirstToken()
	// Abort ends the exchange with the provider, for cause.
	Abort(cause error)
	// Why classifies an error while reading the body.
	Why(ctx context.Context, err error) error
}

// Events is one event stream to carry.
type Events struct {
	Body io.ReadCloser
	From Upstream
	To   Client
	In   wire.Inbound
	Out  wire.Outbound
	Op   llm.Operation
	Tap  wire.Tap
	// HideUsage is whether the usage event was asked for by the gateway and not
	// by the client.
	HideUsage bool
	// Idle bounds the silence between two events; 0 is no bound.
	Idle time.Duration
	// OnFirst is called once, at the first content.
	OnFirst func(time.Time)
}

// Receipt is what was seen of a response.
type Receipt struct {
	Usage        llm.Usage
	FinishReason string
	Events       int
	Gaps         Gaps
	// BackPressure is the time spent waiting for the client to take bytes, and
	// Ahead the time that the reader ahead waited for room in the buffer.
	BackPressure, Ahead time.Duration
}

// Copy carries an event stream until it ends. It returns when the last byte
// has been written or writing it became impossible; nothing outlives the call.
// Every error is a *fault.Error; the client has then not been told yet.
func Copy(ctx context.Context, p *Plan, e *Events) (Receipt, error) {
	c := &copier{ctx: ctx, plan: p, Events: e, buf: getBuffer()}
	defer func() { putBuffer(c.buf) }()
	c.watch.start(c)
	defer c.watch.stop()
	if p.decouple {
		a := readAhead(e.Body, p.buffer)
		defer func() { c.receipt.Ahead = a.close() }()
		c.Body = a
	}
	err := c.run()
	c.receipt.Usage, c.receipt.FinishReason = e.Tap.Usage(), e.Tap.FinishReason()
	c.receipt.Gaps = c.gaps.summary()
	return c.receipt, err
}

// copier is the state of one stream. It belongs to the goroutine that runs it;
// what the watch may touch lies in watch.
type copier struct {
	*Events
	ctx     context.Context
	plan    *Plan
	scan    scanner
	watch   watch
	buf     []byte // buf[r:w] is read and not yet consumed
	r, w    int
	from    int // buf[from:r] is consumed and not yet written
	first   bool
	started bool
	ended   bool // the end mark or an error event has passed
	whole   bool // nothing essential is missing if the stream ends now
	failed  *fault.Error
	last    time.Time // of the latest content
	pending int       // bytes written and not yet flushed
	gaps    histogram
	receipt Receipt
}

func (c *copier) run() error {
	for {
		now := time.Now()
		if err := c.events(now); err != nil {
			return err
		}
		if err := c.send(now, false); err != nil {
			return err
		}
		if c.ended {
			return c.finish()
		}
		if err := c.room(); err != nil {
			return err
		}
		n, err := c.Body.Read(c.buf[c.w:])
		c.w += n
		if n > 0 {
			c.watch.heard()
		}
		if err != nil {
			return c.end(err)
		}
	}
}

// events consumes every whole event that is in the buffer.
func (c *copier) events(now time.Time) error {
	for !c.ended {
		ev, ok := c.scan.Next(c.buf[c.r:c.w])
		if !ok {
			return nil
		}
		if err := c.event(ev, now); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) event(ev event, now time.Time) error {
	at := c.r
	c.r += ev.Size
	if !ev.HasData {
		if len(ev.Name) == 0 && blank(c.buf[at:c.r]) {
			return c.hide(at, now)
		}
		return nil // a comment: it passes as it came
	}
	if len(ev.Data) == 0 {
		return c.hide(at, now)
	}
	signal := c.Tap.Event(ev.Name, ev.Data)
	switch {
	case signal.Has(wire.Malformed):
		c.r = at
		return c.broken(now, fault.New(fault.UpstreamMalformed, "stream.Copy", "The model's provider sent an event that could not be understood."))
	case signal.Has(wire.Failed):
		c.failed, c.ended = c.Tap.Fault(), true
		if c.from == at && !c.watch.begun() {
			return c.failed // nothing has been sent: it can be a proper error answer
		}
	}
	if signal.Has(wire.Last) {
		c.ended = true
	}
	if signal.Has(wire.Finished) {
		c.whole = true
	}
	if c.HideUsage && signal.Has(wire.UsageOnly) {
		return c.hide(at, now)
	}
	c.receipt.Events++
	if signal.Has(wire.Content) {
		c.content(now)
	}
	return nil
}

// content notes the time of a content event.
func (c *copier) content(now time.Time) {
	if !c.first {
		c.first = true
		c.From.FirstToken()
		c.watch.tokens()
		c.OnFirst(now)
	} else {
		c.gaps.add(now.Sub(c.last))
	}
	c.last = now
}

// hide drops the block that begins at at; what comes before it is written
// first.
func (c *copier) hide(at int, now time.Time) error {
	r := c.r
	c.r = at
	err := c.send(now, true)
	c.r, c.from = r, r
	return err
}

// broken writes what is whole and then gives up.
func (c *copier) broken(now time.Time, f *fault.Error) error {
	if err := c.send(now, true); err != nil {
		return err
	}
	return f
}

// finish ends a stream whose end mark has passed. Nothing that follows is
// passed on; it is read for a moment only, because a connection can be used
// again once its response has been read to the end.
func (c *copier) finish() error {
	if err := c.flush(); err != nil {
		return err
	}
	if c.failed != nil {
		return errPassed{c.failed}
	}
	stop := time.AfterFunc(linger, func() { c.From.Abort(nil) })
	defer stop.Stop()
	for range maxLinger {
		if _, err := c.Body.Read(c.buf); err != nil {
			break
		}
	}
	return nil
}

// Bounds on reading behind the end mark: a time, and a number of reads.
const (
	linger    = 100 * time.Millisecond
	maxLinger = 16
)

// end is reached when the body is at its end or broke.
func (c *copier) end(err error) error {
	now := time.Now()
	if serr := c.events(now); serr != nil {
		return serr
	}
	if !errors.Is(err, io.EOF) {
		if serr := c.send(now, true); serr != nil {
			return serr
		}
		if c.ended {
			return c.finish()
		}
		return c.From.Why(c.ctx, err)
	}
	return c.tail(now)
}

// tail deals with a clean end: an event without its last blank line is given
// one, a missing end mark is put in, and a stream that lacks more than that is
// reported as broken off.
func (c *copier) tail(now time.Time) error {
	if ev, ok := c.scan.Tail(c.buf[c.r:c.w]); ok && !c.ended {
		c.w = c.r + copy(c.buf[c.r:], trimLineEnd(c.buf[c.r:c.w]))
		ev.Size = c.w - c.r
		if err := c.event(ev, now); fault.KindOf(err) == fault.UpstreamMalformed && err != nil {
			return &fault.Error{Kind: fault.UpstreamTruncated, Op: "stream.Copy", Err: err}
		} else if err != nil {
			return err
		}
		if c.r > c.from {
			c.reserve(2)
			c.r += copy(c.buf[c.r:c.r+2], "\n\n")
			c.w = c.r
		}
	}
	if err := c.send(now, true); err != nil {
		return err
	}
	if c.ended {
		return c.finish()
	}
	if !c.whole {
		if c.receipt.Events == 0 {
			return fault.New(fault.UpstreamMalformed, "stream.Copy", "The model's provider sent an empty stream.")
		}
		return &fault.Error{Kind: fault.UpstreamTruncated, Op: "stream.Copy"}
	}
	if mark := c.Out.StreamEnd(c.Op); mark != "" {
		if err := c.write([]byte(mark)); err != nil {
			return err
		}
	}
	return c.flush()
}

// Passed reports whether err is an error that the provider reported within the
// stream and that the client has already been sent.
func Passed(err error) (*fault.Error, bool) {
	p, ok := errors.AsType[errPassed](err)
	return p.fault, ok
}

type errPassed struct{ fault *fault.Error }

func (e errPassed) Error() string { return e.fault.Error() }
