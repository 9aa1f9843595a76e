// Package stream carries a response to the client and watches it pass. One
// goroutine does it, within the frame of the request: it reads from the
// provider, finds whole events, lets a tap look at them, and writes and flushes
// what one read brought in one go. Only the hallway uses it.
package stream

import (
	"bytes"
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
	// Leaks is whether bytes hold what no client may see, such as a provider's
	// credential; it is asked of error events. Nil leaks nothing.
	Leaks func([]byte) bool
	// OnFirst is called once, at the first content.
	OnFirst func(time.Time)
	// OnEnd is called at most once, when the stream has ended as it should and
	// before its last events are written, with the usage of all of it.
	OnEnd func(llm.Usage)
	// Allow tells how many tokens of output a stream may have that has used so
	// much. It is asked at the first content event, and again when there are as
	// many as it said; where it then allows no more, and that event is not the last
	// one anyway, the stream ends there, as a provider ends it whose model has
	// reached the bound on its output, and the provider is cancelled. nil allows
	// any number.
	Allow func(llm.Usage) (output int64)
	// Prompt is the tokens of the prompt as they were counted before. A stream
	// that is stopped tells them where its provider has not yet told its own.
	Prompt int64
}

// Receipt is what was seen of a response.
type Receipt struct {
	Usage        llm.Usage
	FinishReason string
	Events       int
	Gaps         Gaps
	// Stopped is whether Allow ended the stream.
	Stopped bool
	// BackPressure is the time spent waiting for the client to take bytes, and
	// Ahead the time that the reader ahead waited for room in the buffer.
	BackPressure, Ahead time.Duration
}

// Copy carries an event stream until it ends. It returns when the last byte
// has been written or writing it became impossible; nothing outlives the call.
// Every error is a *fault.Error; the client has then not been told yet.
func Copy(ctx context.Context, p *Plan, e *Events) (receipt Receipt, err error) {
	c := &copier{ctx: ctx, plan: p, Events: e, body: e.Body, buf: getBuffer()}
	defer func() { putBuffer(c.buf) }()
	if e.Allow != nil {
		c.cutter = e.In.Cutter(e.Op)
	}
	c.watch.start(c)
	defer c.watch.stop()
	if p.decouple {
		a := readAhead(e.Body, p.buffer)
		c.body = a
		defer func() { receipt.Ahead = a.close() }()
	}
	err = c.run()
	return c.seen(), err
}

// seen completes the receipt.
func (c *copier) seen() Receipt {
	r := c.receipt
	r.Usage, r.FinishReason, r.Gaps = c.Tap.Usage(), c.Tap.FinishReason(), c.gaps.summary()
	if r.Stopped {
		r.FinishReason = c.cutter.Reason()
	}
	return r
}

// copier is the state of one stream. It belongs to the goroutine that runs it;
// what the watch may touch lies in watch.
//
// The buffer has three parts: buf[from:out] is to be written, buf[out:r] has
// been dropped, and buf[r:w] is read and not yet looked at.
type copier struct {
	*Events
	ctx    context.Context
	plan   *Plan
	body   io.Reader
	scan   scanner
	watch  watch
	buf    []byte
	from   int
	out    int
	r, w   int
	glue   int  // where in buf the reconnection time goes, once glued is pending
	glued  glue // whether it has been put in
	opened bool // the first block has been seen
	first  bool // the first content has been seen
	ended  bool // the end mark, an error event or the last wanted event has passed
	whole  bool // nothing essential is missing if the stream ends now
	failed *fault.Error
	last   time.Time // of the latest content

	cutter  wire.Cutter // nil unless the stream may be stopped
	allowed int64       // how many tokens of output it may have, as was last said

	held    []byte // in the flush mode full: not passed on yet
	gaps    histogram
	receipt Receipt
}

func (c *copier) run() error {
	for n := 0; ; {
		if err := c.events(time.Now()); err != nil {
			return err
		}
		if c.ended {
			c.ending()
		}
		if err := c.send(false); err != nil {
			return err
		}
		if c.ended {
			return c.finish()
		}
		if err := c.room(n); err != nil {
			return err
		}
		var err error
		n, err = c.body.Read(c.buf[c.w:])
		c.w += n
		if n > 0 {
			c.watch.heard()
		}
		if err != nil {
			return c.end(err)
		}
	}
}

// ending tells the usage before the last events are written.
func (c *copier) ending() {
	if c.OnEnd != nil && c.failed == nil {
		c.OnEnd(c.Tap.Usage())
		c.OnEnd = nil
	}
}

// events consumes every whole event that is in the buffer.
func (c *copier) events(now time.Time) error {
	for !c.ended {
		ev, ok := c.scan.Next(c.buf[c.r:c.w])
		if !ok {
			return nil
		}
		if ev.Size > c.plan.maxEvent {
			return c.broken(c.tooLarge())
		}
		if err := c.event(ev, now); err != nil {
			return err
		}
	}
	return nil
}

