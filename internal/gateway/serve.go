// Package gateway is the hallway: the one place that knows every room and the
// order in which a request walks through them. app builds it; nothing else
// imports it.
package gateway

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/headgate-ai/headgate/internal/attempt"
	"github.com/headgate-ai/headgate/internal/authn"
	"github.com/headgate-ai/headgate/internal/edge"
	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/fleet"
	"github.com/headgate-ai/headgate/internal/journal"
	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/route"
	"github.com/headgate-ai/headgate/internal/upstream"
	"github.com/headgate-ai/headgate/internal/wire"
)

// Gateway holds the rooms, which live as long as the process, and the current
// snapshot of plans, which lives as long as the configuration.
type Gateway struct {
	snapshot atomic.Pointer[Snapshot]

	Authn    *authn.Room
	Quota    *quota.Room
	Upstream *upstream.Room
	Journal  *journal.Room
	// Ledger is nil where none is kept.
	Ledger *ledger.Room
	// Degradation is how far operators have turned the gateway or a model down.
	Degradation Degradation

	counting counting
}

// Adopt makes s the plan of requests that have not begun yet.
func (g *Gateway) Adopt(s *Snapshot) { g.snapshot.Store(s) }

// Snapshot is the current plan.
func (g *Gateway) Snapshot() *Snapshot { return g.snapshot.Load() }

// ServeHTTP is a request's whole life. The snapshot is loaded once, the record
// is closed once, and an error becomes bytes once.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	snap := g.snapshot.Load()
	rec := journal.NewRecord(!snap.Quota.Empty() || snap.Authn.Decides())
	rec.Start, rec.Method, rec.Proto = time.Now(), r.Method, r.Proto
	g.Journal.Begin(&snap.Journal, rec, wire.First(r.Header, "Traceparent"))
	x, err := edge.Open(&snap.Edge, w, r)
	describe(rec, x)
	defer g.conclude(snap, x, rec)
	if err == nil {
		err = g.serve(r.Context(), snap, x, rec)
	}
	rec.Fault = fault.Of(err)
}

// serve is the path. Read it from top to bottom: each line is one room, each
// room is given what it needs and returns a receipt, and no room calls another.
// A receipt that holds something is given back by the defer below it, after the
// last byte, because the response is copied inside this frame.
func (g *Gateway) serve(ctx context.Context, snap *Snapshot, x *edge.Exchange, rec *journal.Record) (err error) {
	// Who asks comes before what is asked: an unknown client costs no body.
	cred := x.Credential()
	who, err := g.Authn.Identify(&snap.Authn, cred.Secret, cred.Basic, x.Route.Op, rec.Start)
	if who != nil {
		rec.Who = who.Principal
	}
	if rec.Mark(journal.Identify, time.Now()); err != nil {
		return err
	}
	if err = g.Degradation.admit(&snap.Authn, who, x, "", rec.Start); err != nil {
		return err
	}

	call, err := x.Receive(ctx)
	if rec.Mark(journal.Receive, time.Now()); err != nil {
		return err
	}
	err = x.Decode(call)
	if decoded(rec, x, call); err != nil {
		return err
	}

	if x.Route.Body == edge.NoBody {
		return g.look(snap, x, who, call, rec.Start)
	}
	if !who.MayUse(call.Model) {
		return notAllowed(call)
	}

	// Route is a pure function and comes before access and quota: they go by the
	// model that is meant, however it is spelled, and by who will answer. A model
	// that does not exist costs nothing; who may not ask for it is not told so.
	asked := passages.Get().(*passage)
	defer asked.forget()
	choice := &asked.choice
	var unknown error
	*choice, unknown = route.Order(&snap.Route, call.Model, rand.Uint64())
	facts := g.facts(&asked.facts, snap, x, who, call, meant(call.Model, choice), rec.Start)
	if err = authorize(snap, who, facts, rec); err != nil {
		return err
	}
	if rec.Mark(journal.Route, time.Now()); unknown != nil {
		return unknown
	}
	rec.Model = choice.Model
	if err = g.Degradation.admit(&snap.Authn, who, x, choice.Model, rec.Start); err != nil {
		return err
	}

	acct := &asked.account
	*acct = account{g: g, snap: snap, x: x, rec: rec, who: who, call: call, choice: choice, asked: asked, facts: facts}
	err = acct.reserve()
	if rec.Mark(journal.Reserve, time.Now()); err != nil {
		return err
	}
	defer func() { acct.close(rec.Usage, err) }()

	got, err := attempt.Do(ctx, choice.Legs, func(ctx context.Context, leg fleet.Leg) (*upstream.Reply, bool, error) {
		reply, again, err := g.send(ctx, snap, x, rec, call, leg, &asked.request)
		acct.tried(leg, !again)
		return reply, again, err
	})
	rec.Attempts = got.Attempts
	if err != nil {
		return final(err, got.Attempts)
	}
	defer release(x, got.Reply)

	a := &asked.answer
	*a = answer{ctx: ctx, snap: snap, journal: g.Journal, x: x, rec: rec, call: call, acct: acct, reply: got.Reply, out: outboundOf(call.Dialect)}
	a.begun(got.Leg.Model)
	defer func() { a.ended(err) }()
	return a.carry()
}

// notAllowed refuses a model that the key does not cover. It says the same
// whether the model exists or not, so that keys cannot be used to find out.
func notAllowed(call *llm.Call) error {
	return &fault.Error{Kind: fault.ModelNotAllowed, Op: "gateway.serve", Param: "model"}
}

// final marks a failure that several legs have shared: the client should not
// multiply our tries by its own.
func final(err error, attempts int) error {
	f := fault.Of(err)
	f.Final = attempts > 1
	return f
}
