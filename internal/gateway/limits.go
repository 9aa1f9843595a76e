package gateway

import (
	"cmp"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/internal/authn"
	"github.com/headgate-ai/headgate/internal/condition"
	"github.com/headgate-ai/headgate/internal/edge"
	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/fleet"
	"github.com/headgate-ai/headgate/internal/journal"
	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/meter"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/route"
	"github.com/headgate-ai/headgate/internal/upstream"
	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/tokens"
)

// passages are used again: nobody keeps what a call has with it on its way.
var passages = sync.Pool{New: func() any { return new(passage) }}

// passage is what one call has with it on its way through the rooms: what they
// are asked with, and what it owes. It is one piece of memory, and not five.
type passage struct {
	facts   condition.Input
	subject quota.Subject
	limits  wire.Limits
	choice  route.Choice
	account account
	request upstream.Request
	answer  answer
}

// forget lets go of all that, but for how limits are spelled. Nothing of it may be
// used any more.
func (q *passage) forget() {
	*q = passage{limits: q.limits}
	passages.Put(q)
}

// meant is the model's name that conditions and limits go by: the client's, but
// not with the provider before it, or they could be passed by that spelling.
func meant(asked string, choice *route.Choice) string {
	if len(choice.Legs) > 0 && strings.HasSuffix(choice.Model, "/*") && choice.Model[:len(choice.Model)-2] == choice.Legs[0].Provider {
		if name, ok := strings.CutPrefix(asked, choice.Model[:len(choice.Model)-1]); ok {
			return name
		}
	}
	return asked
}

// facts fills in what conditions may ask of a call of a model; nil where there is
// none to ask.
func (g *Gateway) facts(in *condition.Input, snap *Snapshot, x *edge.Exchange, who *authn.Grant, call *llm.Call, model string, now time.Time) *condition.Input {
	uses := snap.Quota.Uses() | snap.Authn.Uses()
	if uses == 0 && !snap.Authn.Decides() {
		return nil
	}
	*in = condition.Input{
		Path: x.Route.Pattern, Model: model, Op: string(call.Op), Dialect: string(call.Dialect), Method: x.Route.Method,
		Stream: call.WantsStream, Bytes: max(call.Length, int64(len(call.Raw))), MaxTokens: call.MaxTokens, Messages: int64(call.Messages),
		Now: now, Zone: snap.Authn.Zone(), Region: x.Region(),
	}
	if uses.Any(condition.IP) {
		in.IP = x.Client()
	}
	if uses.Any(condition.Tokens) {
		in.Tokens = int64(g.counting.prompt(call, model).Tokens)
	}
	authn.Describe(who, in)
	return in
}

// authorize asks the roles and the conditions.
func authorize(snap *Snapshot, who *authn.Grant, in *condition.Input, rec *journal.Record) error {
	if in == nil || !snap.Authn.Decides() {
		return nil
	}
	d, err := snap.Authn.Authorize(who, in)
	a := rec.Decisions()
	a.Role, a.Conditions, a.Held = d.Role, snap.Authn.Conditions(), d.Held
	if err != nil {
		a.Denied = d.Rule
	}
	return err
}

// account is what a call has reserved and will cost. It is to be closed in any
// case.
type account struct {
	g      *Gateway
	snap   *Snapshot
	x      *edge.Exchange
	rec    *journal.Record
	who    *authn.Grant
	call   *llm.Call
	choice *route.Choice
	asked  *passage // which the account is a part of
	facts  *condition.Input

	hold    *quota.Hold
	price   *meter.Price
	count   tokens.Count // of the prompt, before the call
	leg     fleet.Leg    // the latest that was tried, at first the one to try; price is what it costs
	instead string       // the model that a budget named, "" while the client's is called
	trimmed bool         // the prompt has been shortened
	sent    bool         // a provider has been asked
	done    bool
}

// reserve asks whether the call may be made and takes what it may need. Where a
// budget is at its end and names another model, that one is taken in the place
// of the one that was asked for.
func (a *account) reserve() error {
	err := a.take()
	if err != nil {
		a.release()
	}
	return err
}

// close settles what has not been settled so far. The account is not used any
// more.
func (a *account) close(u llm.Usage, err error) {
	a.settle(u, err)
	a.release()
}

