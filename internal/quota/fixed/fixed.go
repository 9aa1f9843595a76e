// Package fixed is the fixed window: a count that begins anew at every multiple
// of the window's length. It is what many services mean by "a minute", and the
// simplest to share; across a boundary it lets twice the limit through. The
// room quota uses it.
package fixed

import "math"

// Limit is Max tokens in each window of Length nanoseconds.
type Limit struct{ Max, Length int64 }

// State is what a limit keeps. The zero State is that of an unused window.
type State struct{ used, window int64 }

// turn begins a new window if it is time to. A clock that went back is taken
// for one that stood still.
func (l Limit) turn(s State, now int64) State {
	if w := now / l.Length; w > s.window {
		return State{0, w}
	}
	return s
}

// Available is how many tokens can be taken at now; negative if more has been
// taken than the limit.
func (l Limit) Available(s State, now int64) int64 { return l.Max - l.turn(s, now).used }

// Wait is how many nanoseconds from now on n tokens can be taken, 0 if they can
// be now. More than the limit can never be: that is math.MaxInt64.
func (l Limit) Wait(s State, n, now int64) int64 {
	switch s = l.turn(s, now); {
	case n > l.Max:
		return math.MaxInt64
	case s.used+n <= l.Max:
		return 0
	}
	return (s.window+1)*l.Length - now
}

// Reset is how many nanoseconds from now on the window begins anew.
func (l Limit) Reset(s State, now int64) int64 {
	if s = l.turn(s, now); s.used == 0 {
		return 0
	}
	return (s.window+1)*l.Length - now
}

// Take takes n tokens whether they are there or not.
func (l Limit) Take(s State, n, now int64) State {
	s = l.turn(s, now)
	s.used += n
	return s
}

// Give puts n tokens back that were taken at a time before, if that was in this
// window.
func (l Limit) Give(s State, n, taken, now int64) State {
	s = l.turn(s, now)
	if taken/l.Length == s.window {
		s.used = max(0, s.used-n)
	}
	return s
}

// Adopt is the state under this limit of a window that had another until now:
// what was used of the running window counts in the new one, too.
func (l Limit) Adopt(was Limit, s State, now int64) State {
	if was == l {
		return s
	}
	return State{was.turn(s, now).used, now / l.Length}
}
