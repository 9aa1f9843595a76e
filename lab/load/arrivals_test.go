package load

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
)

func TestHistogramIsAccurate(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for name, draw := range map[string]func() float64{
		"uniform":   func() float64 { return rng.Float64() * 1e9 },
		"lognormal": func() float64 { return 1e6 * math.Exp(2*rng.NormFloat64()) },
		"small":     func() float64 { return rng.Float64() * 300 },
		"heavy":     func() float64 { return 1e3 / math.Pow(1-rng.Float64(), 1/1.2) },
	} {
		var h Histogram
		all := make([]time.Duration, 20_000)
		for i := range all {
			all[i] = time.Duration(draw())
			h.Add(all[i])
		}
		slices.Sort(all)
		for _, q := range []float64{0.001, .1, .5, .9, .95, .99, .999, .9999, 1} {
			want := float64(all[max(0, int(math.Ceil(q*float64(len(all))))-1)])
			got := float64(h.Quantile(q))
			if math.Abs(got-want) > max(1, want*.01) {
				t.Errorf("%s: quantile %v is %v, exactly %v", name, q, got, want)
			}
		}
		if h.Max() != all[len(all)-1] {
			t.Errorf("%s: max is %v, want %v", name, h.Max(), all[len(all)-1])
		}
	}
}

func TestHistogramBuckets(t *testing.T) {
	last := -1
	for _, v := range []int64{0, 1, 255, 256, 257, 258, 511, 512, 1 << 20, 1<<41 + 5, 1<<42 - 1, 1 << 42, math.MaxInt64} {
		i := bucketOf(v)
		if i < last || i >= buckets {
			t.Errorf("bucket of %d is %d after %d", v, i, last)
		}
		last = i
		if m := middle(i); v < 1<<topBits && math.Abs(float64(m-v)) > float64(v)/200 {
			t.Errorf("%d is counted as %d", v, m)
		}
	}
	var empty Histogram
	if empty.Percentiles() != (Percentiles{}) {
		t.Error("an empty histogram is not empty")
	}
}

// times draws what is due within the duration.
func times(c Config) []time.Duration {
	var all []time.Duration
	for a := newArrivals(&c); ; {
		at := a.next()
		if at >= c.Duration {
			return all
		}
		all = append(all, at)
	}
}

// between counts the times from one to before another.
func between(all []time.Duration, from, to time.Duration) (n float64) {
	for _, at := range all {
		if at >= from && at < to {
			n++
		}
	}
	return n
}

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*want {
		t.Errorf("%s is %v, want %v to within %v %%", what, got, want, 100*share)
	}
}

func TestArrivals(t *testing.T) {
	c := Default()
	c.Rate, c.Duration = 100, 100*time.Second
	constant := times(c)
	near(t, "constant: count", float64(len(constant)), 10_000, .001)
	for i := 1; i < len(constant); i++ {
		if gap := constant[i] - constant[i-1]; gap < 9999*time.Microsecond || gap > 10001*time.Microsecond {
			t.Fatalf("constant: gap %v", gap)
		}
	}
	c.Pattern = Step
	step := times(c)
	near(t, "step: first half", between(step, 0, 50*time.Second), 5000, .01)
	near(t, "step: second half", between(step, 50*time.Second, 100*time.Second), 20_000, .01)
	c.Pattern = Burst
	burst := times(c)
	var inside float64
	for at := time.Duration(0); at < c.Duration; at += c.Period {
		inside += between(burst, at, at+c.BurstLength)
	}
	near(t, "burst: inside", inside, 20*.5*400, .02)
	near(t, "burst: outside", float64(len(burst))-inside, 20*4.5*100, .02)
}

func TestArrivalsPareto(t *testing.T) {
	c := Default()
	c.Rate, c.Duration, c.Pattern = 100, 1000*time.Second, Pareto
	all := times(c)
	// The mean of so heavy a tail converges slowly; the median does not.
	near(t, "count", float64(len(all)), 100_000, .2)
	gaps := make([]float64, 0, len(all))
	for i := 1; i < len(all); i++ {
		gaps = append(gaps, (all[i] - all[i-1]).Seconds())
	}
	slices.Sort(gaps)
	scale := .01 / 3
	near(t, "least gap", gaps[0], scale, .01)
	near(t, "median gap", gaps[len(gaps)/2], scale*math.Pow(2, 1/paretoShape), .03)
	near(t, "99th percentile", gaps[len(gaps)*99/100], scale*math.Pow(100, 1/paretoShape), .1)
	if again := times(c); !slices.Equal(all, again) {
		t.Error("the same seed gives other arrivals")
	}
	if c.Seed++; slices.Equal(all, times(c)) {
		t.Error("another seed gives the same arrivals")
	}
}

func TestSessionsFollowZipf(t *testing.T) {
	c := Default()
	c.Sessions, c.Zipf = 100, 1.5
	s := newSessions(&c)
	const draws = 200_000
	counts := make([]float64, c.Sessions+1)
	for range draws {
		counts[s.next()]++
	}
	if counts[0] != 0 {
		t.Error("a request without a session among sessions")
	}
	var norm float64
	for k := 1; k <= c.Sessions; k++ {
		norm += math.Pow(float64(k), -c.Zipf)
	}
	for _, k := range []int{1, 2, 5, 20} {
		near(t, "share of session "+strconv.Itoa(k), counts[k]/draws, math.Pow(float64(k), -c.Zipf)/norm, .1)
	}
}
