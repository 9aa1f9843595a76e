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
	m := p.matches.of(r, p, s)
	h := holds.Get().(*Hold)
	h.room, h.begun, h.answers = r, r.at(now), m.answers
	h.price, h.input, h.output = d.Price, d.Input, d.Output
	if d.Output == 0 {
		h.output = h.answers.expect()
	}
	var room [8]*concern
	concerns := h.gather(m, s, d.Bytes, room[:0])
	var err error
	if r.sharing != nil {
		err = h.reserveShared(p, s, concerns)
	} else {
		h.lock(p, s, concerns)
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

// Sweep forgets the cells of which nothing is lost, and what the plan remembers
// of kinds of calls that come no more.
func (r *Room) Sweep(p *Plan, now time.Time) {
	p.matches.sweep()
	r.cells.sweep(r.at(now))
}
