package quota

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
)

// State is how one limit stands for one subject.
type State struct {
	Standing
	Dimension string
	// Budget is whether it is a budget: then Reset is when its period ends.
	Budget bool
	Shadow bool
}

// Amount is a number of the limit as a program should see it: dollars where
// it counts money.
func (s *State) Amount(n int64) any {
	if s.Dimension == money.String() {
		return llm.Money(n)
	}
	return n
}

// Stand lists how a subject stands against every limit that concerns it. It
// takes nothing.
func (r *Room) Stand(p *Plan, s *Subject, now time.Time) []State {
	var all []State
	at := r.at(now)
	for i := range p.limits {
		l := &p.limits[i]
		b, since, ok := l.boundAt(s, p.since, at)
		if !ok || !l.rule.concerns(s) {
			continue
		}
		c := r.cells.peek(l.appendKey(nil, s))
		if c == nil {
			c = new(cell)
		}
		b, since = c.boundOf(l, b, since, at)
		c.mu.Lock()
		all = append(all, l.stand(c, b, since, at))
		c.mu.Unlock()
	}
	return all
}

// stand is how a limit stands. It changes nothing that another bound could tell.
func (l *limit) stand(c *cell, b bound, since, now int64) State {
	st := State{Dimension: l.dimension.String(), Budget: l.budget != nil, Shadow: l.rule.shadow}
	st.Rule = l.rule.name
	if g := l.budget; g != nil {
		g.turn(&c.state, now)
		st.Limit, st.Remaining, st.Reset = g.limit, max(0, (&taken{limit: l, cell: c}).left()), time.Duration(c.state.purse.until-now)
		return st
	}
	c.under(b, since, now)
	t := taken{limit: l, cell: c}
	st.Standing = t.standing(now)
	return st
}

// Restore sets what has been used of budgets' periods that are still running,
// as the ledger kept it. It is called before the first call.
func (r *Room) Restore(p *Plan, scope string, period, used int64, now time.Time) {
	for i := range p.limits {
		l := &p.limits[i]
		if l.budget == nil || !l.names(scope) {
			continue
		}
		c := r.cells.find([]byte(scope))
		c.mu.Lock()
		c.under(l.bound, p.since, r.at(now))
		l.budget.restore(&c.state, period*int64(time.Second), used, r.at(now))
		c.mu.Unlock()
	}
}

// names is whether a cell's key is one that appendKey writes for the limit. One
// that was written when the budget was kept by something else is not: no call
// would find it.
func (l *limit) names(key string) bool {
	if idOf(key) != l.id {
		return false
	}
	parts := strings.Split(key, "|")[1:]
	return slices.EqualFunc(parts, l.rule.per, func(part, dim string) bool { return strings.HasPrefix(part, dim+"=") })
}

// Level is how full the cells of one limit are, all together, for metrics.
type Level struct {
	Rule, Dimension string
	sum
	// Budget is whether it is a budget, and Own whether the bound is what each
	// credential brings; else Rate and Burst are the bound of each cell.
	Budget, Own bool
	Rate        setting.Rate
	Burst       int64
	// Overridden is whether operators have set the bound.
	Overridden bool
	// Adapted is how the limit moves, nil where it stands still.
	Adapted                        *Adapted
	Admitted, Refused, WouldRefuse int64
}

// Levels sums the cells of each limit. Where there are very many of them the
// sums may be some seconds old; the rest is as it stands now.
func (r *Room) Levels(p *Plan, now time.Time) []Level {
	levels, at := make([]Level, len(p.limits)), r.at(now)
	for i, sum := range r.sums.of(r, p, now) {
		levels[i] = p.limits[i].level(at)
		levels[i].sum = sum
	}
	return levels
}

// sum is what the cells of one limit come to, all together.
type sum struct {
	Cells               int
	Capacity, Available int64
	PerSecond           float64 // what comes back in a second, in all cells
}

