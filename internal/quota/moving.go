package quota

import (
	"math"
	"sync/atomic"

	"github.com/headgate-ai/headgate/internal/fleet"
	"github.com/headgate-ai/headgate/internal/quota/adapt"
	"github.com/headgate-ai/headgate/internal/setting"
)

// cause is what a limit moves with.
type cause uint8

const (
	byLoad cause = iota
	byHealth
	byDecay
	byBurst
	causes // their number
)

// String names the cause in metrics and in the admin API.
func (c cause) String() string { return [...]string{"load", "health", "decay", "burst"}[c] }

// factors are what each cause multiplies a limit by; 1 where it has no part.
type factors [causes]float64

// unmoved is the product of no cause.
var unmoved = factors{1, 1, 1, 1}

// terms are one limit and what it moves with: a rule's own, or a profile's.
type terms struct {
	profile        string // "" is the rule's own
	version, model string // what the profile is for; "" is any
	bound          bound  // as configured, in whole requests
	load           *adapt.LoadRule
	health         bool
	decay          float64 // calls under way, 0 never
	burst          *adapt.BurstRule
}

// adaptation is how one limit moves. It is compiled with the plan; what it has
// come to outlasts plans in the moving.
type adaptation struct {
	own      terms
	profiles []terms
	fixed    string // the profile that holds in any case, "" is none
	watch    string
	moving   *moving
	now      atomic.Pointer[moved] // never nil
}

// moved is what holds of an adaptation. It never changes: requests load it.
type moved struct {
	terms   *terms
	factors factors
	factor  float64 // their product, within the bounds
	since   int64
}

// compileMoving is how the rule's limit on requests moves, nil if it does not.
func (r *Room) compileMoving(c *RuleConfig, id string, since int64) *adaptation {
	if !c.moves() {
		return nil
	}
	a := &adaptation{own: compileTerms(&c.Requests, &c.Adapt), fixed: c.Profile, watch: c.Watch, moving: r.adapting.get(id)}
	for i := range c.Profiles {
		f := &c.Profiles[i]
		t := compileTerms(&f.Requests, &f.Adapt)
		t.profile, t.version, t.model = f.Name, f.Version, f.Model
		a.profiles = append(a.profiles, t)
	}
	// It goes on from where the plan before it was.
	r.adapting.mu.Lock()
	defer r.adapting.mu.Unlock()
	t := a.named(a.moving.profile)
	a.publish(t, a.moving.factors, since)
	return a
}

func compileTerms(rate *RateConfig, c *AdaptConfig) terms {
	t := terms{bound: rate.moving(c), health: c.Health, decay: float64(c.Decay.Concurrent)}
	if l := c.Load; l != (LoadConfig{}) {
		t.load = &adapt.LoadRule{Min: perSecond(l.Min), Max: math.Inf(1), Reference: adapt.Load{QPS: l.QPS, Size: float64(l.Size), P95: l.P95.Std().Seconds()}}
		if !l.Max.IsZero() {
			t.load.Max = perSecond(l.Max)
		}
	}
	if c.Burst != (BurstConfig{}) {
		b := c.Burst.Default()
		t.burst = &adapt.BurstRule{Floor: b.Floor, Ceiling: b.Ceiling, P95: b.P95.Std().Seconds()}
	}
	return t
}

// named is the terms of a profile, the rule's own where there is none of that
// name.
func (a *adaptation) named(profile string) *terms {
	for i := range a.profiles {
		if profile != "" && a.profiles[i].profile == profile {
			return &a.profiles[i]
		}
	}
	return &a.own
}

// fitting is the terms for a provider of a version that is called for a model.
func (a *adaptation) fitting(s fleet.Seen) *terms {
	if a.fixed != "" {
		return a.named(a.fixed)
	}
	for i := range a.profiles {
		t := &a.profiles[i]
		if (t.version != "" || t.model != "") && fits(t.version, s.Version) && fits(t.model, s.Model) {
			return t
		}
	}
	return &a.own
}

func fits(pattern, name string) bool {
	return pattern == "" || name != "" && setting.Match(pattern, name)
}

// publish makes terms and factors hold since a time.
func (a *adaptation) publish(t *terms, f factors, since int64) {
	a.now.Store(&moved{terms: t, factors: t.only(f), factor: t.product(f), since: since})
}

// only leaves out the causes that have no part in the terms.
func (t *terms) only(f factors) factors {
	for c, has := range t.has() {
		if !has {
			f[c] = 1
		}
	}
	return f
}

// has is which causes have a part.
func (t *terms) has() [causes]bool {
	return [causes]bool{t.load != nil, t.health, t.decay > 0, t.burst != nil}
}

// product is all factors together, within floor and ceiling where there are any.
func (t *terms) product(f factors) float64 {
	p := 1.0
	for _, v := range t.only(f) {
		p *= v
	}
	if t.burst != nil {
		p = min(max(p, t.burst.Floor), t.burst.Ceiling)
	}
	return p
}

// apply is the bound that holds: the terms' or what operators have set, moved.
func (a *adaptation) apply(set bound, overridden bool, since int64) (bound, int64) {
	m := a.now.Load()
	b := m.terms.bound
	if overridden {
		b = set
	}
	return m.terms.scaled(b, m.factor), max(since, m.since)
}

// scaled is a bound times a factor, in thousandths of a request: its rate and its
// burst move alike. No factor makes it so small that nothing would pass for good.
func (t *terms) scaled(b bound, factor float64) bound {
	whole := float64(b.count) * fineness
	count := whole * factor
	least := 1.0
	if t.load != nil {
		each := fineness * float64(b.period) / 1e9
		count = min(max(count, t.load.Min*each), t.load.Max*each)
		least = min(leastLoadBurst, float64(b.burst))
		if t.load.Reference.Size > 0 {
			least = max(least, largestCost)
		}
	}
	count = min(max(1, math.Round(count)), mostFine)
	b.burst = int64(min(math.Round(max(least, float64(b.burst)*count/whole)*fineness), mostFine))
	b.count, b.fine = int64(count), true
	return b
}

// mostFine keeps what is counted in thousandths far from where it would overflow:
// operators may set more than the configuration can.
const mostFine = 1 << 56

// cost is what a request with a body of so many bytes takes, in thousandths.
func (a *adaptation) cost(bytes int64) int64 {
	load := a.now.Load().terms.load
	if load == nil || load.Reference.Size <= 0 {
		return fineness
	}
	return int64(math.Round(load.Cost(float64(bytes)) * fineness))
}

// perSecond is a rate in a second.
func perSecond(r setting.Rate) float64 {
	if r.IsZero() {
		return 0
	}
	return float64(r.Count) / r.Period.Seconds()
}
