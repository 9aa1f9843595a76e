package gateway

import (
	"context"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/edge"
	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/fleet"
	"github.com/headgate-ai/headgate/internal/journal"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/upstream"
	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/anthropic"
	"github.com/headgate-ai/headgate/internal/wire/openai"
)

// outboundOf is the provider's half of a dialect.
func outboundOf(d llm.Dialect) wire.Outbound {
	if d == llm.Anthropic {
		return anthropic.Dialect{}
	}
	return openai.Dialect{}
}

// describe notes what is known of a request before it is looked into.
func describe(rec *journal.Record, x *edge.Exchange) {
	rec.ID, rec.Client, rec.Agent = x.ID, x.Client(), x.Agent()
	rec.Dialect = x.Inbound.Dialect()
	if x.Route != nil {
		rec.Route, rec.Op = x.Route.Pattern, x.Route.Op
	}
}

// decoded notes what the request's body said.
func decoded(rec *journal.Record, x *edge.Exchange, call *llm.Call) {
	rec.Mark(journal.Decode, time.Now())
	rec.Asked, rec.Stream, rec.BytesIn = call.Model, call.WantsStream, max(call.Length, int64(len(call.Raw)))
	rec.Warnings = x.Warnings(call)
}

// send tries one leg, with a request that is used for nothing else meanwhile.
func (g *Gateway) send(ctx context.Context, snap *Snapshot, x *edge.Exchange, rec *journal.Record, call *llm.Call, leg fleet.Leg, q *upstream.Request) (*upstream.Reply, bool, error) {
	provider := snap.Upstream.Provider(leg.Provider)
	if !provider.Dialect.Answers(call.Dialect) {
		return nil, false, fault.New(fault.NotTranslatable, "gateway.send",
			"The model %q is served by a provider of the %s dialect, and this path speaks %s; translation between dialects is not supported yet.",
			call.Model, provider.Dialect, call.Dialect)
	}
	adapts := snap.Quota.Adapts()
	if adapts {
		provider.Pulse.Begin()
	}
	*q = upstream.Request{
		Call: call, Model: leg.Model, Out: outboundOf(call.Dialect),
		Traceparent:     string(journal.AppendTraceparent(make([]byte, 0, 64), rec)),
		Forwarded:       x.Trusted(),
		ClientTakesGzip: takesGzip(call.Header),
	}
	reply, err := provider.Send(ctx, q)
	rec.Mark(journal.Prepare, reply.Sent)
	if !reply.Connect.IsZero() {
		rec.Mark(journal.Connect, reply.Connect)
	}
	rec.Mark(journal.FirstByte, time.Now())
	rec.Reused = reply.Reused
	if err != nil {
		if adapts {
			unanswered(provider.Pulse, failedUpstream(err))
		}
		release(x, reply)
		return nil, upstream.Unsent(err), err
	}
	return reply, false, nil
}

// release gives a reply back, and keeps the call's bytes from being used again
// while a transport may still be reading them.
func release(x *edge.Exchange, reply *upstream.Reply) {
	reply.Close()
	if !reply.Recycle() {
		x.Retain()
	}
}

// takesGzip is whether the client said that it accepts gzip.
func takesGzip(h http.Header) bool {
	for _, v := range h["Accept-Encoding"] {
		for part := range strings.SplitSeq(v, ",") {
			coding, params, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
				q := strings.ReplaceAll(params, " ", "")
				return q != "q=0" && q != "q=0.0" && q != "q=0.00" && q != "q=0.000"
			}
		}
	}
	return false
}

// conclude ends a request: the fault becomes bytes, the record is closed, and
// a response that must be seen to have broken off is cut. It also stands
// between a panic and the process.
func (g *Gateway) conclude(snap *Snapshot, x *edge.Exchange, rec *journal.Record) {
	if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // net/http compares it so, too
		rec.Fault = &fault.Error{Kind: fault.Internal, Op: "gateway.panic"}
		g.Journal.Panicked()
		g.Journal.Logger().Error("a request panicked", "request_id", rec.ID, "panic", p, "stack", string(debug.Stack()))
	}
	cut := false
	if rec.Fault != nil && !rec.FaultTold {
		cut = x.Fail(rec.Fault)
	}
	rec.Outcome = outcome(rec.Fault)
	rec.Status, rec.BytesOut = x.Status(), x.Written()
	g.Journal.Close(&snap.Journal, rec)
	x.Close()
	if cut {
		panic(http.ErrAbortHandler)
	}
}

func outcome(f *fault.Error) journal.Outcome {
	switch {
	case f == nil:
		return journal.OK
	case f.Kind == fault.Canceled:
		return journal.Cancelled
	}
	return journal.Failed
}
