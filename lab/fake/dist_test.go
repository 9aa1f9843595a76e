package fake

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestDistText(t *testing.T) {
	for _, text := range []string{"50ms", "64", "0", "uniform(10ms,50ms)", "uniform(10,200)", "lognormal(40ms,0.5)", "pareto(20ms,1.5)", "uniform(0s,1s)", ""} {
		d := Count(1)
		if err := d.UnmarshalText([]byte(text)); err != nil {
			t.Error(err)
			continue
		}
		b, _ := d.MarshalText()
		again := Count(1)
		if err := again.UnmarshalText(b); err != nil || again != d || string(b) != text {
			t.Errorf("%s became %s, %v", text, b, err)
		}
	}
	for _, text := range []string{"", "x", "-5ms", "-1", "NaN", "uniform(5ms)", "uniform(5ms,1ms)", "uniform(5,9ms)", "normal(1,2)",
		"lognormal(4ms,5ms)", "pareto(4ms,0)", "uniform(1,2", "2h", "1e99"} {
		if d, err := ParseDist(text); err == nil {
			t.Errorf("%q is taken as %s", text, d)
		}
	}
}

func TestDistDraws(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	median := func(text string) time.Duration {
		d := MustDist(text)
		all := make([]time.Duration, 20001)
		for i := range all {
			all[i] = d.Duration(r)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	for text, want := range map[string]float64{
		"50ms": 50, "uniform(10ms,50ms)": 30, "lognormal(40ms,0.5)": 40, "pareto(20ms,1.5)": 20 * math.Pow(2, 1/1.5),
	} {
		if got := float64(median(text)) / 1e6; math.Abs(got-want) > 0.03*want {
			t.Errorf("median of %s is %v, want %v", text, got, want)
		}
	}
	if n := MustDist("pareto(1000000,0.01)").Int(r); n > 1e6 {
		t.Error("no bound:", n)
	}
}
