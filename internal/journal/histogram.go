package journal

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A request observes some fifteen values. The library's histograms take 120 ns
// for each, as their native buckets lie in a concurrent map; here records are
// entered one after the other, and an addition to a slice does.

// histograms are all series of one histogram, as a prometheus.Collector. They
// have classic and native buckets; see the Prometheus specification of native
// histograms.
type histograms struct {
	desc   *prometheus.Desc
	bounds []float64 // of the classic buckets

	mu     *sync.Mutex // guards what follows and every series
	series map[string]*histogram
}

const (
	// firstSchema has eight buckets to a power of two: each reaches to 1.09 times
	// its beginning.
	firstSchema = 3
	// maxBuckets bounds the native buckets of a series. One that has values
	// further apart gets coarser buckets.
	maxBuckets = 160
	// zeroThreshold is up to where a value counts as zero; the library's.
	zeroThreshold = prometheus.DefNativeHistogramZeroThreshold
)

// schemaBounds are where the buckets of firstSchema end within a power of two,
// from a half to one.
var schemaBounds = func() (b [1 << firstSchema]float64) {
	for i := range b {
		b[i] = math.Exp2(float64(i)/float64(len(b)) - 1)
	}
	return b
}()

func newHistograms(d Metric, mu *sync.Mutex) *histograms {
	return &histograms{desc: prometheus.NewDesc(d.Name, d.Help, d.Labels, nil), bounds: d.Buckets, mu: mu, series: map[string]*histogram{}}
}

// with is the series of some label values.
func (h *histograms) with(labels ...string) *histogram {
	key := strings.Join(labels, "\xff")
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.series[key]
	if s == nil {
		s = &histogram{
			in: h, created: time.Now(), classic: make([]uint64, len(h.bounds)), schema: firstSchema,
			labels: prometheus.MakeLabelPairs(h.desc, labels),
		}
		h.series[key] = s
	}
	return s
}

// Describe implements prometheus.Collector.
func (h *histograms) Describe(out chan<- *prometheus.Desc) { out <- h.desc }

// Collect implements prometheus.Collector.
func (h *histograms) Collect(out chan<- prometheus.Metric) {
	h.mu.Lock()
	all := slices.Collect(maps.Values(h.series))
	h.mu.Unlock()
	for _, s := range all {
		out <- s
	}
}

// histogram is one series.
type histogram struct {
	in      *histograms
	labels  []*dto.LabelPair
	created time.Time

	count   uint64
	sum     float64
	classic []uint64 // by the bound that a value does not exceed; what exceeds all is in none
	zero    uint64
	schema  int32
	low     int      // the native bucket that native[0] is
	native  []uint64 // consecutive buckets
}

// observe enters a value that is not negative. It is called with the lock held.
func (h *histogram) observe(v float64) {
	h.count++
	h.sum += v
	for i, bound := range h.in.bounds {
		if v <= bound {
			h.classic[i]++
			break
		}
	}
	if v <= zeroThreshold {
		h.zero++
		return
	}
	h.add(coarser(bucketOf(v), firstSchema-h.schema))
	for h.schema > -4 && len(h.native) > maxBuckets {
		h.coarsen()
	}
}

// bucketOf is the native bucket of a value in firstSchema.
func bucketOf(v float64) int {
	frac, exp := math.Frexp(v)
	i := 0
	for i < len(schemaBounds) && schemaBounds[i] < frac {
		i++
	}
	return i + (exp-1)*len(schemaBounds)
}

// coarser is the bucket that a bucket lies in, some schemas below: half as many
// buckets for each.
func coarser(bucket int, schemas int32) int {
	return -(-bucket >> schemas) // rounded up, as a bucket contains its upper bound
}

// add counts in a bucket, and makes room for it.
func (h *histogram) add(bucket int) {
	switch {
	case len(h.native) == 0:
		h.low, h.native = bucket, make([]uint64, 1, 8)
	case bucket < h.low:
		h.native = slices.Insert(h.native, 0, make([]uint64, h.low-bucket)...)
		h.low = bucket
	case bucket >= h.low+len(h.native):
		h.native = append(h.native, make([]uint64, bucket-h.low-len(h.native)+1)...)
	}
	h.native[bucket-h.low]++
}

// coarsen halves the number of buckets.
func (h *histogram) coarsen() {
	low := coarser(h.low, 1)
	merged := make([]uint64, coarser(h.low+len(h.native)-1, 1)-low+1)
	for i, n := range h.native {
		merged[coarser(h.low+i, 1)-low] += n
	}
	h.low, h.native, h.schema = low, merged, h.schema-1
}

// Desc implements prometheus.Metric.
func (h *histogram) Desc() *prometheus.Desc { return h.in.desc }

// Write implements prometheus.Metric.
func (h *histogram) Write(out *dto.Metric) error {
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	d := &dto.Histogram{
		SampleCount: proto.Uint64(h.count), SampleSum: proto.Float64(h.sum), CreatedTimestamp: timestamppb.New(h.created),
		Schema: proto.Int32(h.schema), ZeroThreshold: proto.Float64(zeroThreshold), ZeroCount: proto.Uint64(h.zero),
	}
	below := uint64(0)
	for i, n := range h.classic {
		below += n
		d.Bucket = append(d.Bucket, &dto.Bucket{CumulativeCount: proto.Uint64(below), UpperBound: proto.Float64(h.in.bounds[i])})
	}
	h.writeNative(d)
	out.Label, out.Histogram = h.labels, d
	return nil
}

// writeNative writes runs of buckets, with the distance from one run to the
// next, and each count as its difference from the one before. A gap of one or
// two empty buckets is written out, as a new run would take more.
func (h *histogram) writeNative(d *dto.Histogram) {
	var span *dto.BucketSpan
	next, before := 0, int64(0) // the bucket behind the run, and the last count
	write := func(n int64) {
		*span.Length++
		d.PositiveDelta = append(d.PositiveDelta, n-before)
		next, before = next+1, n
	}
	for i, n := range h.native {
		if n == 0 {
			continue
		}
		bucket := h.low + i
		if span == nil || bucket-next > 2 {
			span = &dto.BucketSpan{Offset: proto.Int32(int32(bucket - next)), Length: proto.Uint32(0)}
			d.PositiveSpan = append(d.PositiveSpan, span)
			next = bucket
		}
		for next < bucket {
			write(0)
		}
		write(int64(n))
	}
}
