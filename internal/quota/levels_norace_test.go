//go:build !race

package quota

import (
	"runtime"
	"strconv"
	"testing"
	"time"
)

// A million keys make no metric more: the levels are one for each limit, exact
// however many cells there are, looked up all of them in little time, and not
// looked up again by everyone who asks. Under the race detector it would take a
// minute and tell nothing more.
func TestLevelsOfAMillionKeys(t *testing.T) {
	const (
		keys, burst    = 1_000_000, 10
		mostBytes      = 640              // a key, of two limits
		mostLook       = 10 * time.Second // it takes half of one; a busy machine may be much slower
		askedMeanwhile = 100
	)
	r := New()
	p := compile(t, r, Config{Rules: []RuleConfig{
		{Name: "each", Per: []string{"key"}, Requests: RateConfig{Rate: rate(t, "10/day"), Burst: burst}},
		{Name: "all", Requests: RateConfig{Rate: rate(t, "1000000000/day"), Burst: 2 * keys}},
	}})
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, s, now := heap(), by(""), time.Now()
	for i := range keys {
		s.Key = strconv.Itoa(i)
		h, err := r.Reserve(p, s, Demand{}, now)
		if err != nil {
			t.Fatal(err)
		}
		h.Release()
	}
	per := (heap() - before) / keys
	begun := time.Now()
	levels := r.Levels(p, now)
	look := time.Since(begun)
	if len(levels) != 3 { // with what credentials bring
		t.Errorf("%d levels", len(levels))
	}
	for _, l := range levels {
		switch l.Rule {
		case "each":
			if l.Cells != keys || l.Capacity != keys*burst || l.Available != keys*(burst-1) || l.Admitted != keys {
				t.Errorf("%+v", l)
			}
		case "all":
			if l.Cells != 1 || l.Capacity != 2*keys || l.Available != keys {
				t.Errorf("%+v", l)
			}
		}
	}
	begun = time.Now()
	for range askedMeanwhile {
		r.Levels(p, now)
	}
	again := time.Since(begun)
	t.Logf("%d bytes a key; a look at all takes %v, %d more take %v", per, look, askedMeanwhile, again)
	if per > mostBytes || look > mostLook || again > look {
		t.Errorf("more than %d bytes, %v or as long as the first", mostBytes, mostLook)
	}
	// What an operator sets shows at once, and the sums are renewed.
	if _, _, err := r.Override(p, Override{Rule: "each", Rate: rate(t, "20/day"), Burst: 20}, now); err != nil {
		t.Fatal(err)
	}
	if l := level(r, p, "each"); l.Burst != 20 || !l.Overridden {
		t.Errorf("%+v", l)
	}
	for _, l := range r.Levels(p, now.Add(time.Hour)) {
		if l.Rule == "each" && l.Capacity != 20*keys {
			t.Errorf("%+v", l)
		}
	}
}
