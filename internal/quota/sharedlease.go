package quota

import (
	"strings"
	"time"
)

// lease is what a cell has of a shared count: an amount that is taken there and
// not used here, and what the store said last. It is guarded by the cell's lock
// but for the gate.
type lease struct {
	// gate is held by whoever talks to the store about this cell. Nothing is
	// locked meanwhile.
	gate chan struct{}
	of   *sharing
	tag  string
	// limit is the one that it was drawn for last: it says how to report.
	limit *limit
	bound bound // of all gateways together

	n       int64 // taken there, not used here
	pending int64 // drawn for calls that do not have everything yet
	until   int64 // a rate's is not used later
	touched int64 // when it was last drawn from
	size    int64 // what the last grant brought
	waiting int64 // the needs of those who wait at the gate, or were refused lately

	denied, deniedNeed, retry int64 // until then, so much is not there, and when it is

	heard            int64 // when the store last answered
	remaining, reset int64 // what it said

	debt            int64 // of a rate: used and not reported
	unpaid          int64 // of a rate: admitted while the store was gone
	seq             int64 // of what is held
	renewed         int64 // when the store last heard of it
	spent           int64 // of a budget, in the period
	period          int64 // that n, spent and remaining are of
	told, toldSpent int64 // what the store was told last of what is held and spent
	listed          bool
}

func (sh *sharing) newLease(l *limit, s *Subject) *lease {
	return &lease{of: sh, limit: l, gate: make(chan struct{}, 1), tag: l.tag(s)}
}

// braces cannot stand in a tag: they delimit it.
var braces = strings.NewReplacer("{", "%7B", "}", "%7D")

// tag is where a count lies in a cluster: those of one tenant lie together. It
// follows from the cell's key alone, so that all gateways look for it in the same
// place.
func (l *limit) tag(s *Subject) string {
	if contains(l.rule.per, "tenant") {
		return "{t:" + braces.Replace(string(appendEscaped(nil, s.Tenant))) + "}"
	}
	return "{g}"
}

// whole is the bound of all gateways together. The cell's own is that of this
// gateway's share where counts are shared.
func (t *taken) whole() bound {
	if e := t.cell.lease; e != nil {
		return e.bound
	}
	return t.cell.bound
}

// keep is how the store has to reckon.
func (b bound) keep() Keep {
	switch b.algorithm {
	case algWindow:
		return KeepWindow
	case algFixed:
		return KeepFixed
	case algConcurrent, algBudget:
		return KeepHeld
	}
	return KeepBucket
}

// account describes a cell's count to the store. The cell is locked.
func (c *cell) account(now int64) Account {
	e, b := c.lease, c.lease.bound
	a := Account{Tag: e.tag, Keep: b.keep()}
	// What is kept in another way, since the configuration changed, is another key.
	a.Key = "hg:" + e.tag + ":" + [...]string{"bucket", "window", "fixed", "held"}[a.Keep] + ":" + c.key
	e.seq += 2 // one for the store's use
	if g := e.limit.budget; g != nil {
		p := &c.state.purse
		a.Key += "@" + time.Unix(0, p.from).UTC().Format("20060102T1504")
		a.Burst = g.limit
		lasts := time.Duration(min(p.until-now, int64(longestKept)))
		a.Own = Own{Held: c.held(), Spent: e.spent, Floor: p.used, Seq: e.seq, Lasts: lasts + time.Hour}
		e.told, e.toldSpent = a.Own.Held, a.Own.Spent
		return a
	}
	b = b.part(e.of.news.Load().ours())
	a.Count, a.Burst, a.Period = b.count, b.burst, time.Duration(b.period)
	if b.algorithm == algConcurrent {
		a.Own = Own{Held: c.held(), Seq: e.seq}
		e.told = a.Own.Held
	}
	return a
}

// held is what the gateway has of what is held.
func (c *cell) held() int64 {
	return c.state.held + c.state.purse.reserved + c.lease.n + c.lease.pending
}

// longestKept is how long a budget is remembered that nobody uses and that never
// begins anew.
const longestKept = 400 * 24 * time.Hour

