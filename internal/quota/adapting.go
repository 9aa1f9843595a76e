package quota

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-ai/headgate/internal/fleet"
	"github.com/headgate-ai/headgate/internal/quota/adapt"
	"github.com/headgate-ai/headgate/internal/setting"
)

// adapting keeps what limits that move have come to, by the limit's id. It lives
// as long as the room, so that a reload changes nothing about it.
type adapting struct {
	mu sync.Mutex // held for a step, and while a plan is compiled
	of map[string]*moving
}

func (a *adapting) get(id string) *moving {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[string]*moving{}
	}
	m := a.of[id]
	if m == nil {
		m = &moving{factors: unmoved, recorded: 1}
		a.of[id] = m
	}
	return m
}

// moving is what is known of one limit that moves.
type moving struct {
	// underWay are the calls that hold of it, bytes the bodies of those that were
	// let through; calls write them.
	underWay, bytes atomic.Int64

	// The rest belongs to the step.
	at        int64   // of the last step, 0 before the first
	tally     tally   // at the last step
	qps, size float64 // means that weigh the latest second by a half
	burst     adapt.Burst
	factors   factors
	profile   string // in force; "" is the rule's own limit

	// What was put on record last.
	was             Override
	recorded        float64 // the burst's factor
	recordedProfile string
	recordedAt      int64
}

// tally is what was counted of the calls of a limit so far.
type tally struct{ admitted, refused, shadowed, bytes int64 }

// Adaptation is a change of a limit by itself that belongs on record.
type Adaptation struct {
	Rule, Dimension string
	Was, Is         Override
	Reason          string
}

const (
	// worthRecord is by which part the burst's factor has to change to be put on
	// record, and recordEvery how often one limit can be.
	worthRecord = 0.1
	recordEvery = int64(10 * time.Second)
	// longestStep bounds what a step makes up for, in seconds.
	longestStep = 10
)

// Adapts is whether a limit of the plan moves: then the pulses of the providers
// must be kept, and Adapt be called each second.
func (p *Plan) Adapts() bool { return p.adapts }

// Adapt moves the limits of the plan by what was seen: of the calls that they
// concern, and of the provider that each of them watches, where "" is all
// providers together. It returns what belongs on record.
func (r *Room) Adapt(p *Plan, see func(provider string) fleet.Seen, now time.Time) (all []Adaptation) {
	r.adapting.mu.Lock()
	defer r.adapting.mu.Unlock()
	at := r.at(now)
	for i := range p.limits {
		if l := &p.limits[i]; l.adapts != nil {
			if a, ok := l.step(see(l.adapts.watch), at); ok {
				all = append(all, a)
			}
		}
	}
	return all
}

// shown is what the calls of a limit showed since the last step.
type shown struct{ admitted, tripped, seconds float64 }

// measure takes up what was counted since the last step.
func (m *moving) measure(c *Count, at int64) shown {
	seconds := 1.0
	if m.at > 0 {
		seconds = min(float64(at-m.at)/1e9, longestStep)
	}
	now := tally{c.Admitted.Load(), c.Refused.Load(), c.Shadowed.Load(), m.bytes.Load()}
	was, first := m.tally, m.at == 0
	m.at, m.tally = at, now
	if first || seconds <= 0 {
		return shown{seconds: max(seconds, 0)} // what was counted before may be of any age
	}
	admitted := float64(now.admitted - was.admitted) // by a shadow limit, too
	refused := float64(now.refused - was.refused)
	weight := 1 - math.Exp2(-seconds)
	m.qps = smooth(m.qps, (admitted+refused)/seconds, weight)
	if admitted > 0 {
		m.size = smooth(m.size, float64(now.bytes-was.bytes)/admitted, weight)
	}
	return shown{admitted, refused + float64(now.shadowed-was.shadowed), seconds}
}

// smooth moves a mean towards a value; the first value is the mean.
func smooth(mean, v, weight float64) float64 {
	if mean == 0 {
		return v
	}
	return mean + (v-mean)*weight
}

