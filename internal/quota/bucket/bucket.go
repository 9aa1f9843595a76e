// Package bucket is the token bucket as textbooks have it: a count of tokens
// that grows with time. The room quota uses it.
//
// The count is a whole number and what has come of the next token is kept
// beside it. To round that away at every look, as implementations often do,
// gives a caller who looks often less than its rate, or nothing at all.
package bucket

import (
	"math"
	"math/bits"
)

// Limit is Count tokens every Period nanoseconds, at most Burst at once. All
// three are positive.
type Limit struct{ Count, Period, Burst int64 }

// State is what a limit keeps. The zero State is that of a full bucket.
type State struct {
	used int64 // tokens missing from a full bucket
	part int64 // of the next token, in Count·nanoseconds: below Period
	last int64 // when both were right
}

// refill brings a state up to now. A clock that went back is taken for one that
// stood still.
func (l Limit) refill(s State, now int64) State {
	if now <= s.last {
		return s
	}
	elapsed := now - s.last
	s.last = now
	if s.used <= 0 {
		return State{last: now}
	}
	hi, lo := bits.Mul64(uint64(elapsed), uint64(l.Count))
	lo, carry := bits.Add64(lo, uint64(s.part), 0)
	hi += carry
	if hi >= uint64(l.Period) {
		return State{last: now} // so many that it is full
	}
	came, part := bits.Div64(hi, lo, uint64(l.Period))
	if came >= uint64(s.used) {
		return State{last: now}
	}
	return State{s.used - int64(came), int64(part), now}
}

// Available is how many tokens can be taken at now. It is negative while more
// has been taken than there was.
func (l Limit) Available(s State, now int64) int64 { return l.Burst - l.refill(s, now).used }

// Wait is how many nanoseconds from now on n tokens can be taken, 0 if they can
// be now. More than Burst can never be: that is math.MaxInt64.
func (l Limit) Wait(s State, n, now int64) int64 {
	if n > l.Burst {
		return math.MaxInt64
	}
	s = l.refill(s, now)
	return l.time(s, n-(l.Burst-s.used))
}

// Reset is how many nanoseconds from now on the bucket is full.
func (l Limit) Reset(s State, now int64) int64 {
	s = l.refill(s, now)
	return l.time(s, s.used)
}

// time is how long n more tokens take to come.
func (l Limit) time(s State, n int64) int64 {
	if n <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(n), uint64(l.Period))
	lo, borrow := bits.Sub64(lo, uint64(s.part), 0)
	if hi -= borrow; hi >= uint64(l.Count) {
		return math.MaxInt64
	}
	q, r := bits.Div64(hi, lo, uint64(l.Count))
	if r > 0 {
		q++
	}
	return int64(min(q, math.MaxInt64))
}

// Take takes n tokens whether they are there or not; what was not there is owed.
func (l Limit) Take(s State, n, now int64) State {
	s = l.refill(s, now)
	if s.used += n; s.used < 0 { // overflow
		s.used = math.MaxInt64
	}
	return s
}

// Give puts n tokens back. What would not fit is lost.
func (l Limit) Give(s State, n, now int64) State {
	s = l.refill(s, now)
	if n >= s.used {
		return State{last: s.last}
	}
	s.used -= n
	return s
}

// Adopt is the state under this limit of a bucket that had another until now:
// it holds as many tokens as before, but not more than fit. So a change of the
// limit never grants a burst anew.
func (l Limit) Adopt(was Limit, s State, now int64) State {
	if was == l {
		return s
	}
	had := min(was.Available(s, now), l.Burst)
	return State{used: l.Burst - had, last: max(now, s.last)}
}
