// Package upstream owns the connections to providers: it builds a provider's
// request from a call, sends it, and hands back the response at its head,
// armed with the provider's timeouts. Only the hallway uses it.
package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
)

// Room keeps the connection pools. They are keyed by provider and by what of
// the configuration concerns connections, so a reload that changes neither
// keeps every connection.
type Room struct {
	mu    sync.Mutex
	pools map[string]*pool
}

// New makes an empty room.
func New() *Room { return &Room{pools: map[string]*pool{}} }

// Request is what a call needs beside itself to be sent.
type Request struct {
	Call  *llm.Call
	Model string        // the model's name at the provider
	Out   wire.Outbound // the provider's dialect for this call
	// Traceparent is the W3C trace context for the provider, "" for none.
	Traceparent string
	// Forwarded is whether the client's X-Forwarded-* headers may pass.
	Forwarded bool
	// ClientTakesGzip is whether a gzip answer can be passed on as it is.
	ClientTakesGzip bool
}

// Reply is a provider's answer at its head. Close must be called once.
type Reply struct {
	*http.Response
	Provider *Provider
	Sent     time.Time // when the request was handed to the transport
	Connect  time.Time // when the connection was there
	Reused   bool      // it came from the pool

	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	whole   *time.Timer
	body    *sent
	closing atomic.Bool
}

// Send sends a call to a provider and waits for the response's head. Every
// error is a *fault.Error. The reply is never nil: its BodySafe must be asked
// even after an error.
func (p *Provider) Send(ctx context.Context, q *Request) (*Reply, error) {
	r := &Reply{Provider: p}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	r.arm(q.Call.WantsStream)
	r.body = newSent(q)
	req := (&http.Request{
		Method: q.Call.Method, URL: p.address(q.Call), Host: p.base.Host,
		Header: p.header(q), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(r.ctx)
	if r.body != nil {
		req.Body, req.ContentLength = r.body, r.body.length
		if r.body.raw != nil {
			req.GetBody = r.body.again
		}
	}
	r.Sent = time.Now()
	resp, err := p.pool.carry(req, r)
	if err != nil {
		err = r.classify(ctx, err)
		r.Close()
		return r, err
	}
	r.Response = resp
	return r, nil
}

// arm starts the timers: for a stream until its first token, for any other
// answer until its end.
func (r *Reply) arm(stream bool) {
	t := &r.Provider.timeouts
	if stream {
		r.timer = r.after(t.firstToken, "The model's provider sent no token in time.")
		r.whole = r.after(t.stream, "The model's provider took too long for its answer.")
		return
	}
	r.whole = r.after(t.total, "The model's provider did not answer in time.")
}

func (r *Reply) after(d time.Duration, public string) *time.Timer {
	if d <= 0 {
		return nil
	}
	return time.AfterFunc(d, func() {
		r.cancel(fault.New(fault.UpstreamTimeout, "upstream.Timeout", "%s", public))
	})
}

// FirstToken says that the first content has come: the timeout for it ends.
func (r *Reply) FirstToken() {
	if r.timer != nil {
		r.timer.Stop()
	}
}

// Abort ends the exchange with the provider; reads of the body then fail, and
// Why gives the cause.
func (r *Reply) Abort(cause error) { r.cancel(cause) }

// Why classifies an error while reading the body.
func (r *Reply) Why(ctx context.Context, err error) error {
	if cause := context.Cause(r.ctx); cause != nil && !r.closing.Load() {
		if f, ok := errors.AsType[*fault.Error](cause); ok {
			return f
		}
		if ctx.Err() != nil {
			return fault.Wrap(fault.Canceled, "upstream.Read", cause)
		}
	}
	if errors.Is(err, errEncoding) {
		return fault.Wrap(fault.UpstreamMalformed, "upstream.Read", err)
	}
	return fault.Wrap(fault.UpstreamTruncated, "upstream.Read", err)
}

// Close ends the exchange: the provider is cancelled where it has not finished.
func (r *Reply) Close() {
	r.closing.Store(true)
	for _, t := range []*time.Timer{r.timer, r.whole} {
		if t != nil {
			t.Stop()
		}
	}
	if r.Response != nil {
		_ = r.Body.Close()
	}
	r.cancel(nil)
}

// BodySafe is whether no transport reads the call's bytes any more, so that
// they may be used again. It is asked after Close.
func (r *Reply) BodySafe() bool { return r.body == nil || r.body.safe() }

// classify turns a transport's error into a fault.
func (r *Reply) classify(ctx context.Context, err error) error {
	const op = "upstream.Send"
	if f, ok := errors.AsType[*fault.Error](context.Cause(r.ctx)); ok {
		return f
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f // the client's upload broke the rules
	}
	if ctx.Err() != nil {
		return fault.Wrap(fault.Canceled, op, context.Cause(ctx))
	}
	if r.Connect.IsZero() {
		return fault.Wrap(fault.UpstreamUnreachable, op, err)
	}
	if strings.Contains(err.Error(), "malformed") {
		return fault.Wrap(fault.UpstreamMalformed, op, err)
	}
	return fault.Wrap(fault.UpstreamFailed, op, err)
}

// Unsent is whether a fault says that the provider cannot have seen the call,
// so that another may be tried.
func Unsent(err error) bool { return fault.KindOf(err) == fault.UpstreamUnreachable }

func (p *Provider) address(call *llm.Call) *url.URL {
	u := p.base
	path, query, _ := strings.Cut(call.Path, "?")
	if p.Dialect == llm.Simulator && call.Dialect == llm.OpenAI {
		path = "/v1" + path
	}
	u.Path += path
	u.RawQuery = query
	return &u
}

// sent is the body of a request on its way.
type sent struct {
	io.Reader
	raw    []byte // the bytes, where they are in memory
	length int64
	open   atomic.Int32 // readers that a transport has not closed yet
}

func newSent(q *Request) *sent {
	call := q.Call
	if call.Raw == nil && call.Rest == nil {
		return nil
	}
	edits := q.Out.Edits(make([]llm.Edit, 0, 4), call, q.Model)
	s := &sent{}
	s.open.Store(1)
	switch {
	case call.Rest != nil:
		s.Reader = wire.ApplyStream(io.MultiReader(bytes.NewReader(call.Raw), call.Rest), edits)
		s.length = call.Length
		if s.length >= 0 {
			s.length += int64(wire.Grown(edits))
		}
		return s
	case len(edits) == 0:
		s.raw = call.Raw
	default:
		s.raw = wire.Apply(make([]byte, 0, len(call.Raw)+wire.Grown(edits)), call.Raw, edits)
	}
	s.Reader, s.length = bytes.NewReader(s.raw), int64(len(s.raw))
	return s
}

// Bytes is the body where it is in memory, so that a transport can send it
// without copying.
func (s *sent) Bytes() []byte { return s.raw }

// Close is called by the transport when it has done with the body.
func (s *sent) Close() error {
	s.open.Add(-1)
	return nil
}

func (s *sent) safe() bool { return s.open.Load() <= 0 }

// again gives the transport the body once more, for a pooled connection that
// turned out dead before anything was sent.
func (s *sent) again() (io.ReadCloser, error) {
	s.open.Add(1)
	return resent{bytes.NewReader(s.raw), s}, nil
}

// resent is a body that is given to the transport once more.
type resent struct {
	io.Reader
	body *sent
}

func (r resent) Bytes() []byte { return r.body.raw }
func (r resent) Close() error  { return r.body.Close() }