// step moves one limit, and is whether that belongs on record.
func (l *limit) step(seen fleet.Seen, at int64) (Adaptation, bool) {
	a := l.adapts
	m := a.moving
	s := m.measure(l.count, at)
	t := a.fitting(seen)
	set, _, overridden := l.set(0, at)
	if !overridden {
		set = t.bound
	}
	m.factors = m.judge(t, set, seen, s)
	m.profile = t.profile
	if was := a.now.Load(); was.terms != t || was.factors != t.only(m.factors) {
		a.publish(t, m.factors, at)
	}
	return m.record(l, set, seen, s, at)
}

// judge is what each cause makes of a limit now. Causes that the terms do not
// have keep where they are: a profile may have them again.
func (m *moving) judge(t *terms, set bound, seen fleet.Seen, s shown) factors {
	f := m.factors
	if t.load != nil {
		rule := *t.load
		rule.Base = set.perSecond()
		rate, _ := rule.Rate(adapt.Load{QPS: m.qps, Size: m.size, P95: seen.P95})
		f[byLoad] = rate / rule.Base
	}
	if t.health {
		f[byHealth] = adapt.Slew(f[byHealth], adapt.Health(seen.Health), s.seconds)
	}
	if t.decay > 0 {
		f[byDecay] = adapt.Decay(float64(m.underWay.Load()), t.decay)
	}
	if t.burst != nil {
		m.burst = m.burst.Next(*t.burst, adapt.Seen{Admitted: s.admitted, Refused: s.tripped, P95: seen.P95, Errors: seen.Errors})
		f[byBurst] = m.burst.Factor()
	}
	return f
}

// record is what to put on record of a step: a change of the profile, and of the
// burst's factor by a tenth or more, at most one of a limit in ten seconds.
func (m *moving) record(l *limit, set bound, seen fleet.Seen, s shown, at int64) (Adaptation, bool) {
	is := l.adapts.now.Load()
	factor := is.factors[byBurst]
	if m.recordedAt == 0 {
		m.was, m.recordedAt = l.bound.spelled(l), at-recordEvery
	}
	other := m.profile != m.recordedProfile
	if at-m.recordedAt < recordEvery || !other && math.Abs(factor/m.recorded-1) < worthRecord {
		return Adaptation{}, false
	}
	x := Adaptation{Rule: l.rule.name, Dimension: l.dimension.String(), Was: m.was, Is: is.terms.scaled(set, is.factor).spelled(l)}
	x.Reason = fmt.Sprintf("burst times %.2f, before %.2f: %.0f calls refused in the last second; 95 of 100 answers of the providers began within %.3f s, %.1f %% failed",
		factor, m.recorded, s.tripped/max(s.seconds, 1), seen.P95, 100*seen.Errors)
	if other {
		x.Reason = fmt.Sprintf("profile %s, before %s: the provider's version is %q and its model %q; %s", orOwn(m.profile), orOwn(m.recordedProfile), seen.Version, seen.Model, x.Reason)
	}
	m.recorded, m.recordedProfile, m.recordedAt, m.was = factor, m.profile, at, x.Is
	return x, true
}

// orOwn names a profile in a sentence.
func orOwn(profile string) string {
	if profile == "" {
		return "none"
	}
	return profile
}

// Adapted is how a limit moves, for metrics and for operators.
type Adapted struct {
	// Rate and Burst are what is declared: by the rule, its profile or operators.
	Rate  setting.Rate `json:"rate"`
	Burst int64        `json:"burst"`
	// Profile is the one that is in force, "" is none.
	Profile string `json:"profile,omitempty"`
	// Factors are what each cause that is configured multiplies the limit by.
	Factors map[string]float64 `json:"factors"`
}

// adapted describes a limit that moves; nil if it does not.
func (l *limit) adapted(at int64) *Adapted {
	if l.adapts == nil {
		return nil
	}
	m := l.adapts.now.Load()
	b, _, overridden := l.set(0, at)
	if !overridden {
		b = m.terms.bound
	}
	v := &Adapted{Rate: setting.Rate{Count: b.count, Period: time.Duration(b.period)}, Burst: b.burst, Profile: m.terms.profile, Factors: map[string]float64{}}
	for c, has := range m.terms.has() {
		if has {
			v.Factors[cause(c).String()] = m.factors[c]
		}
	}
	return v
}
