package adapt

// Seen is what a burst controller goes by: what one period showed.
type Seen struct {
	// Refused and Admitted are the calls that the limit refused and let through.
	Refused, Admitted float64
	// P95 is the providers' response time in seconds, Errors the part of the
	// calls that they failed.
	P95, Errors float64
}

// BurstRule is a limit that grows while there is demand and headroom, and
// shrinks when there is no headroom: additive at ease, multiplicative in need
// (AIMD; Chiu and Jain 1989), with one exception: while calls are refused and
// the providers are well, it grows by a third each period, as a spike does not
// wait.
type BurstRule struct {
	// Floor and Ceiling bound the factor on the configured limit.
	Floor, Ceiling float64
	// P95 is the response time in seconds that the providers must keep to.
	P95 float64
}

// Burst is the controller's state: the factor on the limit. The zero Burst is 1.
type Burst struct {
	factor float64
	errors float64 // of the period before
	calm   int     // periods without a refusal
}

const (
	growth    = 1.33
	back      = 0.7
	ease      = 0.05
	fewErrors = 0.01 // that no one calls a trend
	calmAfter = 10   // periods after which a limit that nobody needs goes back
)

// Factor is what the configured limit is multiplied by.
func (b Burst) Factor() float64 {
	if b.factor == 0 {
		return 1
	}
	return b.factor
}

// Next is the state after one more period.
func (b Burst) Next(r BurstRule, s Seen) Burst {
	f := b.Factor()
	rising := s.Errors > fewErrors && s.Errors > b.errors
	slow := r.P95 > 0 && s.P95 > r.P95
	switch {
	case slow || s.Errors > 5*fewErrors:
		f *= back
		b.calm = 0
	case rising:
		b.calm = 0 // wait and see
	case s.Refused > 0:
		f *= growth
		b.calm = 0
	default:
		if b.calm++; b.calm > calmAfter && f > 1 {
			f = max(1, f-ease)
		} else if f < 1 {
			f = min(1, f+ease)
		}
	}
	b.factor, b.errors = clamp(f, r.Floor, r.Ceiling), s.Errors
	return b
}
