package quota

import (
	"math"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/meter"
)

// Hold is what a call has taken and not yet settled. It belongs to the call's
// goroutine.
type Hold struct {
	room    *Room
	begun   int64
	price   *meter.Price
	answers *length // what is known of the key's answers
	// input and output are the tokens that the hold was reckoned with.
	input, output int64
	budgets       bool // some of it is of a budget
	settled       bool
	growing       bool // more is being reserved
	taken         []taken
	takenRoom     [6]taken
	chargeRoom    [1]llm.Charge

	// Requests and Tokens are how the call stands against the tightest limit of
	// its kind; their Limit is 0 where there is none.
	Requests, Tokens Standing
	Other            *Other // nil where there is nothing to tell
	low              *rule  // the budget that had less left than its soft limit
	refuser          *rule  // what refused the call
	// WayOut is there when a budget is at its end.
	WayOut *WayOut
}

// holds are used again, so that admission costs a call no memory.
var holds = sync.Pool{New: func() any { return new(Hold) }}

// Release gives up a hold that is settled or was refused. Nobody may use it any
// more, nor the charges that it settled with.
func (h *Hold) Release() {
	if h != nil {
		*h = Hold{}
		holds.Put(h)
	}
}

// WayOut is what a budget at its end lets through in the place of what was
// asked for.
type WayOut struct {
	// Trimmed is the bound on the answer's tokens under which the call was let
	// through, 0 if it was refused.
	Trimmed int64
	// Instead is another model that may be called; "" is none. It comes with a
	// refusal.
	Instead string
	// Shorter is how many tokens the prompt may have, 0 if no prompt would do. It
	// comes with a refusal.
	Shorter int64
}

// Trimmed is the bound on the answer's tokens that a budget at its end sets, 0
// where none does.
func (h *Hold) Trimmed() int64 {
	if h.WayOut == nil {
		return 0
	}
	return h.WayOut.Trimmed
}

// Low names the budget that had less left than its soft limit when the call came,
// "" if none had.
func (h *Hold) Low() string {
	if h.low == nil {
		return ""
	}
	return h.low.name
}

// taken is what was taken of one cell, or is to be.
type taken struct {
	limit  *limit
	cell   *cell // its bound is the one that holds while it is locked
	n      int64
	period int64 // of a budget: when the period began that it was taken of
	failed bool  // a shadow limit that had no room: nothing was taken
	// Where counts are shared: whether the store was not asked, and how much of n
	// the gateway's own state has taken.
	unasked bool
	local   int64
}

// gather lists what the call needs of the limits that concern it, and which they
// are.
func (h *Hold) gather(m *match, s *Subject, bytes int64, concerns []*concern) []*concern {
	h.taken = h.takenRoom[:0]
	var last *rule
	concerned := false
	for i := range m.concerns {
		c := &m.concerns[i]
		l := c.limit
		if c.asked {
			if l.rule != last {
				last, concerned = l.rule, l.rule.concerns(s)
			}
			if !concerned {
				continue
			}
		}
		if l.own != nil {
			if _, ok := l.own(s); !ok {
				continue
			}
		}
		n := int64(0)
		if l.adapts != nil {
			n = l.adapts.cost(bytes)
		} else {
			n = l.need(h.price, h.input, h.output)
		}
		h.taken = append(h.taken, taken{limit: l, cell: c.find(h.room, s), n: n})
		concerns = append(concerns, c)
		h.budgets = h.budgets || l.budget != nil
	}
	return concerns
}

// lock locks every cell of the hold and brings it under the bound that holds.
// They are all in one order, so that no two calls wait for each other.
func (h *Hold) lock(p *Plan, s *Subject, concerns []*concern) {
	for i, c := range concerns {
		t := &h.taken[i]
		t.cell = c.lock(h.room)
		t.bring(p, s, h.begun)
	}
}

// bring brings the cell, which is locked, under the bound that holds for a subject.
func (t *taken) bring(p *Plan, s *Subject, now int64) {
	b, since, _ := t.limit.boundAt(s, p.since, now)
	b, since = t.cell.boundOf(t.limit, b, since, now)
	t.cell.under(b, since, now)
}

func (h *Hold) unlock() {
	for i := range h.taken {
		h.taken[i].cell.mu.Unlock()
	}
}

// decide takes everything, or finds what is in the way. The cells are locked.
func (h *Hold) decide() error {
	h.trim()
	var worst *taken
	var wait int64
	for i := range h.taken {
		t := &h.taken[i]
		w := t.wait(h.begun)
		switch {
		case w == 0:
		case t.limit.rule.shadow:
			t.failed = true
			t.limit.count.Shadowed.Add(1)
		case worst == nil || w > wait:
			worst, wait = t, w
		}
	}
	if worst != nil {
		if b := worst.limit.budget; b != nil {
			h.WayOut = &WayOut{Instead: b.exhausted.model}
			if b.exhausted.trim {
				h.WayOut.Shorter = h.promptFor(worst.limit, b.left(&worst.cell.state))
			}
		}
		h.stand(worst)
		worst.limit.count.Refused.Add(1)
		return worst.refusal(wait, h.begun)
	}
	for i := range h.taken {
		t := &h.taken[i]
		t.cell.holds++
		t.take(h.begun)
		t.limit.count.Admitted.Add(1)
	}
	h.stand(nil)
	return nil
}

