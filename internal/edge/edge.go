// Package edge is where bytes become a call and where a fault becomes bytes.
// It knows the paths that clients call, the limits of a request, and the
// client's half of an exchange; it decides nothing about who may do what. Only
// the hallway uses it; app builds the listener around it.
package edge

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/anthropic"
	"github.com/headgate-ai/headgate/internal/wire/formdata"
	"github.com/headgate-ai/headgate/internal/wire/openai"
)

// Mode is how an answer travels, as X-Response-Mode names it.
type Mode string

// The modes.
const (
	Streaming Mode = "streaming"
	Buffered  Mode = "buffered"
)

// Exchange is the client's side of one request. It is used by one goroutine at
// a time; Write and Flush are also called by a stream's keep-alive, under the
// stream's own lock.
type Exchange struct {
	w    http.ResponseWriter
	r    *http.Request
	plan *Plan

	// Route is nil where the path or method is unknown; Open has then said why.
	Route   *Route
	ModelID string // of a path that names one model
	Inbound wire.Inbound
	ID      string

	call    llm.Call
	body    pooled
	form    *formdata.Scanner
	file    *os.File // an upload too large for memory
	head    func(wire.Fields)
	values  *wire.Values // of headers that are known before the answer
	status  int
	mode    Mode
	begun   bool
	written int64
}

// Open begins an exchange: it finds the route and settles the request's id. An
// error is answered with Fail like any other; the Exchange is usable for that
// in every case.
func Open(p *Plan, w http.ResponseWriter, r *http.Request) (*Exchange, error) {
	x := &Exchange{w: w, r: r, plan: p}
	route, id, allow, dialect := find(r)
	x.Route, x.ModelID, x.Inbound = route, id, InboundOf(dialect)
	sane := saneID(wire.First(r.Header, "X-Request-Id"))
	if x.ID = wire.First(r.Header, "X-Request-Id"); !sane {
		x.ID = mintID()
	}
	switch {
	case route == nil && len(allow) > 0:
		w.Header().Set("Allow", strings.Join(allow, ", "))
		return x, fault.New(fault.MethodNotAllowed, "edge.Open", "This path takes %s, not %s.", strings.Join(allow, " or "), fault.Legible(r.Method))
	case route == nil:
		return x, fault.New(fault.PathNotFound, "edge.Open", "There is nothing at %s; the API's paths begin with /v1/.", fault.Legible(r.URL.Path))
	case p.requireID && !sane:
		return x, &fault.Error{Kind: fault.MissingRequestID, Op: "edge.Open"}
	}
	return x, nil
}

// InboundOf is the client's half of a dialect.
func InboundOf(d llm.Dialect) wire.Inbound {
	if d == llm.Anthropic {
		return anthropic.Dialect{}
	}
	return openai.Dialect{}
}

// ResponseHeader is the header of the answer to come, for what is known before
// it is clear what the answer will be.
func (x *Exchange) ResponseHeader() http.Header { return x.w.Header() }

// Begun is whether anything of the answer has been sent.
func (x *Exchange) Begun() bool { return x.begun }

// Status is what the client was told, 0 if nothing yet.
func (x *Exchange) Status() int { return x.status }

// Written is the number of body bytes sent.
func (x *Exchange) Written() int64 { return x.written }

// Answer sets what the answer will begin with. Nothing is sent before the
// first Write; head is then called once to fill in the headers.
func (x *Exchange) Answer(status int, mode Mode, head func(wire.Fields)) {
	x.status, x.mode, x.head = status, mode, head
}

func (x *Exchange) begin() {
	x.begun = true
	h, ok := x.w.(headWriter)
	if !ok {
		h = mapHead{wire.Header(x.w.Header()), x}
	}
	h.BeginHead(x.status)
	if x.values != nil {
		x.values.PutInto(h)
	}
	if x.head != nil {
		x.head(h)
	}
	x.common(h, x.mode)
	h.EndHead()
	x.freeValues()
}

// headWriter is a ResponseWriter that takes fields without a map.
type headWriter interface {
	wire.Fields
	BeginHead(status int)
	EndHead()
}

// mapHead is any other one.
type mapHead struct {
	wire.Header
	x *Exchange
}

func (mapHead) BeginHead(int) {}
func (h mapHead) EndHead()    { h.x.w.WriteHeader(h.x.status) }

// common sets the headers of every answer.
func (x *Exchange) common(h wire.Fields, mode Mode) {
	h.Put("X-Request-Id", x.ID)
	if x.Inbound.Dialect() == llm.Anthropic {
		h.Put("Request-Id", x.ID) // the only one that this vendor's SDKs read
	}
	h.Put("X-Response-Mode", string(mode))
	h.Put("Vary", "Accept")
}

// Values are headers of the answer to come, to be filled in before it begins.
func (x *Exchange) Values() *wire.Values {
	if x.values == nil {
		x.values = values.Get().(*wire.Values)
	}
	return x.values
}

