package adapt

import (
	"math"
	"testing"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestLoad(t *testing.T) {
	r := LoadRule{Base: 100, Min: 10, Max: 1000, Reference: Load{QPS: 50, Size: 1000, P95: 0.1}}
	for _, c := range []struct {
		now         Load
		rate, burst float64
	}{
		{Load{50, 1000, 0.1}, 100, 200},
		{Load{}, 100, 200},                          // nothing measured yet
		{Load{50, 1000, 0.4}, 100 / 3.0, 200 / 3.0}, // four times as slow counts as three
		{Load{50, 1000, 0.01}, 200, 400},            // and ten times as fast as two
		{Load{500, 1000, 0.1}, 50, 100},
		{Load{1, 1000, 0.1}, 200, 400},
		{Load{50, 1e9, 0.1}, 50, 100},
		{Load{50, 1, 0.1}, 1000, 2000},
		{Load{500, 1e9, 9}, 10, 20}, // 8.3 is below the least
		{Load{math.NaN(), math.Inf(1), -1}, 50, 100},
	} {
		if rate, burst := r.Rate(c.now); !near(rate, c.rate) || !near(burst, c.burst) {
			t.Errorf("%+v: %v, %v; want %v, %v", c.now, rate, burst, c.rate, c.burst)
		}
	}
	if _, burst := (LoadRule{Base: 1, Min: 1, Max: 1}).Rate(Load{}); burst != 5 {
		t.Errorf("a small limit needs some burst, got %v", burst)
	}
	if got := r.Cost(500); got != 0.5 {
		t.Errorf("half the size costs %v", got)
	}
}

func TestHealth(t *testing.T) {
	for score, want := range map[float64]float64{0: 190, 0.5: 285, 1: 380, -3: 190, 7: 380, math.Inf(1): 380} {
		if got := 380 * Health(score); !near(got, want) {
			t.Errorf("health %v: %v, want %v", score, got, want)
		}
	}
	if got := 380 * Health(math.NaN()); got != 190 {
		t.Errorf("no number: %v, want 190", got)
	}
	// A step of the health moves the limit a tenth a second and not past it.
	f, steps := 1.0, 0
	for ; f > Health(0); steps++ {
		next := Slew(f, Health(0), 1)
		if next < Health(0) || next < f*0.9-1e-9 {
			t.Fatalf("from %v to %v", f, next)
		}
		f = next
	}
	if steps < 6 || steps > 8 {
		t.Errorf("%d seconds from 1 to 0.5", steps)
	}
}

func TestDecay(t *testing.T) {
	for under, want := range map[float64]float64{0: 1, 80: 1, 80.0001: 0.88, 90: 0.85, 100: 0.82, 1000: 0.82} {
		if got := Decay(under, 100); math.Abs(got-want) > 1e-4 {
			t.Errorf("%v of 100 under way: %v, want %v", under, got, want)
		}
	}
	if Decay(5, 0) != 1 || Decay(math.NaN(), 100) != 1 {
		t.Error("without a bound, or a number, nothing decays")
	}
}

func TestBurst(t *testing.T) {
	r := BurstRule{Floor: 0.25, Ceiling: 4, P95: 1}
	var b Burst
	if b.Factor() != 1 {
		t.Fatal(b.Factor())
	}
	spike := Seen{Refused: 300, Admitted: 120, P95: 0.2}
	periods := 0
	for ; b.Factor() < 2.5; periods++ {
		b = b.Next(r, spike)
	}
	if periods > 6 {
		t.Errorf("%d periods to 2.5 times", periods)
	}
	for range 20 {
		b = b.Next(r, spike)
	}
	if b.Factor() != 4 {
		t.Errorf("%v at the ceiling of 4", b.Factor())
	}
	// Errors that rise freeze it, many shrink it, and so does a slow answer.
	was := b.Factor()
	if b = b.Next(r, Seen{Refused: 10, Errors: 0.03, P95: 0.2}); b.Factor() != was {
		t.Errorf("%v while errors rise", b.Factor())
	}
	if b = b.Next(r, Seen{Refused: 10, Errors: 0.2, P95: 0.2}); b.Factor() >= was {
		t.Errorf("%v while a fifth fails", b.Factor())
	}
	// An upstream without headroom: it never grows, and sheds down to the floor.
	b = Burst{}
	for range 40 {
		b = b.Next(r, Seen{Refused: 300, P95: 3})
		if b.Factor() > 1 {
			t.Fatalf("%v without headroom", b.Factor())
		}
	}
	if b.Factor() != 0.25 {
		t.Errorf("%v at the floor", b.Factor())
	}
	// And when nobody needs it any more, it goes back to what was configured.
	for range 200 {
		b = b.Next(r, Seen{Admitted: 10, P95: 0.1})
	}
	if !near(b.Factor(), 1) {
		t.Errorf("%v after a long calm", b.Factor())
	}
}
