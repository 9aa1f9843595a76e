package load

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// A histogram's buckets are linear within a power of two and double from one
// power to the next, so that the error of a value is relative: half a bucket,
// at most 1/256. Values below exact have a bucket each.
const (
	linearBits = 7
	exact      = 1 << (linearBits + 1)
	topBits    = 42 // 73 minutes in nanoseconds; what is longer counts as that
	buckets    = exact + (topBits-linearBits-1)<<linearBits
)

// Histogram counts durations to within 0.4 %. It may be used by many goroutines
// at once, without locks: every request adds to several of them.
type Histogram struct {
	counts [buckets]atomic.Uint64
	n      atomic.Uint64
	sum    atomic.Int64
	max    atomic.Int64
}

// Add counts a duration; negative ones count as zero.
func (h *Histogram) Add(d time.Duration) {
	v := max(0, int64(d))
	h.counts[bucketOf(v)].Add(1)
	h.n.Add(1)
	h.sum.Add(v)
	for {
		top := h.max.Load()
		if v <= top || h.max.CompareAndSwap(top, v) {
			return
		}
	}
}

func bucketOf(v int64) int {
	if v < exact {
		return int(v)
	}
	shift := bits.Len64(uint64(v)) - linearBits - 1
	if shift > topBits-linearBits-1 {
		return buckets - 1
	}
	return exact + (shift-1)<<linearBits + int(v>>shift) - 1<<linearBits
}

// middle is the value that stands for a bucket.
func middle(i int) int64 {
	if i < exact {
		return int64(i)
	}
	shift := (i-exact)>>linearBits + 1
	low := int64(1<<linearBits+(i-exact)&(1<<linearBits-1)) << shift
	return low + int64(1)<<shift/2
}

// Count is how many durations were added.
func (h *Histogram) Count() uint64 { return h.n.Load() }

// Max is the longest of them, exactly.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max.Load()) }

// Mean is their average, exactly.
func (h *Histogram) Mean() time.Duration {
	n := h.n.Load()
	if n == 0 {
		return 0
	}
	return time.Duration(h.sum.Load() / int64(n))
}

// Deviation is their standard deviation, as exact as the buckets are.
func (h *Histogram) Deviation() time.Duration {
	n, mean, sum := float64(h.n.Load()), float64(h.Mean()), 0.0
	if n == 0 {
		return 0
	}
	for i := range h.counts {
		if c := h.counts[i].Load(); c > 0 {
			d := float64(middle(i)) - mean
			sum += float64(c) * d * d
		}
	}
	return time.Duration(math.Sqrt(sum / n))
}

// Quantile is the duration that the share q of them does not exceed.
func (h *Histogram) Quantile(q float64) time.Duration {
	n := h.n.Load()
	if n == 0 {
		return 0
	}
	rank := uint64(math.Ceil(min(max(q, 0), 1) * float64(n)))
	if rank >= n {
		return h.Max()
	}
	var seen uint64
	for i := range h.counts {
		if seen += h.counts[i].Load(); seen >= max(rank, 1) {
			return time.Duration(min(middle(i), h.max.Load()))
		}
	}
	return h.Max()
}

// Percentiles is a histogram's summary in milliseconds.
type Percentiles struct {
	Count uint64  `json:"count"`
	Mean  float64 `json:"mean"`
	// Deviation is the standard deviation.
	Deviation float64 `json:"deviation"`
	P50       float64 `json:"p50"`
	P90       float64 `json:"p90"`
	P95       float64 `json:"p95"`
	P99       float64 `json:"p99"`
	P999      float64 `json:"p999"`
	Max       float64 `json:"max"`
}

// Percentiles sums the histogram up.
func (h *Histogram) Percentiles() Percentiles {
	q := func(q float64) float64 { return milliseconds(h.Quantile(q)) }
	return Percentiles{h.Count(), milliseconds(h.Mean()), milliseconds(h.Deviation()), q(.5), q(.9), q(.95), q(.99), q(.999), milliseconds(h.Max())}
}

func milliseconds(d time.Duration) float64 {
	return math.Round(float64(d)/1e3) / 1e3
}
