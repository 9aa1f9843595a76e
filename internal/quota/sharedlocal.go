package quota

import (
	"fmt"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
)

// outage is what happens while the store is gone.
type outage uint8

const (
	// localShare divides each limit by the number of gateways.
	localShare outage = iota
	// strict refuses every call that a limit concerns.
	strict
	// open lets every call through.
	open
)

var outages = map[string]outage{"": localShare, "local-share": localShare, "strict": strict, "open": open}

// outOfReach is the refusal of a call whose limits cannot be asked. No single
// limit is in its way.
func outOfReach() *fault.Error {
	return &fault.Error{
		Kind: fault.Overloaded, Op: op, RetryAfter: jittered(int64(time.Second)),
		Public: "The limits of this gateway cannot be checked at the moment; try again in a second.",
	}
}

// alone decides without the store. What leases still have is used first; the rest
// is reported when the store is back.
func (h *Hold) alone(parts []part) (verdict, *part) {
	h.lockCells()
	defer h.unlock()
	s, now := h.room.sharing, h.now()
	s.local.Add(1)
	var worst *part
	for i := range parts {
		p := &parts[i]
		if p.have || p.failed {
			continue
		}
		p.release()
		p.cell.turn(now)
		w, early := p.waitAlone(s, now), !p.inTime(s, now)
		switch {
		case w == 0 && !early:
		case p.limit.rule.shadow:
			p.shadowed()
		case s.outage == strict || early:
			return isRefused, p
		default:
			p.denied = w
			if worst == nil || w > worst.denied {
				worst = p
			}
		}
	}
	if worst != nil {
		return isRefused, worst
	}
	for i := range parts {
		if p := &parts[i]; p.have {
			p.keep()
			h.count(p, now)
		} else if !p.failed {
			h.takeAlone(p, now)
		}
	}
	h.committed(parts)
	return isComplete, nil
}

// waitAlone is how long until a part can be had without the store.
func (p *part) waitAlone(s *sharing, now int64) int64 {
	st, e := &p.cell.state, p.cell.lease
	switch {
	case s.outage == open:
		return 0
	case s.outage == strict:
		return someoneLeaves
	case p.limit.budget != nil:
		if p.n <= p.usable(now) || p.n <= p.aloneLeft(s) && p.aloneLeft(s) > 0 {
			return 0
		}
		return max(1, min(st.purse.until-now, someoneLeaves))
	case p.limit.dimension == concurrent && e.n >= p.n && p.usable(now) >= p.n:
		return 0
	}
	// What is more than a share at once can be had when the store is back.
	if w := p.cell.bound.wait(st, p.n, now); w != never {
		return w
	}
	return someoneLeaves
}

// inTime is whether the policy may decide on a part already. A share may be used
// when the others leave it; until then one lease, which is what the gateway has
// and what it might have been granted. So much may be used in advance.
func (p *part) inTime(s *sharing, now int64) bool {
	if s.outage != localShare || p.limit.budget != nil || s.noticed(now) {
		return true
	}
	e, b := p.cell.lease, p.whole()
	lease := min(s.lease*min(p.n, mostNeed), b.capacity()/8)
	rest := p.n - min(p.n, p.usable(now))
	switch {
	case rest == 0:
		return true
	case p.limit.dimension == concurrent:
		return p.cell.state.held+p.n <= lease
	case now < e.until:
		lease -= e.size
	}
	return e.unpaid+rest <= lease
}

// aloneLeft is this gateway's part of what was left of a budget when the store
// answered last, less what it has taken since.
func (t *taken) aloneLeft(s *sharing) int64 {
	left := t.limit.budget.left(&t.cell.state)
	if e := t.cell.lease; e.heard > 0 {
		left = min(left, e.remaining)
	}
	return left / s.replicas()
}

// takeAlone takes a part without the store.
func (h *Hold) takeAlone(p *part, now int64) {
	s, st, e := h.room.sharing, &p.cell.state, p.cell.lease
	drawn := min(p.n, p.usable(now))
	e.n -= drawn
	rest := p.n - drawn
	p.unasked = true
	switch {
	case p.limit.budget != nil:
		h.setAside(p, now)
		if e.heard > 0 {
			// The others are taken to use as much.
			e.remaining -= min(rest, mostNeed) * s.replicas()
		}
	case p.limit.dimension == concurrent:
		p.whole().take(st, p.n, now)
	default:
		p.cell.bound.take(st, p.n, now)
		p.local += p.n
		e.unpaid += rest
	}
}

