// Package quota decides how much a call may use, before it is made, and settles
// with the truth afterwards. Rates and budgets are taken together: a call gets
// all that it needs of every rule that concerns it, or nothing. Only the
// hallway uses it; app keeps it.
package quota

import (
	"time"

	"github.com/headgate-ai/headgate/internal/condition"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/meter"
)

// Room keeps what has been used. It lives as long as the process, so that a
// change of the configuration forgets nothing.
type Room struct {
	begun   time.Time
	cells   *cells
	outputs *outputs
	sums    sums
	counts  *counts

	overrides *overrides
	adapting  adapting
	sharing   *sharing // nil where counts are this gateway's own
}

// New makes a room in which nothing has been used.
func New() *Room {
	return &Room{begun: time.Now(), cells: newCells(), outputs: newOutputs(), counts: newCounts(), overrides: newOverrides()}
}

// at is a time in nanoseconds since 1970 that never goes back: the wall clock
// when the process began, and from there the monotonic one.
func (r *Room) at(now time.Time) int64 { return r.begun.UnixNano() + int64(now.Sub(r.begun)) }

// Subject is who makes a call, to whom.
type Subject struct {
	llm.Principal
	Model    string // the configured name
	Provider string
	IP       string
	Region   string
	// Claims are those of the credential, as JSON decodes them.
	Claims map[string]any
	// Facts is what conditions are asked about.
	Facts *condition.Input
}

// Demand is what a call asks for.
type Demand struct {
	// Input is the number of tokens of the prompt, counted or estimated.
	Input int64
	// Output is the most tokens that the answer may have, 0 if the call sets no
	// bound.
	Output int64
	// Bytes is the size of the request's body, for limits that go by it.
	Bytes int64
	// Price is what the model costs; nil costs nothing.
	Price *meter.Price
}

// Reserve takes what a call may need of every rule and budget that concerns it:
// all of it, or nothing. A refusal is a *fault.Error that says which rule, how
// much and when to come again. The Hold is never nil: it tells how the call
// stands against its limits, refused or not, and has to be settled if it was
// not refused.
func (r *Room) Reserve(p *Plan, s *Subject, d Demand, now time.Time) (*Hold, error) {
	h := &Hold{room: r, begun: r.at(now), price: d.Price, input: d.Input, output: d.Output, answers: r.outputs.of(s)}
	if d.Output == 0 {
		h.output = h.answers.expect()
	}
	h.taken = h.takenRoom[:0]
	var room [8]bounded
	var err error
	if bounds := r.match(p, s, d, h, room[:0]); r.sharing != nil {
		err = h.reserveShared(s, bounds)
	} else {
		h.lock(bounds)
		err = h.decide()
		h.unlock()
	}
	if err != nil {
		h.taken = nil
	} else if p.adapts {
		h.note(d.Bytes)
	}
	return h, err
}

// Sweep forgets the cells of which nothing is lost.
func (r *Room) Sweep(now time.Time) { r.cells.sweep(r.at(now)) }

// match lists what the call needs of the limits that concern it, in the order
// of the plan, which is the order in which cells are locked.
func (r *Room) match(p *Plan, s *Subject, d Demand, h *Hold, bounds []bounded) []bounded {
	var room [192]byte
	var last *rule
	concerned := false
	for i := range p.limits {
		l := &p.limits[i]
		if l.rule != last {
			last, concerned = l.rule, l.rule.concerns(s)
		}
		if !concerned {
			continue
		}
		b, since, ok := l.boundAt(s, p.since, h.begun)
		if !ok {
			continue
		}
		key := l.appendKey(room[:0], s)
		t := taken{limit: l, cell: r.cells.find(key), n: l.need(h.price, h.input, h.output)}
		if l.adapts != nil {
			t.n = l.adapts.cost(d.Bytes)
		}
		h.taken = append(h.taken, t)
		b, since = t.cell.boundOf(l, b, since, h.begun)
		bounds = append(bounds, bounded{b, since})
		if l.budget != nil {
			h.budgets = true
		}
	}
	return bounds
}

// bounded is a bound, and since when it holds.
type bounded struct {
	bound
	since int64
}
