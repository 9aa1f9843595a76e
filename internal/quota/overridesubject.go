package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headgate-ai/headgate/internal/llm"
)

// An override for one subject lies with the subject's cell, where a call finds
// it without looking. The cell stays in the table until the override is over.

// mostSubjects bounds how many subjects have overrides of their own: each keeps
// its cell.
const mostSubjects = 1000

// of is what the override is of, to sort by: the limit, and the subject.
func (o *Override) of() string {
	t := o.Rule + "/" + o.Dimension
	for _, dim := range slices.Sorted(maps.Keys(o.Subject)) {
		t += "|" + dim + "=" + o.Subject[dim]
	}
	return t
}

// over is whether it does not hold any more.
func (o *overridden) over(now int64) bool { return o == nil || now >= o.until }

// boundOf is the bound that holds for the cell's subject, and since when: its own,
// if operators have set one; else b, which all of the limit have.
func (c *cell) boundOf(l *limit, b bound, since, now int64) (bound, int64) {
	o := c.override.Load()
	switch {
	case o == nil:
		return b, since
	case o.over(now):
		return b, max(since, o.until)
	}
	own := o.bound
	own.algorithm = l.bound.algorithm // a reload may have changed it
	if l.adapts != nil {
		return l.adapts.apply(own, true, o.since)
	}
	return own, o.since
}

// subject is the one that an override names by what the limit is kept by.
func (l *limit) subject(named map[string]string) (*Subject, error) {
	if len(l.rule.per) == 0 {
		return nil, fmt.Errorf("%w: the rule %q is kept for all calls together; leave the subject out", errOverride, l.rule.name)
	}
	kept := strings.Join(l.rule.per, ", ")
	for _, dim := range l.rule.per {
		if _, ok := named[dim]; !ok {
			return nil, fmt.Errorf("%w: the rule %q is kept by %s, and the subject has no %s; name all of them; who has none has \"\"", errOverride, l.rule.name, kept, dim)
		}
	}
	s := &Subject{
		Principal: llm.Principal{Key: named["key"], Tenant: named["tenant"], User: named["user"]},
		Model:     named["model"], Provider: named["provider"], Region: named["region"], IP: named["ip"], Claims: map[string]any{},
	}
	for dim, value := range named {
		if !slices.Contains(l.rule.per, dim) {
			return nil, fmt.Errorf("%w: the rule %q is not kept by %q; it is kept by %s", errOverride, l.rule.name, dim, kept)
		}
		if claim, ok := strings.CutPrefix(dim, "claim:"); ok {
			s.Claims[claim] = value
		}
	}
	return s, nil
}

// setSubject puts an override on its subject's cell, and returns what held there
// before. The overrides are locked.
func (r *Room) setSubject(l *limit, since, at int64, x *overridden) (held bound, err error) {
	s, err := l.subject(x.Subject)
	if err != nil {
		return held, err
	}
	key := l.appendKey(nil, s)
	if r.overrides.subjects[string(key)] == nil && r.overrides.prune(at) >= mostSubjects {
		return held, fmt.Errorf("%w: %d subjects have a bound of their own; reset some, or set the rule's", errOverride, mostSubjects)
	}
	all, since := l.effective(since, at)
	c := r.lock(r.cells.find(key))
	defer c.mu.Unlock()
	held, _ = c.boundOf(l, all, since, at)
	c.override.Store(x)
	r.overrides.subjects[string(key)] = c
	return held, nil
}

// prune forgets the subjects whose overrides are over, and is how many are left.
// The overrides are locked.
func (o *overrides) prune(at int64) int {
	maps.DeleteFunc(o.subjects, func(_ string, c *cell) bool { return c.override.Load().over(at) })
	return len(o.subjects)
}
