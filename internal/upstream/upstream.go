// Package upstream owns the connections to providers: it builds a provider's
// request from a call, sends it, and hands back the response at its head,
// armed with the provider's timeouts. Only the hallway uses it.
package upstream

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/fleet"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/scope"
	"github.com/headgate-ai/headgate/internal/wire"
)

// Room keeps the connection pools. They are keyed by provider and by what of
// the configuration concerns connections, so a reload that changes neither
// keeps every connection. It also keeps what outlasts a reload of how providers
// are doing, and of what they say of their limits.
type Room struct {
	mu       sync.Mutex
	pools    map[string]*pool
	pulses   map[string]*fleet.Pulse // by provider
	accounts map[accountKey]*account
}

// New makes an empty room.
func New() *Room {
	return &Room{pools: map[string]*pool{}, pulses: map[string]*fleet.Pulse{}, accounts: map[accountKey]*account{}}
}

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

	provider *Provider // set by Send
	account  *account  // of the credential that it carries, set with that
}

// Reply is a provider's answer at its head. Close must be called once.
type Reply struct {
	*http.Response
	Provider *Provider
	Sent     time.Time // when the request was handed to the transport
	Connect  time.Time // when the connection was there
	Reused   bool      // it came from the pool

	life    scope.Scope
	timer   *time.Timer
	whole   *time.Timer
	body    sent
	closing atomic.Bool
}

// Send sends a call to a provider and waits for the response's head. Every
// error is a *fault.Error. The reply is never nil: its Recycle must be called
// even after an error.
func (p *Provider) Send(ctx context.Context, q *Request) (*Reply, error) {
	r := &Reply{Provider: p}
	q.provider = p
	r.life.Begin(ctx)
	r.arm(q.Call.WantsStream)
	r.body.begin(q)
	r.Sent = time.Now()
	resp, err := p.pool.carry(r, q)
	if err != nil {
		err = r.classify(ctx, err)
		r.Close()
		return r, err
	}
	r.Response = resp
	r.learn(q)
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
		r.life.End(fault.New(fault.UpstreamTimeout, "upstream.Timeout", "%s", public))
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
func (r *Reply) Abort(cause error) { r.life.End(cause) }

// Why classifies an error while reading the body.
func (r *Reply) Why(ctx context.Context, err error) error {
	if cause := r.life.Cause(); cause != nil && !r.closing.Load() {
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
	r.life.End(nil)
}

// Recycle gives back the request's body, and reports whether it could: whether
// no transport reads the call's bytes any more, so that they may be used again.
// It is to be called after Close, and may be before: once the response's head has
// come, nothing is sent again.
func (r *Reply) Recycle() bool { return r.body.recycle() }

// classify turns a transport's error into a fault.
func (r *Reply) classify(ctx context.Context, err error) error {
	const op = "upstream.Send"
	if f, ok := errors.AsType[*fault.Error](r.life.Cause()); ok {
		return f
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f // the client's upload broke the rules
	}
	if ctx.Err() != nil {
		return fault.Wrap(fault.Canceled, op, scope.Cause(ctx))
	}
	if exhausted(err) {
		return &fault.Error{Kind: fault.Overloaded, Op: op, Public: "The gateway has no connection to spare.", Err: err}
	}
	if r.Connect.IsZero() {
		return fault.Wrap(fault.UpstreamUnreachable, op, err)
	}
	if strings.Contains(err.Error(), "malformed") {
		return fault.Wrap(fault.UpstreamMalformed, op, err)
	}
	return fault.Wrap(fault.UpstreamFailed, op, err)
}

// exhausted is whether the fault is ours: this process, or this machine, has no
// descriptor or no port left to connect with.
func exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// Unsent is whether a fault says that the provider cannot have seen the call,
// so that another may be tried.
func Unsent(err error) bool { return fault.KindOf(err) == fault.UpstreamUnreachable }
