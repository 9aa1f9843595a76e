package stream

import (
	"math/bits"
	"time"
)

// Gaps summarises the times between content events. The quantiles are read off
// a histogram whose buckets are an eighth of a power of two wide, so they are
// exact to about 9 %.
type Gaps struct {
	Count         int
	P50, P95, Max time.Duration
}

// histogram counts durations from a microsecond to about a minute.
type histogram struct {
	counts [26 * 4]uint32
	n      int
	max    time.Duration
}

func (h *histogram) add(d time.Duration) {
	h.n++
	h.max = max(h.max, d)
	h.counts[bucket(d)]++
}

// bucket is logarithmic with four linear steps in each power of two.
func bucket(d time.Duration) int {
	us := uint64(max(0, d.Microseconds()))
	if us < 4 {
		return int(us)
	}
	exp := bits.Len64(us) - 3
	return min(exp*4+int(us>>exp), len(histogram{}.counts)-1)
}

// middle is a duration in the middle of bucket i.
func middle(i int) time.Duration {
	if i < 4 {
		return time.Duration(i) * time.Microsecond
	}
	exp, step := (i-4)/4, (i-4)%4+4
	low := uint64(step) << exp
	return time.Duration(low+(uint64(1)<<exp)/2) * time.Microsecond
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