// sharedStanding is how a shared limit stands, for the headers of answers.
func (t *taken) sharedStanding(now int64) (int64, time.Duration) {
	if t.cell.lease.of.down.Load() {
		c := t.cell.bound
		return max(0, c.available(&t.cell.state, now)), time.Duration(c.reset(&t.cell.state, now))
	}
	remaining, reset := t.sharedRemaining(now)
	return remaining, time.Duration(reset)
}

// settleLease keeps the account of a budget with the store: what was reserved and
// not used is in the lease, what was used is spent. It is called before the purse
// is settled.
func (t *taken) settleLease(actual int64) {
	e := t.cell.lease
	if e == nil || e.period != t.period || t.cell.state.purse.from != t.period {
		return
	}
	e.spent += actual
	e.n = max(0, e.n+t.n-actual)
	if t.n > actual {
		e.denied = 0
	}
	e.of.list(t.cell)
}

// settleShared corrects what was taken of a shared rate, or frees a place.
func (t *taken) settleShared(actual, begun, now int64) {
	e, st, c := t.cell.lease, &t.cell.state, t.cell.bound
	defer e.of.list(t.cell)
	if t.limit.dimension == concurrent {
		t.whole().give(st, t.n, begun, now)
		e.n += t.n
		e.denied = 0
		return
	}
	if back := t.local - actual; back > 0 {
		c.give(st, back, begun, now)
	}
	switch more := actual - t.n; {
	case more < 0:
		t.refund(-more, begun, now)
	case more > 0 && e.of.down.Load():
		c.take(st, more, now)
		e.unpaid += more
	case more > 0:
		c.take(st, min(more, max(0, c.available(st, now))), now)
		drawn := min(e.n, more)
		e.n -= drawn
		e.debt += more - drawn
	}
}

// refund puts back what was reserved and not used: into the lease, from which the
// next call draws, or the store.
func (t *taken) refund(n, begun, now int64) {
	e, b := t.cell.lease, t.whole()
	if t.unasked {
		e.unpaid -= min(n, e.unpaid)
		return
	}
	switch {
	case b.algorithm == algFixed && begun/b.period != now/b.period:
		return // that window is over
	case b.algorithm == algWindow && now-begun > leaseAge:
		// It leaves the window when it would have; used anew, it would outlast it.
		e.of.giveBack(t, n, begun, now)
		return
	case b.algorithm == algFixed:
		e.until = min(now+leaseAge, (now/b.period+1)*b.period)
	default:
		e.until = now + leaseAge
	}
	e.n += n
	e.denied = 0
}

// extendShared is extend where counts are shared.
func (h *Hold) extendShared(input, output int64) bool {
	var room [len(h.takenRoom)]part
	parts := room[:0]
	for i := range h.taken {
		t := &h.taken[i]
		if !t.mayGrow() {
			continue
		}
		if n := t.limit.need(h.price, input, output) - t.n; n > 0 && t.running() {
			parts = append(parts, part{taken: t, n: n})
		}
	}
	h.growing = true
	defer func() { h.growing = false }()
	if len(parts) > 0 && h.obtain(parts) != nil {
		return false
	}
	for i := range h.taken {
		if t := &h.taken[i]; t.mayGrow() {
			t.n = max(t.n, t.limit.need(h.price, input, output))
		}
	}
	h.input, h.output = input, output
	return true
}

// running is whether the period that a budget was reserved of is not over: one
// that is over is not asked any more.
func (t *taken) running() bool {
	t.cell.mu.Lock()
	defer t.cell.mu.Unlock()
	return t.cell.state.purse.from == t.period
}

// String names the policy in messages.
func (o outage) String() string {
	for name, known := range outages {
		if known == o && name != "" {
			return name
		}
	}
	return fmt.Sprint(uint8(o))
}
