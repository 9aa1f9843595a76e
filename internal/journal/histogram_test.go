package journal

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

var tested = Metric{Name: "tested_seconds", Type: Histogram, Labels: []string{"b", "a"}, Help: "Help.", Buckets: durations}

// yardstick is the library's histogram with the same settings.
func yardstick() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: tested.Name, Help: tested.Help, Buckets: tested.Buckets, NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: maxBuckets,
	})
}

// Whatever is observed, the library would show the same.
func TestHistogramAsTheLibrary(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, values := range []func() float64{
		func() float64 { return random.ExpFloat64() / 100 },
		func() float64 { return math.Exp2(float64(random.IntN(12)) - 6) }, // upper bounds of buckets
		func() float64 { return float64(random.IntN(50)) },
		func() float64 { return tested.Buckets[random.IntN(len(tested.Buckets))] },
		func() float64 { return 0 },
	} {
		ours, theirs := newHistograms(tested, new(sync.Mutex)).with("x", "y"), yardstick()
		for n := range 3000 {
			if n%100 == 0 {
				compare(t, ours, theirs)
			}
			v := values()
			ours.observe(v)
			theirs.Observe(v)
		}
	}
}

func compare(t *testing.T, ours *histogram, theirs prometheus.Histogram) {
	t.Helper()
	var a, b dto.Metric
	if err := ours.Write(&a); err != nil {
		t.Fatal(err)
	}
	if err := theirs.Write(&b); err != nil {
		t.Fatal(err)
	}
	x, y := a.GetHistogram(), b.GetHistogram()
	y.CreatedTimestamp = x.CreatedTimestamp
	if !proto.Equal(x, y) {
		t.Fatalf("%v\nthe library has\n%v", x, y)
	}
	if l := a.GetLabel(); len(l) != 2 || l[0].GetName() != "a" || l[0].GetValue() != "y" || l[1].GetValue() != "x" {
		t.Errorf("labels %v", l)
	}
}

// Values far apart make the buckets coarser, never more than there may be, and
// lose none of the observations.
func TestHistogramCoarsens(t *testing.T) {
	h := newHistograms(tested, new(sync.Mutex)).with("", "")
	random := rand.New(rand.NewPCG(3, 4))
	var values []float64
	for range 5000 {
		v := math.Exp2(120*random.Float64() - 60)
		values = append(values, v)
		h.observe(v)
		if len(h.native) > maxBuckets {
			t.Fatalf("%d buckets", len(h.native))
		}
	}
	if h.schema >= firstSchema || h.schema < 0 {
		t.Errorf("schema %d", h.schema)
	}
	base := math.Exp2(math.Exp2(-float64(h.schema)))
	for i, n := range h.native {
		upper := math.Pow(base, float64(h.low+i))
		in := uint64(0)
		for _, v := range values {
			if v > upper/base*(1+1e-12) && v <= upper*(1+1e-12) {
				in++
			}
		}
		if in != n {
			t.Fatalf("bucket up to %v has %d, want %d", upper, n, in)
		}
	}
}

func TestHistogramSeries(t *testing.T) {
	h := newHistograms(tested, new(sync.Mutex))
	ab := h.with("a", "b")
	ab.observe(1)
	if h.with("a", "b") != ab || h.with("b", "a") == ab {
		t.Error("series and labels do not match")
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(h)
	families, err := reg.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 2 {
		t.Fatalf("%v, %v", families, err)
	}
	counts := []uint64{families[0].GetMetric()[0].GetHistogram().GetSampleCount(), families[0].GetMetric()[1].GetHistogram().GetSampleCount()}
	if slices.Sort(counts); counts[0] != 0 || counts[1] != 1 {
		t.Errorf("counts %v", counts)
	}
}

func BenchmarkHistogram(b *testing.B) {
	h := newHistograms(tested, new(sync.Mutex)).with("", "")
	for v := 0.0001; b.Loop(); v += 0.0001 {
		h.observe(v)
	}
}

func BenchmarkHistogramLibrary(b *testing.B) {
	h := yardstick()
	for v := 0.0001; b.Loop(); v += 0.0001 {
		h.Observe(v)
	}
}