// A look at all cells takes half a second for a million. Where they are more than
// summedAnew, it is made so seldom that it takes a processor's twentieth, however
// often someone asks.
const (
	summedAnew  = 100_000
	sparingness = 20
)

// sums are those of the latest look at all cells.
type sums struct {
	mu    sync.Mutex // held during a look, so that those who ask at once share it
	plan  *Plan
	until time.Time // from when on there is to be another
	all   []sum
}

func (s *sums) of(r *Room, p *Plan, now time.Time) []sum {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plan == p && now.Before(s.until) {
		return s.all
	}
	begun := time.Now()
	s.plan, s.all = p, r.sum(p, r.at(now))
	s.until = time.Time{}
	if r.cells.len() > summedAnew {
		s.until = now.Add(sparingness * time.Since(begun))
	}
	return s.all
}

// sum looks at all cells.
func (r *Room) sum(p *Plan, at int64) []sum {
	all := make([]sum, len(p.limits))
	index := make(map[string]int, len(p.limits))
	for i := range p.limits {
		index[p.limits[i].id] = i
	}
	r.cells.each(func(c *cell) {
		i, ok := index[idOf(c.key)]
		if !ok {
			return
		}
		l := &p.limits[i]
		if l.own == nil && l.budget == nil {
			b, since := l.effective(p.since, at)
			b, since = c.boundOf(l, b, since, at)
			c.under(b, since, at) // the next call would do so, too
		}
		all[i].add(l, c, at)
	})
	return all
}

// level is a limit without any cells.
func (l *limit) level(at int64) Level {
	v := Level{
		Rule: l.rule.name, Dimension: l.dimension.String(), Budget: l.budget != nil, Own: l.own != nil,
		Admitted: l.count.Admitted.Load(), Refused: l.count.Refused.Load(), WouldRefuse: l.count.Shadowed.Load(),
	}
	if !v.Budget && !v.Own {
		b, _ := l.effective(0, at)
		v.Rate, v.Burst, v.Adapted = b.rate(), b.burst/b.unit(), l.adapted(at)
		v.Overridden = !l.override.Load().over(at)
	}
	return v
}

func (v *sum) add(l *limit, c *cell, now int64) {
	v.Cells++
	t := taken{limit: l, cell: c}
	if g := l.budget; g != nil {
		g.turn(&c.state, now)
		v.Capacity += g.limit
		v.Available += max(0, t.left())
		return
	}
	b, st := t.whole(), t.standing(now)
	v.Capacity += st.Limit
	v.Available += st.Remaining
	if b.period > 0 {
		v.PerSecond += b.perSecond()
	}
}

// idOf is the limit that a cell's key begins with.
func idOf(key string) string {
	for i := range len(key) {
		if key[i] == '|' {
			return key[:i]
		}
	}
	return key
}

// Top is a subject of a limit and how much it has used.
type Top struct {
	Cell        string
	Limit, Used int64
	UnderWay    int // calls that are not settled
}

// Top lists the cells that have used most, in proportion to their limit.
func (r *Room) Top(p *Plan, n int, now time.Time) []Top {
	index := make(map[string]*limit, len(p.limits))
	for i := range p.limits {
		index[p.limits[i].id] = &p.limits[i]
	}
	at := r.at(now)
	var top []Top
	r.cells.each(func(c *cell) {
		l := index[idOf(c.key)]
		if l == nil {
			return
		}
		var v sum
		v.add(l, c, at)
		top = append(top, Top{c.key, v.Capacity, v.Capacity - v.Available, int(c.holds)})
		if len(top) > 4*n+64 {
			top = most(top, n)
		}
	})
	return most(top, n)
}

func most(top []Top, n int) []Top {
	slices.SortFunc(top, func(a, b Top) int {
		x, y := float64(a.Used)*float64(b.Limit), float64(b.Used)*float64(a.Limit)
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return top[:min(n, len(top))]
}
