package window

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/headgate-ai/headgate/internal/quota/limittest"
)

func limitOf(l Limit, s State) limittest.Limit {
	return limittest.Limit{
		Most:      l.Max,
		Available: func(now int64) int64 { return l.Available(&s, now) },
		Wait:      func(n, now int64) int64 { return l.Wait(&s, n, now) },
		Reset:     func(now int64) int64 { return l.Reset(&s, now) },
		Take:      func(n, now int64) { l.Take(&s, n, now) },
		Give:      func(n, taken, now int64) { l.Give(&s, n, taken, now) },
		Copy:      func() limittest.Limit { return limitOf(l, s) },
	}
}

func TestContract(t *testing.T) {
	limittest.Run(t, func(r *rand.Rand) (limittest.Limit, int64) {
		l := Limit{Max: 1 + r.Int64N(1<<r.IntN(20)), Length: []int64{63, 640, 1e6, 60e9}[r.IntN(4)]}
		return limitOf(l, State{}), 1 + l.Length/(1+r.Int64N(80))
	})
}

// log is every token with its time.
type log []int64

// in is how many were taken in the window that ends at now.
func (l log) in(length, now int64) (n int64) {
	for _, at := range l {
		if at > now-length && at <= now {
			n++
		}
	}
	return n
}

func TestAgainstLog(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 150 {
		l := Limit{Max: 1 + r.Int64N(40), Length: []int64{63, 640, 1e6, 60e9}[r.IntN(4)]}
		w := l.width()
		var s State
		var taken log
		now := int64(1.8e18)
		for range 400 {
			now += r.Int64N(1 + l.Length/(1+r.Int64N(80)))
			n := 1 + r.Int64N(3)
			wait := l.Wait(&s, n, now)
			switch {
			case n > l.Max:
			case wait == 0:
				// Never more than the limit in any window.
				if had := taken.in(l.Length, now); had+n > l.Max {
					t.Fatalf("%+v: %d more on top of %d", l, n, had)
				}
				l.Take(&s, n, now)
				for range n {
					taken = append(taken, now)
				}
			default:
				// Refused only if all 64 slots together are full.
				if had := taken.in(Slots*w, now); had+n <= l.Max {
					t.Fatalf("%+v: refused %d on top of %d", l, n, had)
				}
			}
		}
	}
}

func TestSlotBound(t *testing.T) {
	l := Limit{Max: 600, Length: 60e9, Slot: 20}
	var s State
	now := int64(1.8e18)
	for i := range 20 {
		if l.Wait(&s, 1, now) != 0 {
			t.Fatalf("%d of a burst of 20 refused", i)
		}
		l.Take(&s, 1, now)
	}
	wait := l.Wait(&s, 1, now)
	if wait <= 0 || wait > l.width() {
		t.Fatalf("wait %d, slots are %d long", wait, l.width())
	}
	if l.Wait(&s, 21, now) != math.MaxInt64 {
		t.Error("more than a burst can never be taken")
	}
}

func TestGive(t *testing.T) {
	l := Limit{Max: 10, Length: 63e9}
	var s State
	l.Take(&s, 10, 100e9)
	l.Give(&s, 4, 100e9, 120e9)
	if got := l.Available(&s, 120e9); got != 4 {
		t.Errorf("%d available, want 4", got)
	}
	l.Give(&s, 100, 100e9, 121e9) // more than was taken
	if got := l.Available(&s, 121e9); got != 10 {
		t.Errorf("%d available, want 10", got)
	}
	l.Take(&s, 3, 200e9)
	l.Give(&s, 3, 100e9, 200e9) // taken in another window
	if got := l.Available(&s, 200e9); got != 7 {
		t.Errorf("%d available, want 7", got)
	}
}

// A longer or shorter window keeps what is in it.
func TestRescale(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	for range 2000 {
		was, is := Limit{Max: 1000, Length: 1 + r.Int64N(1e12)}, Limit{Max: 1000, Length: 1 + r.Int64N(1e12)}
		now := int64(1.8e18)
		var s State
		for range 20 {
			now += r.Int64N(1 + was.Length/10)
			was.Take(&s, 1, now)
		}
		in := s
		was.Slide(&in, now)
		recent := int64(0) // surely in the new window, too
		for i := in.newest - Slots + 1; i <= in.newest; i++ {
			if i*was.width() > now-is.Length {
				recent += in.counts[(i%Slots+Slots)%Slots]
			}
		}
		if got := 1000 - is.Available(&s, now); got < recent {
			t.Fatalf("%d to %d: %d left of %d", was.Length, is.Length, got, recent)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	l := Limit{Max: 600, Length: 60e9}
	s, now := new(State), int64(1.8e18)
	if n := testing.AllocsPerRun(1000, func() {
		now += 1e8
		if l.Wait(s, 1, now) == 0 {
			l.Take(s, 1, now)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkTake(b *testing.B) {
	l := Limit{Max: 60_000, Length: 60e9}
	s, now := new(State), int64(1.8e18)
	for b.Loop() {
		now += 1e6
		if l.Wait(s, 1, now) == 0 {
			l.Take(s, 1, now)
		}
	}
}