func (a *account) release() {
	a.hold.Release()
	a.hold = nil
}

func (a *account) take() error {
	leg := a.choice.Legs[0]
	a.via(leg)
	if a.snap.Quota.Empty() && a.who.Rate == 0 && a.who.Tier == "" {
		return nil
	}
	s := &a.asked.subject
	*s = quota.Subject{
		Principal: a.who.Principal, Model: a.model(), Provider: leg.Provider, IP: a.rec.Client, Region: a.x.Region(),
		Claims: a.who.Claims(), Facts: a.facts,
	}
	if a.facts != nil {
		a.facts.Model = s.Model
	}
	if a.snap.Quota.Counts() && !a.trimmed {
		a.count = a.g.counting.prompt(a.call, leg.Model)
	}
	var err error
	now := time.Now()
	a.hold, err = a.g.Quota.Reserve(&a.snap.Quota, s, a.demand(), now)
	if err != nil && (a.degrade() || a.shorten(leg.Model)) {
		return a.take()
	}
	if most := a.hold.Trimmed(); most > 0 {
		a.call.Bound = max(1, most/max(1, a.call.Choices))
		a.changed(journal.AnswerBounded)
	}
	a.asked.tell(a.x, a.hold, now)
	decisions := a.rec.Decisions()
	decisions.Limit = a.hold.Binding()
	decisions.Reserve(a.hold.Reserved())
	return err
}

// demand is what the call asks for.
func (a *account) demand() quota.Demand {
	return quota.Demand{
		Input: int64(a.count.Tokens), Output: a.call.MaxOutput(), Price: a.price,
		Bytes: max(a.call.Length, int64(len(a.call.Raw))),
	}
}

// degrade takes the model that a budget at its end names, once.
func (a *account) degrade() bool {
	w := a.hold.WayOut
	if a.instead != "" || w == nil || w.Instead == "" || w.Instead == a.call.Model {
		return false
	}
	other, err := route.Order(&a.snap.Route, w.Instead, rand.Uint64())
	if err != nil {
		return false
	}
	a.instead, *a.choice, a.rec.Model = w.Instead, other, other.Model
	a.changed(journal.ModelChanged)
	return true
}

// shorten takes out of the prompt what a budget at its end does not allow, once.
func (a *account) shorten(model string) bool {
	if a.trimmed || a.hold.WayOut == nil || a.hold.WayOut.Shorter <= 0 {
		return false
	}
	edits, report := a.g.counting.shorten(a.call, model, a.hold.WayOut.Shorter)
	if !report.Fits || len(edits) == 0 {
		return false
	}
	a.trimmed, a.call.Edits, a.count.Tokens = true, edits, report.To
	a.changed(journal.PromptCut)
	a.x.ResponseHeader()["X-Trimmed"] = []string{report.Header()}
	return true
}

// changed notes what a budget at its end has changed of the call, for the client
// and for the record.
func (a *account) changed(what journal.Degradation) {
	a.x.ResponseHeader()["X-Degraded"] = []string{a.rec.Decisions().Degrade(what).String()}
}

// model is the name that limits go by.
func (a *account) model() string {
	return meant(cmp.Or(a.instead, a.call.Model), a.choice)
}

// via is the leg that the call takes from now on.
func (a *account) via(leg fleet.Leg) {
	if leg == a.leg {
		return
	}
	a.leg, a.price = leg, nil
	if p, ok := a.snap.Prices.Price(leg.Model, leg.Provider, a.rec.Start); ok {
		a.price = p
	}
}

// tell tells the client how it stands, in the dialect's own headers and in the
// common ones, whether its call is let through or not. now is when it was asked.
func (q *passage) tell(x *edge.Exchange, h *quota.Hold, now time.Time) {
	if h == nil {
		return
	}
	q.limits.Requests, q.limits.Tokens, q.limits.Now = limitOf(&h.Requests), limitOf(&h.Tokens), now
	q.limits.Other, q.limits.Unit, q.limits.Refused = wire.Limit{}, "", false
	if o := h.Other; o != nil {
		q.limits.Other, q.limits.Unit, q.limits.Refused = limitOf(&o.Standing), o.Unit, o.Refused
	}
	values := x.Values()
	x.Inbound.Limits(values, &q.limits)
	wire.GenericLimits(values, &q.limits)
	if low := h.Low(); low != "" {
		header := x.ResponseHeader()
		header["X-Billing-Warning"] = lowBalance
		header["X-Headgate-Budget"] = []string{low}
	}
}

