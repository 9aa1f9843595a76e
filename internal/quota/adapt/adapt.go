// Package adapt moves limits with the state of what they protect: with the load,
// with the health of the providers, with how many calls are under way. Each
// function takes what was measured and says what limit follows; it measures
// nothing itself. The room quota uses it.
package adapt

import "math"

// Load is what a limit that follows the load goes by.
type Load struct {
	QPS  float64 // requests a second
	Size float64 // mean size of a request body, in bytes
	P95  float64 // 95th percentile of the providers' response time, in seconds
}

// LoadRule is a limit that follows the load: Base requests a second at the
// reference load, fewer under more. A reference of 0 leaves its part out.
type LoadRule struct {
	Base, Min, Max float64
	Reference      Load
}

// The bounds of the parts. Beyond them a measurement says nothing that is worth
// a larger step.
const (
	leastSize, mostSize       = 0.1, 2.0
	leastLatency, mostLatency = 0.5, 3.0
	leastQPS, mostQPS         = 0.5, 2.0
	leastBurst                = 5
)

// Rate is the requests a second, and Burst how many can come at once.
func (r LoadRule) Rate(now Load) (rate, burst float64) {
	s := part(now.Size, r.Reference.Size, leastSize, mostSize)
	l := part(now.P95, r.Reference.P95, leastLatency, mostLatency)
	q := part(now.QPS, r.Reference.QPS, leastQPS, mostQPS)
	rate = clamp(r.Base/(s*l*q), r.Min, r.Max)
	return rate, max(leastBurst, 2*rate)
}

// Cost is what one request of a size takes of the limit: a large body more.
func (r LoadRule) Cost(size float64) float64 {
	return part(size, r.Reference.Size, leastSize, mostSize)
}

// part is a measurement in terms of its reference, within bounds. What was not
// measured counts as the reference.
func part(v, reference, low, high float64) float64 {
	if !(reference > 0) || !(v > 0) {
		return 1
	}
	return clamp(v/reference, low, high)
}

func clamp(v, low, high float64) float64 {
	if math.IsNaN(v) {
		return low
	}
	return min(max(v, low), high)
}

// Health is the part of a limit that holds at a health from 0 to 1: half of it
// at 0, all of it at 1. So a fixed limit is not tripped by a provider that is
// only a little slow, and one that fails is spared. What is no number counts as
// 0.
func Health(score float64) float64 { return 0.5 + 0.5*clamp(score, 0, 1) }

// slew is how far a factor may move in a second, as a part of itself.
const slew = 0.1

// Slew moves a factor towards a target, at most a tenth of it a second, so that
// a limit and what it protects do not set each other swinging.
func Slew(factor, target, seconds float64) float64 {
	step := factor * slew * max(0, seconds)
	return clamp(target, factor-step, factor+step)
}

const (
	// decayFrom is the part of the bound on concurrency at which limits begin to
	// decay; leastDecay and mostDecay are by how much, there and at the bound.
	decayFrom             = 0.8
	leastDecay, mostDecay = 0.12, 0.18
)

// Decay is the part of a limit that holds while so many calls are under way, of
// at most capacity: all of it up to four fifths, then 88 % falling to 82 %.
func Decay(underWay, capacity float64) float64 {
	if !(capacity > 0) || !(underWay > decayFrom*capacity) {
		return 1
	}
	along := clamp((underWay/capacity-decayFrom)/(1-decayFrom), 0, 1)
	return 1 - (leastDecay + along*(mostDecay-leastDecay))
}
