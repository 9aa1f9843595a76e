package stream

import (
	"math/bits"
	"time"
)

// Gaps summarises the times between content events. The quantiles are read off
// a histogram with eight buckets in each power of two, so they are exact to
// about 6 %.
type Gaps struct {
	Count         int
	P50, P95, Max time.Duration
}

// histogram counts durations from a microsecond to about two minutes.
type histogram struct {
	counts [25 * steps]uint32
	n      int
	max    time.Duration
}

// steps is the number of buckets in each power of two.
const steps = 8

func (h *histogram) add(d time.Duration) {
	h.n++
	h.max = max(h.max, d)
	h.counts[bucket(d)]++
}

// bucket is logarithmic with linear steps in each power of two.
func bucket(d time.Duration) int {
	us := uint64(max(0, d.Microseconds()))
	if us < steps {
		return int(us)
	}
	exp := bits.Len64(us) - bits.Len64(steps)
	return min(exp*steps+int(us>>exp), len(histogram{}.counts)-1)
}

// middle is a duration in the middle of bucket i.
func middle(i int) time.Duration {
	if i < steps {
		return time.Duration(i) * time.Microsecond
	}
	exp, step := (i-steps)/steps, (i-steps)%steps+steps
	low := uint64(step) << exp
	return time.Duration(low)*time.Microsecond + time.Duration(uint64(1)<<exp)*time.Microsecond/2
}

func (h *histogram) quantile(q float64) time.Duration {
	rank := int(q*float64(h.n-1)) + 1
	for i, n := range h.counts {
		if rank -= int(n); rank <= 0 {
			return min(middle(i), h.max)
		}
	}
	return h.max
}

func (h *histogram) summary() Gaps {
	if h.n == 0 {
		return Gaps{}
	}
	return Gaps{Count: h.n, P50: h.quantile(0.5), P95: h.quantile(0.95), Max: h.max}
}
