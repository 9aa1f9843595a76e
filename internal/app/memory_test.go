package app

import "testing"

func TestPercentFor(t *testing.T) {
	for live, want := range map[uint64]int{0: 800, 1 << 20: 800, 3 << 20: 800, 6 << 20: 400, 12 << 20: 200, 24 << 20: 100, 1 << 30: 100} {
		if got := percentFor(live); got != want {
			t.Errorf("%d live bytes: %d %%, want %d", live, got, want)
		}
	}
}