var lowBalance = []string{"low-balance"}

func limitOf(s *quota.Standing) wire.Limit {
	return wire.Limit{Name: s.Rule, Limit: s.Limit, Remaining: s.Remaining, Reset: s.Reset, Window: s.Window}
}

// allow is how much a stream's budgets let it have; nil where there are none.
func (a *account) allow() func(llm.Usage) int64 {
	if !a.hold.Budgeted() {
		return nil
	}
	return func(u llm.Usage) int64 {
		u.Input = max(u.Input, int64(a.count.Tokens))
		return a.hold.Allow(u)
	}
}

// settle puts the truth in the place of what was reserved, and writes it into
// the ledger. It is called before the client has the last byte of its answer,
// so that no answer is free of charge because the process died behind it; and
// again at the end, for calls that never came so far.
func (a *account) settle(u llm.Usage, err error) {
	if a.done {
		return
	}
	a.done = true
	charges := a.hold.Settle(quota.Settlement{Usage: u, Price: a.price, Unsent: !a.sent}, time.Now())
	if !a.sent {
		return
	}
	a.g.counting.learn(a.leg.Model, a.count, u)
	rec := a.rec
	if a.price != nil {
		rec.Cost = a.price.Cost(u)
	}
	if a.g.Ledger == nil {
		return
	}
	err = a.g.Ledger.Append(&ledger.Entry{
		ID: entryID(rec), At: rec.Start.UTC(), RequestID: rec.ID, Key: rec.Who.Key, Tenant: rec.Who.Tenant, User: rec.Who.User,
		Model: rec.Asked, Provider: rec.Provider, Target: rec.Target, Dialect: string(rec.Dialect), Op: string(rec.Op),
		Usage: u, Cost: rec.Cost, Priced: a.price != nil, Status: rec.UpstreamRaw, Outcome: outcome(fault.Of(err)).String(), Charges: charges,
	})
	if err != nil {
		a.g.Journal.Logger().Error("the ledger did not take an entry; what this request cost is only in its record", "request_id", rec.ID, "error", err.Error())
	}
}

// entryID is unique for each request, whatever id the client gave it.
func entryID(rec *journal.Record) string {
	var b [2 * (len(rec.Trace) + len(rec.Span))]byte
	hex.Encode(b[hex.Encode(b[:], rec.Trace[:]):], rec.Span[:])
	return string(b[:])
}

// tried notes that a leg was tried, and whether its provider may have seen the
// call.
func (a *account) tried(leg fleet.Leg, sent bool) {
	a.sent = a.sent || sent
	a.via(leg)
	a.rec.Provider, a.rec.Target = leg.Provider, leg.Target()
}

// prompt is how many tokens the prompt has.
func (a *account) prompt() int64 {
	if a.count.Tokens == 0 {
		a.count = a.g.counting.prompt(a.call, a.leg.Model)
	}
	return int64(a.count.Tokens)
}

// billed is the usage that a call is charged for: what the provider reported,
// or, where it answered and said nothing, what was counted of it. A provider
// that reports nothing must not make its answers free.
func (a *account) billed(u llm.Usage, answer []byte) llm.Usage {
	switch {
	case u.Total() > 0:
		return u
	case a.call.Op == llm.Embeddings:
		return llm.Usage{Estimated: true, Input: a.prompt()}
	case !generates(a.call.Op):
		return u
	}
	return llm.Usage{Estimated: true, Input: a.prompt(), Output: int64(tokens.EstimateOf(tokens.FamilyOf(a.leg.Model), answer).Tokens)}
}

// generates is whether an operation's answer is text that is paid for.
func generates(op llm.Operation) bool {
	switch op {
	case llm.Chat, llm.Completion, llm.Responses:
		return true
	}
	return false
}

// look answers the requests that ask for nothing of a model.
func (g *Gateway) look(snap *Snapshot, x *edge.Exchange, who *authn.Grant, call *llm.Call, now time.Time) error {
	if call.Op == llm.LimitStatus {
		return g.status(snap, x, who, call, now)
	}
	return models(snap, x, who, call)
}