// event looks at one block and keeps it or drops it.
func (c *copier) event(ev event, now time.Time) error {
	at := c.r
	c.r += ev.Size
	if !c.opened {
		c.opened = true
		at += len(c.buf[at:c.r]) - len(bytes.TrimPrefix(c.buf[at:c.r], bom))
	}
	if len(ev.Data) == 0 {
		// Some clients take a block without data for an event, and then fail to
		// read it. A comment is none to any of them.
		if !fields(ev) && comment(c.buf[at:c.r]) {
			c.keep(at)
		}
		return nil
	}
	signal := c.Tap.Event(ev.Name, ev.Data)
	switch {
	case signal.Has(wire.Malformed):
		return c.broken(fault.New(fault.UpstreamMalformed, "stream.Copy", "The model's provider sent an event that could not be understood."))
	case signal.Has(wire.Failed):
		c.failed, c.ended = c.Tap.Fault(), true
		if c.untold() {
			return c.failed // it can be a proper error answer
		}
		if c.Leaks != nil && c.Leaks(c.buf[at:c.r]) {
			return c.broken(c.failed) // said in our own words instead
		}
	}
	if signal.Has(wire.Last) {
		c.ended = true
	}
	if signal.Has(wire.Finished) {
		c.whole = true
	}
	if c.HideUsage && signal.Has(wire.UsageOnly) {
		return nil
	}
	c.receipt.Events++
	if signal.Has(wire.Content) {
		c.content(now)
	}
	if c.cutter != nil {
		c.maybeStop(ev, signal)
	}
	c.keepData(at)
	return nil
}

// maybeStop ends the stream behind this event if it is to go no further.
func (c *copier) maybeStop(ev event, signal wire.Signal) {
	if signal.Has(wire.Structural) {
		c.cutter.Event(ev.Name, ev.Data)
	}
	if c.ended || !signal.Has(wire.Content) || signal.Has(wire.Finished) {
		return
	}
	u := c.Tap.Usage()
	if u.Output >= c.allowed {
		c.allowed = c.Allow(u)
	}
	if u.Output >= c.allowed {
		c.ended, c.receipt.Stopped = true, true
	}
}

// fields is whether a block without data holds fields of the standard.
func fields(ev event) bool {
	return ev.HasData || ev.Name != nil || ev.ID != nil || ev.Retry != nil
}

// untold is whether the client has not been sent anything yet, and then drops
// the comments that were about to be.
func (c *copier) untold() bool {
	if c.receipt.Events > 0 || c.watch.begun() {
		return false
	}
	c.from = c.out
	return true
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

// broken writes what is whole and then gives up.
func (c *copier) broken(f *fault.Error) error {
	if c.untold() {
		return f
	}
	if err := c.send(true); err != nil {
		return err
	}
	return f
}

// finish ends a stream whose end mark has passed. Nothing that follows is
// passed on; it is read for a moment only, because a connection can be used
// again once its response has been read to the end.
func (c *copier) finish() error {
	if c.receipt.Stopped {
		return c.stopped()
	}
	if err := c.put(nil, true); err != nil {
		return err
	}
	if c.failed != nil {
		return errPassed{c.failed}
	}
	stop := time.AfterFunc(linger, func() { c.From.Abort(nil) })
	defer stop.Stop()
	for range maxLinger {
		if _, err := c.body.Read(c.buf); err != nil {
			break
		}
	}
	return nil
}

// stopped writes the end of a stream that goes no further. What the provider
// would still have said of its usage is not waited for.
func (c *copier) stopped() error {
	c.From.Abort(nil)
	u := c.Tap.Usage()
	if u.Input == 0 {
		u.Input = c.Prompt
	}
	return c.put(c.cutter.End(nil, u, !c.HideUsage), true)
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
	if errors.Is(err, io.EOF) && !c.ended {
		return c.tail(now)
	}
	if c.ended {
		c.ending()
		if serr := c.send(false); serr != nil {
			return serr
		}
		return c.finish()
	}
	if !c.untold() {
		if serr := c.send(true); serr != nil {
			return serr
		}
	}
	return c.From.Why(c.ctx, err)
}

// tail deals with a clean end: an event without its last blank line is given
// one, a missing end mark is put in, and a stream that lacks more than that is
// reported as broken off.
func (c *copier) tail(now time.Time) error {
	if err := c.lastEvent(now); err != nil {
		return err
	}
	if !c.ended && !c.whole {
		if c.receipt.Events == 0 {
			return c.broken(fault.New(fault.UpstreamMalformed, "stream.Copy", "The model's provider sent an empty stream."))
		}
		return c.broken(&fault.Error{Kind: fault.UpstreamTruncated, Op: "stream.Copy"})
	}
	c.ending()
	if err := c.send(c.ended || c.Out.StreamEnd(c.Op) == ""); err != nil {
		return err
	}
	if c.ended {
		return c.finish()
	}
	return c.put([]byte(c.Out.StreamEnd(c.Op)), true)
}

// lastEvent takes in an event that lacks its blank line. One that cannot be
// read was cut short; it is dropped, and missed only where the stream was not
// whole without it.
func (c *copier) lastEvent(now time.Time) error {
	ev, ok := c.scan.Tail(c.buf[c.r:c.w])
	if !ok {
		return nil
	}
	ev.Size = len(bytes.TrimRight(c.buf[c.r:c.w], "\r\n"))
	c.w = c.r + ev.Size
	before := c.out
	switch err := c.event(ev, now); {
	case err == nil:
	case fault.KindOf(err) != fault.UpstreamMalformed || c.failed != nil:
		return err
	case c.whole:
		return nil
	default:
		return &fault.Error{Kind: fault.UpstreamTruncated, Op: "stream.Copy", Err: err}
	}
	if c.out > before {
		c.reserve(2)
		c.out += copy(c.buf[c.out:c.out+2], "\n\n")
	}
	return nil
}

// Passed reports whether err is an error that the provider reported within the
// stream and that the client has already been sent.
func Passed(err error) (*fault.Error, bool) {
	p, ok := errors.AsType[errPassed](err)
	return p.fault, ok
}

type errPassed struct{ fault *fault.Error }

func (e errPassed) Error() string { return e.fault.Error() }
