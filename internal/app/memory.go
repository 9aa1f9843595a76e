package app

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// The collector's default is to run whenever the heap has doubled. A gateway's
// live heap is a few MiB, so it would run many times a second to save memory
// that nobody misses. tuneMemory lets the heap grow to heapFloor first, at most
// to maxPercent of what is live; beyond that the default holds, so that memory
// with thousands of open streams is what it was.
const (
	heapFloor      = 24 << 20
	defaultPercent = 100
	maxPercent     = 800
)

// tuneMemory starts the tuning, unless the operator has set GOGC. It costs a
// look at one figure after each collection.
var tuneMemory = sync.OnceFunc(func() {
	if os.Getenv("GOGC") != "" {
		return
	}
	t := &tuner{percent: defaultPercent, sample: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	t.again()
})

type tuner struct {
	percent int
	sample  []metrics.Sample
}

// mark is what the collector finds dead in every cycle. It is large enough not
// to share a block with other objects, which would keep it alive.
type mark struct{ _ [32]byte }

// again has the tuner called after the next collection.
func (t *tuner) again() {
	runtime.SetFinalizer(&mark{}, func(*mark) {
		t.adjust()
		t.again()
	})
}

func (t *tuner) adjust() {
	metrics.Read(t.sample)
	if t.sample[0].Value.Kind() != metrics.KindUint64 {
		return
	}
	percent := percentFor(t.sample[0].Value.Uint64())
	// A change stops the world for a moment, so small ones are let be.
	if math.Abs(float64(percent-t.percent)) >= float64(t.percent)/8 {
		t.percent = percent
		debug.SetGCPercent(percent)
	}
}

// percentFor is how far the heap may grow beyond live bytes, in percent.
func percentFor(live uint64) int {
	if live == 0 {
		return maxPercent
	}
	return int(max(defaultPercent, min(maxPercent, 100*heapFloor/live)))
}
