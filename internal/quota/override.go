package quota

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-ai/headgate/internal/setting"
)

// Override is a bound that operators have put in the place of the
// configuration's, for one limit of a rule. It outlasts reloads, and ends when
// it is withdrawn, at its time, or with the process.
type Override struct {
	Rule string `json:"rule"`
	// Dimension is requests, tokens, input_tokens, output_tokens or concurrent;
	// "" is the rule's only one.
	Dimension string `json:"dimension"`
	// Subject is the one that it is for, by everything that the rule is kept by,
	// such as key and tenant; nil is for every subject of the rule.
	Subject map[string]string `json:"subject,omitempty"`
	// Rate is so many in a period; none for the dimension concurrent.
	Rate setting.Rate `json:"rate,omitzero"`
	// Burst is how many can come at once; 0 is the rate's number. For the
	// dimension concurrent it is how many may be under way.
	Burst int64 `json:"burst,omitzero"`
	// Until is when it ends by itself; the zero time is never.
	Until time.Time `json:"until,omitzero"`
}

// overridden is the override of one limit. It never changes. After its end it
// still says since when the configuration's bound holds again, so that what a
// cell regained meanwhile is reckoned by the bound that held then.
type overridden struct {
	Override
	bound        bound // the algorithm is the configuration's
	since, until int64
}

// overrides are those of the room by the limit's id. The pointers live as long
// as the room; every plan's limits hold them, so that a request finds its own
// with one load. Those of single subjects are with their cells.
type overrides struct {
	mu       sync.Mutex
	of       map[string]*atomic.Pointer[overridden]
	subjects map[string]*cell // by the cell's key
}

func newOverrides() *overrides {
	return &overrides{of: map[string]*atomic.Pointer[overridden]{}, subjects: map[string]*cell{}}
}

func (o *overrides) get(id string) *atomic.Pointer[overridden] {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.of[id]
	if p == nil {
		p = new(atomic.Pointer[overridden])
		o.of[id] = p
	}
	return p
}

// boundAt is the bound for a subject at a time, and since when it holds.
func (l *limit) boundAt(s *Subject, planned, now int64) (b bound, since int64, ok bool) {
	switch {
	case l.own != nil:
		b, ok = l.own(s)
		return b, planned, ok
	case l.adapts == nil && l.override.Load() == nil: // as most are, and most of the time
		return l.bound, planned, true
	}
	b, since = l.effective(planned, now)
	return b, since, true
}

// effective is the bound that holds at a time and since when: the override's, or
// the configuration's, which has held since planned; and where the limit moves,
// what that has come to.
func (l *limit) effective(planned, now int64) (bound, int64) {
	b, since, overridden := l.set(planned, now)
	if l.adapts != nil {
		return l.adapts.apply(b, overridden, since)
	}
	return b, since
}

// set is the bound that is set at a time and since when: the override's, or the
// configuration's.
func (l *limit) set(planned, now int64) (b bound, since int64, overridden bool) {
	o := l.override.Load()
	switch {
	case o == nil:
		return l.bound, planned, false
	case o.over(now):
		return l.bound, max(planned, o.until), false
	}
	b = o.bound
	b.algorithm = l.bound.algorithm // a reload may have changed it
	return b, o.since, true
}

// errOverride begins every refusal of an override.
var errOverride = errors.New("the limit cannot be set")

// Check completes an override by its dimension, and says why it cannot be set.
func (p *Plan) Check(o Override, now time.Time) (Override, error) {
	l, err := p.overridable(o.Rule, o.Dimension)
	if err != nil {
		return o, err
	}
	o.Dimension = l.dimension.String()
	if o.Subject != nil {
		if _, err := l.subject(o.Subject); err != nil {
			return o, err
		}
	}
	if !o.Until.IsZero() && !o.Until.After(now) {
		return o, fmt.Errorf("%w: it would have ended at %s; name a time to come", errOverride, o.Until.Format(time.RFC3339))
	}
	if l.dimension == concurrent {
		if !o.Rate.IsZero() || o.Burst <= 0 || o.Burst > setting.MaxCount {
			return o, fmt.Errorf("%w: of the dimension concurrent only the burst can be set, to how many calls may be under way at once", errOverride)
		}
		return o, nil
	}
	var problems setting.Problems
	c := RateConfig{Rate: o.Rate, Burst: o.Burst}
	if c.validate("limit", &problems); o.Rate.IsZero() && len(problems) == 0 {
		problems.Add("limit.rate", "is missing; write so many in a period, such as 100/s or 600/min")
	}
	for _, one := range problems {
		return o, fmt.Errorf("%w: %s %s", errOverride, strings.TrimPrefix(one.Path, "limit."), one.Message)
	}
	return o, nil
}

