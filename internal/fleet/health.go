package fleet

// The health of a provider: what takes of it, and how much.
const (
	// allFailing is the part of failed calls at which nothing is left of it.
	allFailing = 0.5
	// Up to slowFrom times its usual time a provider is not slow; at slowTo times
	// nothing is left.
	slowFrom, slowTo = 1.5, 4.5
	// leastUsual is the least that is taken for the usual time, in seconds: below
	// it a provider can be many times as slow and nobody notices.
	leastUsual = 0.05
)

// Health is a number from 0 to 1 for how well a provider is: 1 when none of its
// calls fail and they take no longer than one and a half times the usual; 0 when
// half of them fail, or when they take four and a half times as long. Between,
// both parts fall evenly, and multiply. Times are in seconds; one that is not
// known takes nothing away.
func Health(errors, p95, usual float64) float64 {
	h := within(1 - errors/allFailing)
	if p95 > 0 && usual > 0 {
		h *= within((slowTo - p95/max(usual, leastUsual)) / (slowTo - slowFrom))
	}
	return h
}

// within bounds a number by 0 and 1; what is no number is 0.
func within(v float64) float64 {
	if !(v > 0) {
		return 0
	}
	return min(v, 1)
}

// baseline is the time that is usual for a provider: the mean of its P95 over
// some minutes.
type baseline struct {
	p95     float64 // in seconds; 0 while nothing is known
	learned float64 // seconds
}

// slowness is over how many seconds the usual time is a mean.
const slowness = 300

// learn takes up the P95 of so many seconds. In the beginning all that was seen
// counts alike.
func (b *baseline) learn(p95, seconds float64) {
	if p95 <= 0 {
		return
	}
	b.learned = min(b.learned+seconds, slowness)
	b.p95 += (p95 - b.p95) * min(1, seconds/b.learned)
}
