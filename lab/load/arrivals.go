package load

import (
	"math"
	"math/rand/v2"
	"time"
)

// Pattern is how requests of the open loop follow each other.
type Pattern string

// The patterns.
const (
	// Constant has equal gaps.
	Constant Pattern = "constant"
	// Step has equal gaps, and from half of the time on Peak times as many.
	Step Pattern = "step"
	// Burst has equal gaps, and for the time Burst at the start of every Period
	// Peak times as many.
	Burst Pattern = "burst"
	// Pareto has gaps of a heavy tail (shape 1.5): clusters, and long silences.
	Pareto Pattern = "pareto"
)

// Patterns are all of them.
var Patterns = []Pattern{Constant, Step, Burst, Pareto}

// paretoShape gives gaps a mean but no variance.
const paretoShape = 1.5

// arrivals draws the times at which requests are due, counted from the start.
type arrivals struct {
	cfg   *Config
	rng   *rand.Rand
	begun bool
	at    time.Duration
}

func newArrivals(c *Config) *arrivals {
	return &arrivals{cfg: c, rng: rand.New(rand.NewPCG(c.Seed, 1))}
}

// next is when the next request is due. The first is due at once.
func (a *arrivals) next() time.Duration {
	if !a.begun {
		a.begun = true
		return 0
	}
	if a.cfg.Pattern == Pareto {
		// The mean of a Pareto distribution is shape/(shape-1) times its scale;
		// 1-Float64 lies in (0,1], so the quotient is finite.
		scale := (paretoShape - 1) / paretoShape / a.cfg.Rate
		gap := scale / math.Pow(1-a.rng.Float64(), 1/paretoShape)
		a.at += time.Duration(min(gap, 3600) * float64(time.Second))
		return a.at
	}
	// One more request is due when the rate has summed up to one.
	for left := 1.0; ; {
		rate, until := a.cfg.rateAt(a.at)
		if sum := rate * (until - a.at).Seconds(); sum < left {
			left -= sum
			a.at = until
			continue
		}
		a.at += time.Duration(left / rate * float64(time.Second))
		return a.at
	}
}

// rateAt is the rate at a time, and how long it lasts.
func (c *Config) rateAt(at time.Duration) (rate float64, until time.Duration) {
	const forever = 1 << 62
	switch c.Pattern {
	case Step:
		if half := c.Duration / 2; at < half {
			return c.Rate, half
		}
		return c.Rate * c.Peak, forever
	case Burst:
		start := at.Truncate(c.Period)
		if at < start+c.BurstLength {
			return c.Rate * c.Peak, start + c.BurstLength
		}
		return c.Rate, start + c.Period
	}
	return c.Rate, forever
}

// sessions draws whose request the next one is: few sessions ask often, and
// most seldom (Zipf's law).
type sessions struct {
	zipf *rand.Zipf // nil without sessions
}

func newSessions(c *Config) sessions {
	if c.Sessions == 0 {
		return sessions{}
	}
	return sessions{rand.NewZipf(rand.New(rand.NewPCG(c.Seed, 2)), c.Zipf, 1, uint64(c.Sessions-1))}
}

// next is a session's number from 1, or 0 where there are no sessions.
func (s sessions) next() int {
	if s.zipf == nil {
		return 0
	}
	return int(s.zipf.Uint64()) + 1
}