var values = sync.Pool{New: func() any { return new(wire.Values) }}

func (x *Exchange) freeValues() {
	if x.values != nil {
		x.values.Reset()
		values.Put(x.values)
		x.values = nil
	}
}

// Begin sends the status line and headers now, before any of the body.
func (x *Exchange) Begin() {
	if !x.begun {
		x.begin()
	}
}

// Write sends a part of the answer's body, its headers first.
func (x *Exchange) Write(p []byte) (int, error) {
	x.Begin()
	n, err := x.w.Write(p)
	x.written += int64(n)
	return n, err
}

// Flush hands everything written to the network.
func (x *Exchange) Flush() error {
	x.Begin()
	return x.control().Flush()
}

// SetWriteDeadline bounds the writes to come; the zero time lifts the bound.
func (x *Exchange) SetWriteDeadline(t time.Time) error { return x.control().SetWriteDeadline(t) }

// control is made where it is used: a small exchange never needs it.
func (x *Exchange) control() *http.ResponseController { return http.NewResponseController(x.w) }

// Trailer sets a trailer of the answer; call it after the last Write. It is
// dropped where the client did not say that it takes trailers.
func (x *Exchange) Trailer(name, value string) {
	if x.r.ProtoMajor >= 2 || strings.Contains(strings.ToLower(wire.First(x.r.Header, "Te")), "trailers") {
		x.w.Header().Set(http.TrailerPrefix+name, value)
	}
}

// Fail is the one place where a fault becomes bytes. Before the answer has
// begun it is a whole error answer; within an event stream it is an event that
// ends the stream. It reports whether the answer was left broken off, so that
// the connection must be cut for the client to notice.
func (x *Exchange) Fail(e *fault.Error) (cut bool) {
	switch {
	case e.Kind == fault.Canceled || e.Kind == fault.SlowClient:
		if !x.begun {
			x.status = e.HTTPStatus()
		}
		return true // else net/http would answer with an empty 200
	case !x.begun:
		x.refuse(e)
		return false
	case x.mode != Streaming:
		return true
	}
	buf := x.Inbound.FaultEvent(nil, x.op(), e, x.ID)
	_ = x.SetWriteDeadline(time.Now().Add(faultWriteTimeout))
	if _, err := x.Write(buf); err != nil {
		return true
	}
	return x.Flush() != nil
}

// faultWriteTimeout bounds the last words to a client that may not be reading.
const faultWriteTimeout = 5 * time.Second

func (x *Exchange) op() llm.Operation {
	if x.Route == nil {
		return llm.Chat
	}
	return x.Route.Op
}

func (x *Exchange) refuse(e *fault.Error) {
	body := e.Body
	if body == nil {
		body = x.Inbound.Fault(make([]byte, 0, 256), e, x.ID)
	}
	x.Answer(e.HTTPStatus(), Buffered, func(h wire.Fields) {
		h.Put("Content-Type", "application/json")
		h.Put("Content-Length", strconv.Itoa(len(body)))
		retryHeaders(h, e)
		if e.Kind == fault.Unauthenticated || e.Kind == fault.KeyExpired {
			h.Put("Www-Authenticate", `Bearer realm="headgate"`)
		}
	})
	_, _ = x.Write(body)
}

// retryHeaders tell the SDKs when, and whether, to try again: Retry-After in
// whole seconds, rounded up, and in milliseconds.
func retryHeaders(h wire.Fields, e *fault.Error) {
	if e.RetryAfter > 0 {
		h.Put("Retry-After", strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10))
		h.Put("Retry-After-Ms", strconv.FormatInt(int64((e.RetryAfter+time.Millisecond-1)/time.Millisecond), 10))
	}
	if e.Final {
		h.Put("X-Should-Retry", "false")
	}
}

// Close gives back what the exchange holds. It must be called once, when no
// one uses the call's bytes any more.
func (x *Exchange) Close() {
	x.body.close()
	x.freeValues()
	if x.file != nil {
		_ = x.file.Close()
	}
}

// clientFault classifies an error while reading the client's body.
func clientFault(ctx context.Context, err error, limit int64) error {
	const op = "edge.Decode"
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(limit)
	}
	// Before anything else: net/http cancels the context of a request whose
	// body could not be read in time.
	if t, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && t.Timeout() {
		return fault.Wrap(fault.ClientTimeout, op, err)
	}
	if f, ok := errors.AsType[*fault.Error](context.Cause(ctx)); ok {
		return f
	}
	return fault.Wrap(fault.Canceled, op, err)
}

func tooLarge(limit int64) error {
	e := fault.New(fault.TooLarge, "edge.Decode", "The request body is larger than the %d bytes this gateway accepts.", limit)
	e.Details = map[string]any{"limit": limit}
	return e
}