// turn begins a budget's new period. What is left of the old one is over.
func (c *cell) turn(now int64) {
	e := c.lease
	g := e.limit.budget
	if g == nil {
		return
	}
	g.turn(&c.state, now)
	if from := c.state.purse.from; e.period != from {
		e.period, e.n, e.pending, e.spent, e.denied, e.heard, e.remaining, e.told, e.toldSpent = from, 0, 0, 0, 0, 0, 0, 0, 0
	}
}

// usable is what of the lease may be used now.
func (t *taken) usable(now int64) int64 {
	e := t.cell.lease
	switch {
	case t.whole().keep() != KeepHeld && now >= e.until:
		return 0
	case t.whole().keep() == KeepHeld && now > e.renewed+int64(lapse-time.Second):
		return 0 // others may have it by now
	}
	return e.n
}

// lapse is when others may have what a silent gateway held.
const lapse = 3 * renewEvery

// enough is whether the lease covers n. Who needs nothing only has to know that
// nothing is owed.
func (t *taken) enough(n, now int64) bool {
	e := t.cell.lease
	if n == 0 {
		return e.n > 0 || e.remaining > 0 && now < e.heard+leaseAge
	}
	return t.usable(now) >= n
}

// denies is how long n cannot be had, as the store said, or 0.
func (e *lease) denies(n, now int64) int64 {
	switch {
	case now >= e.denied || n < e.deniedNeed:
		return 0
	case e.retry == never:
		return never
	}
	return max(1, e.retry-now)
}

// longestDenial bounds how long an answer is believed that there is nothing:
// others may give back.
const longestDenial = int64(250 * time.Millisecond)

// shortestDenial is how long it is believed at least where little comes back
// in the meantime, so that calls far over a limit do not each ask.
const shortestDenial = int64(10 * time.Millisecond)

// deny notes a refusal.
func (t *taken) deny(n int64, g Given, now int64) int64 {
	e, b := t.cell.lease, t.whole()
	wait := max(1, int64(g.Wait))
	least := shortestDenial
	switch {
	case t.limit.budget != nil:
		wait = t.cell.state.purse.until - now
		if n > t.limit.budget.limit || t.limit.budget.period == forGood {
			wait = never
		}
	case b.keep() == KeepHeld:
		wait = someoneLeaves
	case b.count > 0 && b.period > 0:
		// An eighth of what can be there at once may come back unasked.
		least = min(least, int64(float64(b.burst)*float64(b.period)/float64(b.count)/8))
	}
	e.denied = now + max(min(wait, longestDenial), least)
	if b.keep() == KeepHeld {
		e.denied = now + least
	}
	e.deniedNeed, e.retry = n, now+wait
	if wait == never {
		e.retry = never
		return never
	}
	return wait
}

// grant puts what was granted beyond the need into the lease.
func (t *taken) grant(n int64, g Given, now int64) {
	e := t.cell.lease
	e.n += g.Granted - n
	e.renewed = now
	e.size = g.Granted
	e.until, e.touched, e.denied, e.waiting = now+leaseAge, now, 0, 0
	if t.whole().algorithm == algFixed && g.Reset > 0 {
		e.until = min(e.until, now+int64(g.Reset))
	}
}

// hear notes how the count stands.
func (e *lease) hear(g Given, now int64) {
	e.heard, e.remaining, e.reset = now, g.Remaining, int64(g.Reset)
}

// left is what is left of a budget, as far as is known.
func (t *taken) left() int64 {
	local := t.limit.budget.left(&t.cell.state)
	if e := t.cell.lease; e != nil && e.heard > 0 && e.period == t.cell.state.purse.from {
		return min(local, e.remaining+e.n)
	}
	return local
}

// sharedRemaining is what is left of a rate, as far as is known.
func (t *taken) sharedRemaining(now int64) (remaining, reset int64) {
	e, b := t.cell.lease, t.whole()
	if e.heard == 0 {
		c := t.cell.bound
		return max(0, c.available(&t.cell.state, now)), c.reset(&t.cell.state, now)
	}
	remaining = max(0, e.remaining) + e.n
	if b.keep() == KeepBucket {
		remaining += int64(float64(now-e.heard) * float64(b.count) / float64(b.period))
	}
	return max(0, min(remaining, b.capacity())), max(0, e.reset-(now-e.heard))
}

// idle is whether nothing is lost if the lease is forgotten.
func (e *lease) idle() bool { return e == nil || !e.listed }
