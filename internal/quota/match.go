package quota

import (
	"encoding/binary"
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"

	"github.com/headgate-ai/headgate/internal/condition"
)

// match is which limits concern the calls of one kind, and the cells that they
// are kept in. Calls are of one kind if they have all in common that cells are
// named by and that conditions read, in so far as these are names.
type match struct {
	kind     string
	hash     uint64
	answers  *length // what is known of the kind's answers
	concerns []concern
	used     atomic.Bool // since the matches were swept last
}

// concern is one limit of a match.
type concern struct {
	limit *limit
	// asked is whether the limit's condition reads more than the kind tells, so
	// that each call has to be asked whether it is concerned.
	asked bool
	cell  atomic.Pointer[cell] // nil until a call needs it
}

// find is the cell of the concern, which may be dead.
func (c *concern) find(r *Room, s *Subject) *cell {
	at := c.cell.Load()
	if at == nil {
		var room [192]byte
		at = r.cells.find(c.limit.appendKey(room[:0], s))
		c.cell.Store(at)
	}
	return at
}

// lock locks the cell of the concern; if it is dead it is found again.
func (c *concern) lock(r *Room) *cell {
	was := c.cell.Load()
	now := r.lock(was)
	if now != was {
		c.cell.Store(now)
	}
	return now
}

// matches remembers the matches of a plan, so that a call's limits are found by
// one look and not by a condition and a name for each. They end with the plan.
//
// It is a table of a fixed size that is read without a lock: each kind has a few
// places that it may have, and where all are taken it takes one of them from
// another, which is then matched anew.
type matches struct {
	seed     maphash.Seed
	subjects []func(*Subject) string // what makes a kind
	facts    []func(*condition.Input) string
	sets     [matchSets][matchWays]atomic.Pointer[match]
}

const (
	matchSets = 2048
	matchWays = 4
	// longestKind bounds what is remembered of a call, in bytes: a client may send
	// a model's name of any length.
	longestKind = 384
)

func newMatches(limits []limit) *matches {
	m := &matches{seed: maphash.MakeSeed()}
	dims := map[string]bool{}
	add := func(dim string) {
		if !dims[dim] {
			dims[dim] = true
			m.subjects = append(m.subjects, reader(dim))
		}
	}
	for _, dim := range ofOutputs {
		add(dim)
	}
	var fields condition.Fields
	for i := range limits {
		ru := limits[i].rule
		for _, dim := range ru.per {
			add(dim)
		}
		if ru.when != nil && ru.named() {
			fields |= ru.when.Uses()
		}
	}
	m.facts = fields.Names()
	return m
}

// appendKind writes what kind a call is of. It does not fit where it would be
// longer than the room that is given.
func (m *matches) appendKind(b []byte, s *Subject) (kind []byte, fits bool) {
	for _, read := range m.subjects {
		if b, fits = appendName(b, read(s)); !fits {
			return nil, false
		}
	}
	for _, read := range m.facts {
		if b, fits = appendName(b, read(s.Facts)); !fits {
			return nil, false
		}
	}
	return b, true
}

// appendName writes a name behind its length, so that names that follow each
// other cannot be taken for others.
func appendName(b []byte, name string) ([]byte, bool) {
	if len(b)+binary.MaxVarintLen64+len(name) > cap(b) {
		return nil, false
	}
	return append(binary.AppendUvarint(b, uint64(len(name))), name...), true
}

// of is the match of a call.
func (m *matches) of(r *Room, p *Plan, s *Subject) *match {
	if m == nil { // the zero Plan remembers nothing
		return r.match(p, s)
	}
	var room [longestKind]byte
	kind, fits := m.appendKind(room[:0], s)
	if !fits {
		return r.match(p, s)
	}
	hash := maphash.Bytes(m.seed, kind)
	set := &m.sets[hash%matchSets]
	for i := range set {
		if x := set[i].Load(); x != nil && x.hash == hash && x.kind == string(kind) {
			if !x.used.Load() {
				x.used.Store(true) // only the first time: the others would share the line for nothing
			}
			return x
		}
	}
	x := r.match(p, s)
	x.kind, x.hash = string(kind), hash
	x.used.Store(true)
	free(set).Store(x)
	return x
}

// free is a place of a set that is empty, or else any.
func free(set *[matchWays]atomic.Pointer[match]) *atomic.Pointer[match] {
	for i := range set {
		if set[i].Load() == nil {
			return &set[i]
		}
	}
	return &set[rand.IntN(matchWays)] //nolint:gosec // no secret
}

// sweep forgets what no call has needed since it was swept last.
func (m *matches) sweep() {
	if m == nil {
		return
	}
	for i := range m.sets {
		for j := range m.sets[i] {
			if x := m.sets[i][j].Load(); x != nil && !x.used.Swap(false) {
				m.sets[i][j].CompareAndSwap(x, nil)
			}
		}
	}
}

// match finds the limits that concern calls of the subject's kind, in the order
// of the plan, which is the order in which cells are locked.
func (r *Room) match(p *Plan, s *Subject) *match {
	m := &match{answers: r.outputs.of(s), concerns: make([]concern, 0, len(p.limits))}
	var last *rule
	concerned := false
	for i := range p.limits {
		l := &p.limits[i]
		asked := !l.rule.named()
		if l.rule != last {
			last, concerned = l.rule, asked || l.rule.concerns(s)
		}
		if concerned {
			m.concerns = append(m.concerns, concern{limit: l, asked: asked})
		}
	}
	return m
}
