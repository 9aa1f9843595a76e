package fleet

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// What a trend says of the times of one second is what sorting them says, within
// one class.
func TestTrendAgainstSorting(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var p Pulse
		var trend Trend
		times := make([]float64, 20+random.IntN(500))
		for i := range times {
			d := time.Duration(random.ExpFloat64() * float64(300*time.Millisecond))
			times[i] = max(d.Seconds(), 0.001)
			p.Begin()
			p.Answer(d)
		}
		slices.Sort(times)
		want := times[int(math.Ceil(0.95*float64(len(times))))-1]
		if got := trend.Follow(&p, 1).P95; got < want/1.06 || got > want*1.06 {
			t.Errorf("P95 of %d is %v, want %v", len(times), got, want)
		}
	}
}

func TestTrendForgets(t *testing.T) {
	var p Pulse
	var trend Trend
	for range 100 {
		p.Begin()
		p.Answer(100 * time.Millisecond)
	}
	for range 25 {
		p.Begin()
		p.Fail()
	}
	if s := trend.Follow(&p, 1); math.Abs(s.Errors-0.2) > 1e-9 || s.Calls != 125 || s.Health > 0.61 || s.Health < 0.59 {
		t.Errorf("%+v", s)
	}
	// What is slow shows at once; what is over is over in some seconds.
	follow := func(latency time.Duration, seconds int) Seen {
		var s Seen
		for range seconds {
			for range 100 {
				p.Begin()
				p.Answer(latency)
			}
			s = trend.Follow(&p, 1)
		}
		return s
	}
	if s := follow(400*time.Millisecond, 1); s.P95 < 0.38 || s.P95 > 0.42 {
		t.Errorf("%+v", s)
	}
	if s := follow(100*time.Millisecond, 6); s.P95 > 0.11 || s.Errors > 0.002 {
		t.Errorf("%+v", s)
	}
	for range 20 {
		trend.Follow(&p, 1)
	}
	if s := trend.Follow(&p, 1); s.Calls != 0 || s.P95 != 0 || s.Health != 1 {
		t.Errorf("after twenty silent seconds %+v", s)
	}
	p.Begin()
	for range 7 {
		trend.Follow(&p, 1)
	}
	if s := trend.Follow(&p, 1); s.P95 != 8 {
		t.Errorf("a call waits for eight seconds, and P95 is %v", s.P95)
	}
	p.Leave()
	if s := trend.Follow(&p, 1); s.P95 != 0 {
		t.Errorf("it has gone, and P95 is %v", s.P95)
	}
}

func TestHealth(t *testing.T) {
	for _, c := range []struct{ errors, p95, usual, want float64 }{
		{0, 0, 0, 1}, {0, 1, 0, 1}, {0, 0, 1, 1}, {0, 1.5, 1, 1}, {0, 3, 1, 0.5}, {0, 4.5, 1, 0}, {0, 99, 1, 0},
		{0.25, 0, 0, 0.5}, {0.5, 0, 0, 0}, {1, 0, 0, 0}, {0.25, 3, 1, 0.25},
		{0, 0.06, 0.001, 1}, // below what anyone notices
		{math.NaN(), 1, 1, 0}, {0, math.Inf(1), 1, 0}, {-1, 1, 1, 1},
	} {
		if got := Health(c.errors, c.p95, c.usual); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// The names of several providers are what they have in common.
func TestTogether(t *testing.T) {
	follow := func(version string) *Trend {
		var p Pulse
		p.Name(version, "m")
		p.Begin()
		p.Answer(time.Second)
		trend := new(Trend)
		trend.Follow(&p, 1)
		return trend
	}
	one, other, silent := follow("1"), follow("2"), follow("")
	if s := Together([]*Trend{one, silent}); s.Version != "1" || s.Model != "m" || s.Calls != 2 {
		t.Errorf("%+v", s)
	}
	if s := Together([]*Trend{one, other, one}); s.Version == "1" || s.Version == "2" || s.Version == "" {
		t.Errorf("%+v", s)
	}
	if s := Together(nil); s != (Seen{Health: 1}) {
		t.Errorf("%+v", s)
	}
}

// Requests pay for it, so it must be next to nothing.
func TestPulseAllocates(t *testing.T) {
	var p Pulse
	p.Name("2024-01-01", "gpt-4")
	if n := testing.AllocsPerRun(100, func() {
		p.Begin()
		p.Name("2024-01-01", "gpt-4")
		p.Answer(time.Second)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
