package fixed

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/headgate-ai/headgate/internal/quota/limittest"
)

func limitOf(l Limit, s State) limittest.Limit {
	return limittest.Limit{
		Most:      l.Max,
		Available: func(now int64) int64 { return l.Available(s, now) },
		Wait:      func(n, now int64) int64 { return l.Wait(s, n, now) },
		Reset:     func(now int64) int64 { return l.Reset(s, now) },
		Take:      func(n, now int64) { s = l.Take(s, n, now) },
		Give:      func(n, taken, now int64) { s = l.Give(s, n, taken, now) },
		Copy:      func() limittest.Limit { return limitOf(l, s) },
	}
}

func TestContract(t *testing.T) {
	limittest.Run(t, func(r *rand.Rand) (limittest.Limit, int64) {
		l := Limit{Max: 1 + r.Int64N(1<<r.IntN(20)), Length: []int64{1, 63, 1e6, 60e9, 86400e9}[r.IntN(5)]}
		return limitOf(l, State{}), 1 + l.Length/(1+r.Int64N(80))
	})
}

func TestWindow(t *testing.T) {
	l := Limit{Max: 3, Length: 60e9}
	var s State
	now := int64(1.8e18) / 60e9 * 60e9 // a boundary
	for range 3 {
		if l.Wait(s, 1, now+59e9) != 0 {
			t.Fatal("refused within the limit")
		}
		s = l.Take(s, 1, now+59e9)
	}
	if w := l.Wait(s, 1, now+59e9); w != 1e9 {
		t.Errorf("wait %d, want a second", w)
	}
	if w := l.Wait(s, 4, now); w != math.MaxInt64 {
		t.Errorf("more than the limit in %d", w)
	}
	// What this algorithm is known for: six in two seconds.
	if got := l.Available(s, now+60e9); got != 3 {
		t.Errorf("%d available in the next window", got)
	}
	if s2 := l.Give(s, 2, now+59e9, now+61e9); l.Available(s2, now+61e9) != 3 {
		t.Error("what was taken in another window cannot be given back in this one")
	}
	if s2 := l.Give(s, 2, now+59e9, now+59e9); l.Available(s2, now+59e9) != 2 {
		t.Error("two given back should be there")
	}
	if l.Reset(s, now+59e9) != 1e9 || l.Reset(State{}, now) != 0 {
		t.Error("the window ends in a second, and an unused one has nothing to reset")
	}
	if got := l.Available(s, now-1e12); got != 0 {
		t.Errorf("a clock that went back granted %d", got)
	}
	longer := Limit{Max: 5, Length: 3600e9}
	if got := longer.Available(longer.Adopt(l, s, now+59e9), now+59e9); got != 2 {
		t.Errorf("%d available after the change, want 2", got)
	}
}
