package quota

import "time"

// Standing is how a call stands against one limit.
type Standing struct {
	Rule             string
	Limit, Remaining int64
	// Reset is when all of it will be there, from now on.
	Reset time.Duration
	// Window is the period that the limit is counted by, 0 for a number at once.
	Window time.Duration
}

// stand notes how the call stands against the tightest limits.
func (h *Hold) stand() {
	var ofRequests, ofTokens tightest
	for i := range h.taken {
		t := &h.taken[i]
		switch b := t.limit.budget; {
		case t.limit.rule.shadow:
		case b != nil:
			if b.low(t.left()) {
				h.low = t.limit.rule
			}
		case t.limit.dimension == requests:
			ofRequests.see(t, h.begun)
		case t.limit.dimension != concurrent:
			ofTokens.see(t, h.begun)
		}
	}
	h.Requests, h.Tokens = ofRequests.standing(h.begun), ofTokens.standing(h.begun)
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
