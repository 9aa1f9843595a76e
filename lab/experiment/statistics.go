package experiment

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Estimate is a median with its 95 % bootstrap interval.
type Estimate struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	N      int     `json:"n"`
}

// resamples is enough for two digits of a 95 % interval.
const resamples = 2000

// estimate draws from the values again and again (percentile bootstrap), with
// a fixed seed: the same values give the same interval. With few rounds that
// interval is about the range of the values, and no narrower.
func estimate(values []float64) Estimate {
	if len(values) == 0 {
		return Estimate{}
	}
	rng := rand.New(rand.NewPCG(1, uint64(len(values))))
	medians, draw := make([]float64, resamples), make([]float64, len(values))
	for i := range medians {
		for j := range draw {
			draw[j] = values[rng.IntN(len(values))]
		}
		medians[i] = median(draw)
	}
	slices.Sort(medians)
	return Estimate{median(values), medians[resamples*25/1000], medians[resamples*975/1000-1], len(values)}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// quantile is the value that the share q does not exceed.
func quantile(values []time.Duration, q float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func ms(d time.Duration) float64 { return math.Round(float64(d)/1e3) / 1e3 }

// share is how much of all that is, 0 of nothing.
func share(n, all int) float64 {
	if all == 0 {
		return 0
	}
	return float64(n) / float64(all)
}
