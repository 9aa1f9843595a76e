// Package gcra is the generic cell rate algorithm (ITU-T I.371, Annex A): a
// token bucket that keeps one number, the time at which the bucket will be full
// again. The room quota uses it.
//
// Time is in whole nanoseconds of a monotonic clock, and what a token takes is
// kept as a fraction, so that nothing drifts: over any span t at most
// Burst + Count·t/Period tokens are taken, and who asks often enough gets them
// all.
package gcra

import (
	"math"
	"math/bits"
)

// Limit is Count tokens every Period nanoseconds, at most Burst at once. All
// three are positive.
type Limit struct{ Count, Period, Burst int64 }

// State is what a limit keeps. The zero State is that of a full bucket.
type State struct{ full span }

// span is a time or a length of time in nanoseconds: ns and frac/Count.
type span struct{ ns, frac int64 }

func (a span) less(b span) bool { return a.ns < b.ns || a.ns == b.ns && a.frac < b.frac }

// forever is what a length saturates at, far below where sums overflow.
const forever = math.MaxInt64 / 4

// length is how long n tokens take to come.
func (l Limit) length(n int64) span {
	hi, lo := bits.Mul64(uint64(n), uint64(l.Period))
	if hi >= uint64(l.Count) {
		return span{forever, 0}
	}
	q, r := bits.Div64(hi, lo, uint64(l.Count))
	if q > forever {
		return span{forever, 0}
	}
	return span{int64(q), int64(r)}
}

func (l Limit) add(a, b span) span {
	s := span{a.ns + b.ns, a.frac + b.frac}
	if s.frac >= l.Count {
		s.ns, s.frac = s.ns+1, s.frac-l.Count
	}
	if s.ns > 2*forever {
		s = span{2 * forever, 0}
	}
	return s
}

func (l Limit) sub(a, b span) span {
	s := span{a.ns - b.ns, a.frac - b.frac}
	if s.frac < 0 {
		s.ns, s.frac = s.ns-1, s.frac+l.Count
	}
	return s
}

// tokens is how many whole tokens come in a length of time, which may be
// negative: then it is how many are owed, rounded up.
func (l Limit) tokens(d span) int64 {
	if d.ns < 0 {
		// floor(-x) = -ceil(x)
		x := l.sub(span{}, d)
		n := l.tokens(x)
		if l.length(n).less(x) {
			n++
		}
		return -n
	}
	// (ns + frac/Count)·Count/Period = (ns·Count + frac)/Period
	hi, lo := bits.Mul64(uint64(d.ns), uint64(l.Count))
	lo, carry := bits.Add64(lo, uint64(d.frac), 0)
	if hi += carry; hi >= uint64(l.Period) {
		return forever
	}
	q, _ := bits.Div64(hi, lo, uint64(l.Period))
	return int64(min(q, forever))
}

// at is when the bucket is full, which is not before now.
func (s State) at(now int64) span {
	if s.full.less(span{now, 0}) {
		return span{now, 0}
	}
	return s.full
}

// Available is how many tokens can be taken at now. It is negative while more
// has been taken than there was.
func (l Limit) Available(s State, now int64) int64 {
	return l.tokens(l.sub(l.add(span{now, 0}, l.length(l.Burst)), s.at(now)))
}

// Wait is how many nanoseconds from now on n tokens can be taken, 0 if they can
// be now. More than Burst can never be: that is math.MaxInt64.
func (l Limit) Wait(s State, n, now int64) int64 {
	if n > l.Burst {
		return math.MaxInt64
	}
	d := l.sub(l.add(s.at(now), l.length(n)), l.add(span{now, 0}, l.length(l.Burst)))
	switch {
	case d.ns < 0:
		return 0
	case d.frac > 0:
		return d.ns + 1
	}
	return d.ns
}

// Reset is how many nanoseconds from now on the bucket is full.
func (l Limit) Reset(s State, now int64) int64 {
	d := s.at(now)
	if d.frac > 0 {
		d.ns++
	}
	return d.ns - now
}

// Take takes n tokens whether they are there or not: whoever asks must have
// waited. What was not there is owed.
func (l Limit) Take(s State, n, now int64) State {
	return State{l.add(s.at(now), l.length(n))}
}

// Give puts n tokens back. What would not fit is lost.
func (l Limit) Give(s State, n, now int64) State {
	full := l.sub(s.at(now), l.length(n))
	if full.less(span{now, 0}) {
		full = span{now, 0}
	}
	return State{full}
}

// Adopt is the state under this limit of a bucket that had another until now:
// it holds as many tokens as before, but not more than fit. So a change of the
// limit never grants a burst anew.
func (l Limit) Adopt(was Limit, s State, now int64) State {
	if was == l {
		return s
	}
	had := min(was.Available(s, now), l.Burst)
	return State{l.add(span{now, 0}, l.length(l.Burst-had))}
}
