package quota

import (
	"math"
	"time"

	"github.com/headgate-ai/headgate/internal/quota/bucket"
	"github.com/headgate-ai/headgate/internal/quota/fixed"
	"github.com/headgate-ai/headgate/internal/quota/gcra"
	"github.com/headgate-ai/headgate/internal/quota/window"
	"github.com/headgate-ai/headgate/internal/setting"
)

// algorithm is how a rate is kept.
type algorithm uint8

const (
	algGCRA algorithm = iota
	algBucket
	algWindow
	algFixed
	algConcurrent // so many at once, whatever the time
	algBudget     // so much in a period of the calendar
)

// algorithms are the names in the configuration.
var algorithms = map[string]algorithm{"gcra": algGCRA, "bucket": algBucket, "window": algWindow, "fixed": algFixed}

// bound is what one limit allows: count in a period of nanoseconds, and burst
// at once.
type bound struct {
	count, period, burst int64
	algorithm
	fine bool // in thousandths, as limits that move count
}

// fineness is the parts that a bound which is fine counts one in.
const fineness = 1000

// unit is how many of what the bound counts are one.
func (b bound) unit() int64 {
	if b.fine {
		return fineness
	}
	return 1
}

// perSecond is the rate of the bound, in ones.
func (b bound) perSecond() float64 {
	return float64(b.count) / float64(b.unit()) * 1e9 / float64(b.period)
}

// rate is the rate of the bound to be read: in whole numbers, over a longer time
// where that needs it.
func (b bound) rate() setting.Rate {
	r := setting.Rate{Count: b.count, Period: time.Duration(b.period)}
	if !b.fine {
		return r
	}
	if r.Count = (b.count + fineness/2) / fineness; r.Count == 0 {
		r = setting.Rate{Count: 1, Period: time.Duration(float64(b.period) * fineness / float64(b.count)).Round(time.Millisecond)}
	}
	return r
}

// inUnits is an amount of another bound as this one counts it, rounded down.
func (b bound) inUnits(n int64, was bound) int64 {
	switch {
	case b.fine == was.fine:
		return n
	case b.fine:
		return n * fineness
	}
	return int64(math.Floor(float64(n) / fineness))
}

// never is a wait that does not end: more is asked for than the limit ever
// lets through at once.
const never = math.MaxInt64

// state is what a cell keeps of a rate. Only the part that its bound's
// algorithm uses is filled.
type state struct {
	gcra   gcra.State
	bucket bucket.State
	fixed  fixed.State
	window *window.State
	held   int64 // by requests that are under way
	purse  purse // of a budget
}

func (b bound) asGCRA() gcra.Limit {
	return gcra.Limit{Count: b.count, Period: b.period, Burst: b.burst}
}
func (b bound) asBucket() bucket.Limit {
	return bucket.Limit{Count: b.count, Period: b.period, Burst: b.burst}
}
func (b bound) asFixed() fixed.Limit { return fixed.Limit{Max: b.count, Length: b.period} }

func (b bound) asWindow() window.Limit {
	w := window.Limit{Max: b.count, Length: b.period}
	if b.burst < b.count {
		w.Slot = b.burst
	}
	return w
}

// capacity is the most that can be there at once.
func (b bound) capacity() int64 {
	switch b.algorithm {
	case algWindow, algFixed:
		return b.count
	}
	return b.burst
}

// available is how much can be taken at now; negative while something is owed.
func (b bound) available(s *state, now int64) int64 {
	switch b.algorithm {
	case algGCRA:
		return b.asGCRA().Available(s.gcra, now)
	case algBucket:
		return b.asBucket().Available(s.bucket, now)
	case algWindow:
		return b.asWindow().Available(s.win(), now)
	case algFixed:
		return b.asFixed().Available(s.fixed, now)
	}
	return b.burst - s.held
}

