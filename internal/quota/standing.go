package quota

import (
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
)

// Standing is how a call stands against one limit.
type Standing struct {
	Rule             string
	Limit, Remaining int64
	// Reset is when all of it will be there, from now on.
	Reset time.Duration
	// Window is the period that the limit is counted by, 0 for a number at once.
	Window time.Duration
}

// tighter is whether a binds before b: less of it is left, in proportion.
func (a Standing) tighter(b Standing) bool {
	return b.Limit == 0 || float64(a.Remaining)*float64(b.Limit) < float64(b.Remaining)*float64(a.Limit)
}

// Other is how a call stands against a limit that is no rate: the calls under
// way at once, or a budget of which little is left. Clients are told of one; it
// is apart from the Hold since most calls have none.
type Other struct {
	Standing
	// Unit is what is counted.
	Unit string
	// Refused is whether this is what the call was refused for.
	Refused bool
}

// The units of Other. Of the first the name is that of the IETF's draft on
// rate-limit headers; money is told in whole cents, since headers have no
// fractions.
const (
	unitPlaces = "concurrent-requests"
	unitTokens = "tokens"
	unitCents  = "cents"
)

// rank orders what clients are told first: what refused the call, then a budget
// that is low, then a number of calls at once.
func (o *Other) rank() int {
	switch {
	case o == nil:
		return 0
	case o.Refused:
		return 3
	case o.Unit == unitPlaces:
		return 1
	}
	return 2
}

// consider notes what clients may be told beside the rates, if it is more to the
// point than what was noted before.
func (h *Hold) consider(s Standing, unit string, refused bool) {
	o := &Other{s, unit, refused}
	if now, was := o.rank(), h.Other.rank(); now > was || now == was && s.tighter(h.Other.Standing) {
		h.Other = o
	}
}

// Binding names the rule or the budget that refused the call, or else the
// tightest of those that clients are told of; "" where there is none.
func (h *Hold) Binding() string {
	if h == nil {
		return ""
	}
	if h.refuser != nil {
		return h.refuser.name
	}
	tightest := &h.Requests
	if h.Tokens.Limit > 0 && h.Tokens.tighter(*tightest) {
		tightest = &h.Tokens
	}
	if h.Other != nil && h.Other.tighter(*tightest) {
		tightest = &h.Other.Standing
	}
	return tightest.Rule
}

// Reserved is the tokens of prompt and answer that the hold was reckoned with.
func (h *Hold) Reserved() (input, output int64) { return h.input, h.output }

// standBudget notes a budget, if it has less left than its soft limit or has
// refused the call. What the call itself has just taken does not make it low.
func (h *Hold) standBudget(t, refused *taken) {
	before := t.left()
	if refused == nil {
		before += t.n
	}
	if t.limit.budget.low(before, h.price) {
		h.low = t.limit.rule
	} else if t != refused {
		return
	}
	s, unit := t.purse(h.begun)
	h.consider(s, unit, t == refused)
}

// purse is how a budget stands, in whole tokens or cents.
func (t *taken) purse(now int64) (Standing, string) {
	b := t.limit.budget
	s := Standing{Rule: t.limit.rule.name, Limit: b.limit, Remaining: max(0, t.left()), Reset: time.Duration(t.cell.state.purse.until - now)}
	if t.limit.dimension != money {
		return s, unitTokens
	}
	const cent = int64(llm.USD) / 100
	s.Limit, s.Remaining = (s.Limit+cent-1)/cent, s.Remaining/cent
	return s, unitCents
}

// stand notes how the call stands against the tightest limits, and against what
// refused it.
func (h *Hold) stand(refused *taken) {
	if refused != nil {
		h.refuser = refused.limit.rule
	}
	var ofRequests, ofTokens, ofPlaces tightest
	for i := range h.taken {
		t := &h.taken[i]
		switch {
		case t.limit.rule.shadow:
		case t.limit.budget != nil:
			h.standBudget(t, refused)
		case t.limit.dimension == requests:
			ofRequests.see(t, h.begun)
		case t.limit.dimension != concurrent:
			ofTokens.see(t, h.begun)
		case t == refused:
			h.consider(t.standing(h.begun), unitPlaces, true)
		default:
			ofPlaces.see(t, h.begun)
		}
	}
	h.Requests, h.Tokens = ofRequests.standing(h.begun), ofTokens.standing(h.begun)
	if h.Requests.Limit == 0 && h.Tokens.Limit == 0 && ofPlaces.limit > 0 { // else it says little to who was let in
		h.consider(ofPlaces.standing(h.begun), unitPlaces, false)
	}
}

// tightest finds the limit that binds first: the one of which least is left, in
// proportion.
type tightest struct {
	taken       *taken
	left, limit int64
}

func (x *tightest) see(t *taken, now int64) {
	left, limit := t.remaining(now)
	if x.limit == 0 || float64(left)*float64(x.limit) < float64(x.left)*float64(limit) {
		*x = tightest{t, left, limit}
	}
}

func (x *tightest) standing(now int64) Standing {
	if x.taken == nil {
		return Standing{}
	}
	return x.taken.standingAt(x.left, x.limit, now)
}

// remaining is how many of a rate are left, and of how many.
func (t *taken) remaining(now int64) (left, limit int64) {
	b := t.whole()
	limit = b.capacity() / b.unit()
	if t.cell.lease != nil {
		left, _ = t.sharedStanding(now)
		return left, limit
	}
	return max(0, b.available(&t.cell.state, now)) / b.unit(), limit
}

func (t *taken) standing(now int64) Standing {
	left, limit := t.remaining(now)
	return t.standingAt(left, limit, now)
}

func (t *taken) standingAt(left, limit, now int64) Standing {
	b := t.whole()
	s := Standing{Rule: t.limit.rule.name, Limit: limit, Remaining: left, Window: time.Duration(b.period)}
	if t.cell.lease != nil {
		_, s.Reset = t.sharedStanding(now)
	} else {
		s.Reset = time.Duration(b.reset(&t.cell.state, now))
	}
	return s
}