// overridable is the limit of a rule and dimension, if operators may set it.
func (p *Plan) overridable(rule, dimension string) (*limit, error) {
	var found []*limit
	var known, dimensions []string
	for i := range p.limits {
		l := &p.limits[i]
		if l.own != nil || l.budget != nil {
			continue
		}
		if !slices.Contains(known, l.rule.name) {
			known = append(known, l.rule.name)
		}
		if l.rule.name == rule {
			dimensions = append(dimensions, l.dimension.String())
			if dimension == "" || dimension == l.dimension.String() {
				found = append(found, l)
			}
		}
	}
	switch {
	case len(known) == 0:
		return nil, fmt.Errorf("%w: the configuration has no rules; budgets and what credentials bring are not set here", errOverride)
	case len(dimensions) == 0:
		return nil, fmt.Errorf("%w: there is no rule %q; known rules are %s", errOverride, rule, strings.Join(known, ", "))
	case len(found) == 0:
		return nil, fmt.Errorf("%w: the rule %q does not limit %q; it limits %s", errOverride, rule, dimension, strings.Join(dimensions, ", "))
	case len(found) > 1:
		return nil, fmt.Errorf("%w: the rule %q limits %s; name one of them as dimension", errOverride, rule, strings.Join(dimensions, ", "))
	}
	return found[0], nil
}

// Override puts a bound in the place of a limit's, for all of its subjects or for
// one, for calls from now on. A subject's own goes before that of all. What
// has been used stays used, so that no change grants a burst anew. It returns
// what held before, and the override as it was completed.
func (r *Room) Override(p *Plan, o Override, now time.Time) (was, is Override, err error) {
	if o, err = p.Check(o, now); err != nil {
		return was, o, err
	}
	l, err := p.overridable(o.Rule, o.Dimension)
	if err != nil {
		return was, o, err
	}
	at := r.at(now)
	x := &overridden{Override: o, since: at, until: math.MaxInt64}
	if !o.Until.IsZero() {
		x.until = at + min(int64(o.Until.Sub(now)), math.MaxInt64-at)
	}
	if x.bound = (bound{algorithm: algConcurrent, burst: o.Burst}); l.dimension != concurrent {
		x.bound = (&RateConfig{Rate: o.Rate, Burst: o.Burst}).bound()
	}
	r.overrides.mu.Lock()
	defer r.overrides.mu.Unlock()
	var held bound
	if o.Subject == nil {
		held, _, _ = l.set(p.since, at)
		l.override.Store(x)
	} else if held, err = r.setSubject(l, p.since, at, x); err != nil {
		return was, o, err
	}
	was = held.spelled(l)
	was.Subject = o.Subject
	return was, o, nil
}

// Withdraw ends the overrides of a rule and returns them: of all its dimensions
// if dimension is "", of all its subjects if subject is nil.
func (r *Room) Withdraw(rule, dimension string, subject map[string]string, now time.Time) (ended []Override) {
	at := r.at(now)
	r.overrides.mu.Lock()
	defer r.overrides.mu.Unlock()
	for p := range r.overrides.held(at) {
		o := p.Load()
		if !o.Covered(rule, dimension, subject) {
			continue
		}
		x := *o
		x.until = at
		p.Store(&x)
		ended = append(ended, o.Override)
	}
	sortOverrides(ended)
	return ended
}

// Covered is whether the override is one of those that Withdraw would end.
func (o *Override) Covered(rule, dimension string, subject map[string]string) bool {
	return o.Rule == rule && (dimension == "" || dimension == o.Dimension) && (subject == nil || maps.Equal(subject, o.Subject))
}

// held are those that hold, of all subjects and of single ones. The overrides
// are locked.
func (o *overrides) held(at int64) iter.Seq[*atomic.Pointer[overridden]] {
	return func(yield func(*atomic.Pointer[overridden]) bool) {
		for _, p := range o.of {
			if !p.Load().over(at) && !yield(p) {
				return
			}
		}
		for _, c := range o.subjects {
			if !c.override.Load().over(at) && !yield(&c.override) {
				return
			}
		}
	}
}

// Overrides lists those that hold, by what they are of.
func (r *Room) Overrides(now time.Time) []Override {
	all := []Override{}
	r.overrides.mu.Lock()
	defer r.overrides.mu.Unlock()
	at := r.at(now)
	r.overrides.prune(at)
	for p := range r.overrides.held(at) {
		all = append(all, p.Load().Override)
	}
	sortOverrides(all)
	return all
}

func sortOverrides(all []Override) {
	slices.SortFunc(all, func(a, b Override) int {
		return strings.Compare(a.of(), b.of())
	})
}

// spelled is a bound as an override would say it.
func (b bound) spelled(l *limit) Override {
	return Override{Rule: l.rule.name, Dimension: l.dimension.String(), Rate: b.rate(), Burst: b.burst / b.unit()}
}

// Cells is how many subjects' counts are kept.
func (r *Room) Cells() int { return r.cells.len() }