// wait is how long until what is needed can be had.
func (t *taken) wait(now int64) int64 {
	if b := t.limit.budget; b != nil {
		return b.wait(&t.cell.state, t.n, now)
	}
	return t.cell.bound.wait(&t.cell.state, t.n, now)
}

func (t *taken) take(now int64) {
	switch b := t.limit.budget; {
	case t.failed:
	case b != nil:
		t.period = b.reserve(&t.cell.state, t.n, now)
	default:
		t.cell.bound.take(&t.cell.state, t.n, now)
	}
}

// note counts a call that was let through for the limits that move.
func (h *Hold) note(bytes int64) {
	for i := range h.taken {
		if a := h.taken[i].limit.adapts; a != nil {
			a.moving.underWay.Add(1)
			a.moving.bytes.Add(bytes)
		}
	}
}

// Settlement is how a call ended.
type Settlement struct {
	// Usage is what was used, as the provider reported it or as it was counted.
	Usage llm.Usage
	// Price is that of who answered, in the place of the one that was reserved
	// with.
	Price *meter.Price
	// Unsent is whether no provider has seen the call: then it counts nowhere.
	Unsent bool
}

// Settle puts the truth in the place of what was reserved, and gives back the
// places of what counts at once. It returns what the call cost each budget, to be
// used before the hold is released. Only the first call does anything.
func (h *Hold) Settle(s Settlement, now time.Time) []llm.Charge {
	if h == nil || h.settled {
		return nil
	}
	h.settled = true
	at := h.room.at(now)
	var charges []llm.Charge
	for i := range h.taken {
		t := &h.taken[i]
		actual := t.limit.actual(s, t.n)
		t.cell.mu.Lock()
		t.cell.holds--
		if t.limit.adapts != nil {
			t.limit.adapts.moving.underWay.Add(-1)
		}
		switch b := t.limit.budget; {
		case t.failed:
		case b != nil:
			t.settleLease(actual)
			if b.settle(&t.cell.state, t.period, t.n, actual); actual > 0 {
				if charges == nil {
					charges = h.chargeRoom[:0]
				}
				charges = append(charges, llm.Charge{Scope: t.cell.key, Period: t.period / int64(time.Second), Amount: actual})
			}
		case t.cell.lease != nil:
			t.settleShared(actual, h.begun, at)
		default:
			t.settle(actual, h.begun, at)
		}
		t.cell.mu.Unlock()
	}
	if !s.Unsent && s.Usage.Output > 0 {
		h.answers.learn(s.Usage.Output)
	}
	return charges
}

// settle corrects what was taken of a rate.
func (t *taken) settle(actual, begun, now int64) {
	if t.cell.bound.fine != (t.limit.adapts != nil) {
		return // a reload has changed what the limit counts by: the call stays counted as it was
	}
	switch more := actual - t.n; {
	case t.limit.dimension == concurrent:
		t.cell.bound.give(&t.cell.state, t.n, begun, now)
	case more > 0:
		t.cell.bound.take(&t.cell.state, more, now)
	case more < 0:
		t.cell.bound.give(&t.cell.state, -more, begun, now)
	}
}

// Budgeted is whether some of the hold is of a budget.
func (h *Hold) Budgeted() bool { return h != nil && h.budgets }

// Allow is how many tokens of output a call may have that has used so much; where
// that is no more than it has used, a budget is at its end. What was reserved is
// enlarged when it is used up, as long as there is something left.
func (h *Hold) Allow(u llm.Usage) (output int64) {
	if !h.Budgeted() || h.settled {
		return math.MaxInt64
	}
	if u.Output >= h.output {
		h.grow(u)
	}
	return h.output
}

// grow reserves for more output: a lot if there is a lot, else less, at least
// for one token.
func (h *Hold) grow(u llm.Usage) {
	input := max(h.input, u.Input)
	for more := max(64, h.output/8); more > 0; more /= 2 {
		if h.extend(input, max(h.output, u.Output)+more) {
			return
		}
	}
}

// extend makes the reservations of budgets as large as a call of so many tokens
// needs, all or none.
func (h *Hold) extend(input, output int64) bool {
	if h.room.sharing != nil {
		return h.extendShared(input, output)
	}
	h.lockBudgets()
	defer h.unlockBudgets()
	for i := range h.taken {
		if t := &h.taken[i]; t.mayGrow() && !t.limit.budget.canExtend(&t.cell.state, t.period, t.limit.need(h.price, input, output)-t.n) {
			return false
		}
	}
	for i := range h.taken {
		if t := &h.taken[i]; t.mayGrow() {
			if n := t.limit.need(h.price, input, output); n > t.n {
				t.limit.budget.extend(&t.cell.state, t.period, n-t.n)
				t.n = n
			}
		}
	}
	h.input, h.output = input, output
	return true
}

func (t *taken) mayGrow() bool { return t.limit.budget != nil && !t.failed && !t.limit.rule.shadow }

func (h *Hold) lockBudgets() {
	for i := range h.taken {
		if h.taken[i].mayGrow() {
			h.taken[i].cell.mu.Lock()
		}
	}
}

func (h *Hold) unlockBudgets() {
	for i := range h.taken {
		if h.taken[i].mayGrow() {
			h.taken[i].cell.mu.Unlock()
		}
	}
}
