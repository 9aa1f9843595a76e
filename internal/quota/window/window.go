// Package window is the sliding window: at most so many in any span of a given
// length. It keeps a ring of 64 counts, so that a limit takes the same small
// memory whatever the traffic. The room quota uses it.
//
// A slot is a 63rd of the window, and what is in the slots is counted as a
// whole: between 63 and 64 slots, never less than the window. So no window
// holds more than the limit, and a token is given back at most one slot too
// late. To weigh the oldest slot by how much of it is still inside, as is often
// done, takes its tokens to be spread evenly; where they came at its end, up to
// half as much again passes.
package window

import "math"

// Slots is the number of counts in the ring.
const Slots = 64

// Limit is Max tokens in any Length nanoseconds; of these at most Slot in one
// slot, a 63rd of the length, where Slot is not 0.
type Limit struct{ Max, Length, Slot int64 }

// State is what a limit keeps. The zero State is that of an empty window.
type State struct {
	counts [Slots]int64
	sum    int64
	newest int64 // the number of the newest slot, counted from time 0
	width  int64 // of a slot when this was written
}

func (l Limit) width() int64 { return max(1, (l.Length+Slots-2)/(Slots-1)) }

// Slide drops what has left the window. A clock that went back is taken for one
// that stood still.
func (l Limit) Slide(s *State, now int64) {
	w := l.width()
	if s.width != w {
		s.rescale(w)
	}
	slot := now / w
	switch gone := slot - s.newest; {
	case gone <= 0:
		return
	case gone >= Slots:
		s.counts, s.sum = [Slots]int64{}, 0
	default:
		for i := s.newest + 1; i <= slot; i++ {
			s.sum -= s.counts[i%Slots]
			s.counts[i%Slots] = 0
		}
	}
	s.newest = slot
}

// rescale moves the counts into slots of another width: each to where its old
// slot ends, so that none leaves earlier than it would have.
func (s *State) rescale(w int64) {
	was, old := *s, s.width
	*s = State{width: w}
	if old == 0 {
		return
	}
	s.newest = ((was.newest+1)*old - 1) / w
	for i := max(0, was.newest-Slots+1); i <= was.newest; i++ {
		n := was.counts[i%Slots]
		if n == 0 {
			continue
		}
		slot := max(((i+1)*old-1)/w, s.newest-Slots+1, 0)
		s.counts[slot%Slots] += n
		s.sum += n
	}
}

// Available is how many tokens can be taken at now. It is negative while more
// has been taken than the limit.
func (l Limit) Available(s *State, now int64) int64 {
	l.Slide(s, now)
	free := l.Max - s.sum
	if l.Slot > 0 {
		free = min(free, l.Slot-s.counts[s.newest%Slots])
	}
	return free
}

// Wait is how many nanoseconds from now on n tokens can be taken, 0 if they can
// be now. More than the limit can never be: that is math.MaxInt64.
func (l Limit) Wait(s *State, n, now int64) int64 {
	if n > l.Max || l.Slot > 0 && n > l.Slot {
		return math.MaxInt64
	}
	l.Slide(s, now)
	w := l.width()
	until := now
	if l.Slot > 0 && s.counts[s.newest%Slots]+n > l.Slot {
		until = (s.newest + 1) * w
	}
	sum := s.sum
	for i := s.newest - Slots + 1; sum+n > l.Max && i <= s.newest; i++ {
		if i < 0 {
			continue
		}
		sum -= s.counts[i%Slots]
		until = max(until, (i+Slots)*w) // when this slot has left
	}
	return until - now
}

// Reset is how many nanoseconds from now on the window is empty.
func (l Limit) Reset(s *State, now int64) int64 {
	l.Slide(s, now)
	for i := s.newest; i > s.newest-Slots && i >= 0; i-- {
		if s.counts[i%Slots] > 0 {
			return (i+Slots)*l.width() - now
		}
	}
	return 0
}

// Take takes n tokens whether they are there or not.
func (l Limit) Take(s *State, n, now int64) {
	l.Slide(s, now)
	s.counts[s.newest%Slots] += n
	s.sum += n
}

// Give puts n tokens back that were taken at a time before, if they have not
// left the window meanwhile.
func (l Limit) Give(s *State, n, taken, now int64) {
	l.Slide(s, now)
	slot := min(taken/l.width(), s.newest)
	if slot <= s.newest-Slots || slot < 0 {
		return
	}
	n = min(n, s.counts[slot%Slots])
	s.counts[slot%Slots] -= n
	s.sum -= n
}