// wait is how long until n can be taken.
func (b bound) wait(s *state, n, now int64) int64 {
	switch b.algorithm {
	case algGCRA:
		return b.asGCRA().Wait(s.gcra, n, now)
	case algBucket:
		return b.asBucket().Wait(s.bucket, n, now)
	case algWindow:
		return b.asWindow().Wait(s.win(), n, now)
	case algFixed:
		return b.asFixed().Wait(s.fixed, n, now)
	}
	switch {
	case n > b.burst:
		return never
	case s.held+n > b.burst:
		return someoneLeaves
	}
	return 0
}

// someoneLeaves is how long a client is told to wait for a place: nobody knows
// when a request will end, so this is but a polite distance between two tries.
const someoneLeaves = int64(1e9)

// reset is how long until all of it is there.
func (b bound) reset(s *state, now int64) int64 {
	switch b.algorithm {
	case algGCRA:
		return b.asGCRA().Reset(s.gcra, now)
	case algBucket:
		return b.asBucket().Reset(s.bucket, now)
	case algWindow:
		return b.asWindow().Reset(s.win(), now)
	case algFixed:
		return b.asFixed().Reset(s.fixed, now)
	}
	if s.held > 0 {
		return someoneLeaves
	}
	return 0
}

// take takes n, there or not.
func (b bound) take(s *state, n, now int64) {
	switch b.algorithm {
	case algGCRA:
		s.gcra = b.asGCRA().Take(s.gcra, n, now)
	case algBucket:
		s.bucket = b.asBucket().Take(s.bucket, n, now)
	case algWindow:
		b.asWindow().Take(s.win(), n, now)
	case algFixed:
		s.fixed = b.asFixed().Take(s.fixed, n, now)
	case algConcurrent:
		s.held += n
	}
}

// give puts back n that were taken at a time before.
func (b bound) give(s *state, n, taken, now int64) {
	switch b.algorithm {
	case algGCRA:
		s.gcra = b.asGCRA().Give(s.gcra, n, now)
	case algBucket:
		s.bucket = b.asBucket().Give(s.bucket, n, now)
	case algWindow:
		b.asWindow().Give(s.win(), n, taken, now)
	case algFixed:
		s.fixed = b.asFixed().Give(s.fixed, n, taken, now)
	case algConcurrent:
		s.held = max(0, s.held-n)
	}
}

// adopt turns a state that was kept under another bound until now into one
// under this. What has been used stays used, so that no change of the
// configuration grants a burst anew.
func (b bound) adopt(was bound, s *state, now int64) {
	switch {
	case was == bound{} || b.algorithm >= algConcurrent:
		return
	case (was.algorithm != b.algorithm || was.fine != b.fine) && b.algorithm <= algBucket:
		// It holds as much as before, as between two bounds of one algorithm. To
		// keep what was used instead would take of it again with every change that
		// lowers the burst and every one that raises it.
		had := min(b.inUnits(was.available(s, now), was), b.burst)
		*s = state{held: s.held}
		b.take(s, b.burst-had, now)
	case was.algorithm != b.algorithm:
		used := -b.inUnits(was.available(s, now)-was.capacity(), was) // rounded up
		*s = state{held: s.held}
		b.take(s, max(0, used), now)
	case b.algorithm == algGCRA:
		s.gcra = b.asGCRA().Adopt(was.asGCRA(), s.gcra, now)
	case b.algorithm == algBucket:
		s.bucket = b.asBucket().Adopt(was.asBucket(), s.bucket, now)
	case b.algorithm == algFixed:
		s.fixed = b.asFixed().Adopt(was.asFixed(), s.fixed, now)
	case b.algorithm == algWindow:
		b.asWindow().Slide(s.win(), now)
	}
}

// win is the window's counts, which only cells that need them hold.
func (s *state) win() *window.State {
	if s.window == nil {
		s.window = new(window.State)
	}
	return s.window
}

// idle is whether nothing is lost if the state is forgotten.
func (b bound) idle(s *state, now int64) bool {
	switch b.algorithm {
	case algConcurrent:
		return s.held == 0
	case algBudget:
		return s.purse.until <= now
	}
	return b.reset(s, now) <= 0
}
