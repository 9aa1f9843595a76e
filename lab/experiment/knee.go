package experiment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/internal/quota/gcra"
)

// What the sweep goes over, and the rate of the limit in calls a second.
var (
	kneeBursts = []int{50, 100, 200}
	kneeConns  = []int{10, 25, 50, 70, 90, 120, 180, 200}
)

const kneeRate = 50

// A connection calls about once a second: it waits for its turn, is served, and
// thinks. patience is how long the bounded arm lets it wait.
const (
	kneeServed   = 100 * time.Millisecond
	kneeThinks   = 900 * time.Millisecond // on average
	kneePatience = 25 * time.Millisecond
)

// The phases of a sweep: until the largest burst is used up by 70 connections,
// and the one that is counted.
const (
	kneeWarm   = 12 * time.Second
	kneeLength = 6 * time.Second
)

var knee = &Experiment{
	Name:  "knee",
	Row:   "B16, O13",
	Title: "a limiter that makes callers wait, against one that refuses who would wait too long, over connections and bursts",
	Claim: "beyond conns/burst = 1.8 the P99 rises 3.2 ×; at 50, 90 and 120 connections and a burst of 100 by 8, 140 and 680 %.",
	Wrong: "the burst has no part in it: it hides the knee until it is used up. The knee lies where the connections together ask for more than the rate, " +
		"here at 50, and from there each one waits for all others, N/rate; so the ratio to the burst at which it lies is another one for each burst. " +
		"A wait that is bounded keeps the latency of those who are let in, and tells the rest at once.",
	Note: "rate 50/s; every connection thinks for 0.9 s on average (exponential) between two calls, a call takes 0.1 s; 6 s are counted, behind 12 s in which bursts are used up. " +
		"bounded refuses a wait of more than 25 ms. All numbers of connections and bursts run at once, each with a limiter of its own; quick, all times are a quarter and the rate is four times as high. " +
		"The knee is where the curve of the P99, its axes scaled to 1, bends most. --csv and --plot write all curves.",
	Arms:    []Arm{{"wait", "everyone waits their turn"}, {"bounded", "a wait of more than 25 ms is refused"}},
	Metrics: kneeMetrics(),
	Expect: []Expectation{
		{"waiting, the P99 rises faster than the connections: from 50 to 200 at least 8 ×", func(m map[string]Sample) bool {
			return m["wait"]["p99_100_200"] >= 8*m["wait"]["p99_100_50"]
		}},
		{"bounded, the P99 of those let in is ≤ 1.5 × that at 10 connections, with every burst and number of connections", func(m map[string]Sample) bool {
			return m["bounded"]["worst"] <= 1.5
		}},
		{"bounded refuses nobody below the knee and at 200 connections more than half, and lets in ≥ 90 % of the rate", func(m map[string]Sample) bool {
			b := m["bounded"]
			return b["refused_100_25"] == 0 && b["refused_100_200"] > 50 && b["served_100_200"] >= .9*kneeRate
		}},
		{"the knee is where the rate is, between 25 and 90 connections, with every burst", func(m map[string]Sample) bool {
			for _, burst := range kneeBursts {
				if at := m["wait"][fmt.Sprintf("knee_%d", burst)] * float64(burst); at < 25 || at > 90 {
					return false
				}
			}
			return true
		}},
	},
	Rounds: 3, QuickRounds: 1, SideBySide: true,
	Run:    runKnee,
	Curves: kneeCurves,
}

func kneeMetrics() []Metric {
	var all []Metric
	for _, n := range kneeConns {
		all = append(all, Metric{fmt.Sprintf("p99_100_%d", n), "ms", fmt.Sprintf("P99, burst 100, %d connections", n)})
	}
	for _, n := range []int{50, 90, 120} {
		all = append(all, Metric{fmt.Sprintf("rise_%d", n), "%", fmt.Sprintf("  above that at 10, %d connections", n)})
	}
	for _, b := range kneeBursts {
		all = append(all, Metric{fmt.Sprintf("knee_%d", b), "", fmt.Sprintf("knee, as connections / burst, burst %d", b)})
	}
	return append(all,
		Metric{"worst", "", "highest P99 of all, as a multiple of that at 10"},
		Metric{"refused_100_25", "%", "refused at 25 connections"}, Metric{"refused_100_200", "%", "refused at 200 connections"},
		Metric{"served_100_200", "1/s", "served at 200 connections"})
}

// runKnee has all sweeps of an arm at once: most of their time they wait.
func runKnee(ctx context.Context, arm string, r Round) (Sample, error) {
	haste := time.Duration(1)
	if r.Quick {
		haste = 4
	}
	sample := Sample{}
	var mu sync.Mutex // guards sample
	var all sync.WaitGroup
	for _, burst := range kneeBursts {
		for _, n := range kneeConns {
			all.Go(func() {
				s := newSweep(burst, haste)
				if arm == "bounded" {
					s.patience = int64(kneePatience / haste)
				}
				s.run(ctx, n, r.Seed)
				mu.Lock()
				defer mu.Unlock()
				s.report(sample, n)
			})
		}
	}
	all.Wait()
	worst := 0.0
	for _, burst := range kneeBursts {
		curve := kneeColumn(sample, "p99", burst)
		for _, p99 := range curve {
			worst = max(worst, p99/curve[0])
		}
		if at := bend(floats(kneeConns), curve); arm == "wait" && at >= 0 {
			sample[fmt.Sprintf("knee_%d", burst)] = float64(kneeConns[at]) / float64(burst)
		}
	}
	sample["worst"] = worst
	for _, n := range []int{50, 90, 120} {
		sample[fmt.Sprintf("rise_%d", n)] = 100 * (sample[fmt.Sprintf("p99_100_%d", n)]/sample["p99_100_10"] - 1)
	}
	return sample, ctx.Err()
}

// sweep is one burst and one number of connections.
type sweep struct {
	limit    gcra.Limit
	patience int64
	haste    time.Duration // by which all times are divided
	begun    time.Time

	mu      sync.Mutex // guards what follows
	state   gcra.State
	latency []time.Duration // of those served
	refused int
}

func newSweep(burst int, haste time.Duration) *sweep {
	return &sweep{
		limit: gcra.Limit{Count: kneeRate, Period: int64(time.Second / haste), Burst: int64(burst)}, patience: math.MaxInt64,
		haste: haste, begun: time.Now(),
	}
}

// run ends when the last call that was begun in time has its answer: to leave
// out those that take long would make waiting look short.
func (s *sweep) run(ctx context.Context, connections int, seed uint64) {
	end := (kneeWarm + kneeLength) / s.haste
	var wg sync.WaitGroup
	for i := range connections {
		wg.Go(func() {
			chance := rand.New(rand.NewPCG(seed, uint64(i)))
			think := func() { pause(ctx, time.Duration(chance.ExpFloat64()*float64(kneeThinks/s.haste))) }
			for think(); ctx.Err() == nil && time.Since(s.begun) < end; think() {
				s.call(ctx)
			}
		})
	}
	wg.Wait()
}

// call waits its turn, is served and notes how long that took.
func (s *sweep) call(ctx context.Context) {
	begun := time.Now()
	wait, ok := s.turn(int64(begun.Sub(s.begun)))
	if ok {
		pause(ctx, time.Duration(wait)+kneeServed/s.haste)
	}
	if ctx.Err() != nil || begun.Sub(s.begun) < kneeWarm/s.haste {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ok {
		s.refused++
		return
	}
	s.latency = append(s.latency, time.Since(begun))
}

// turn takes a place and says how long it is until its turn, unless that is
// longer than the limiter lets anyone wait.
func (s *sweep) turn(now int64) (wait int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait = s.limit.Wait(s.state, 1, now); wait > s.patience {
		return 0, false
	}
	s.state = s.limit.Take(s.state, 1, now)
	return wait, true
}

// report adds what was seen to a sample, in the times of no haste.
func (s *sweep) report(sample Sample, connections int) {
	name := func(metric string) string { return fmt.Sprintf("%s_%d_%d", metric, s.limit.Burst, connections) }
	sample[name("p50")] = ms(quantile(s.latency, .5) * s.haste)
	sample[name("p99")] = ms(quantile(s.latency, .99) * s.haste)
	sample[name("served")] = float64(len(s.latency)) / kneeLength.Seconds()
	sample[name("refused")] = 100 * share(s.refused, s.refused+len(s.latency))
}

// kneeColumn is a metric over the numbers of connections.
func kneeColumn(s Sample, metric string, burst int) []float64 {
	var all []float64
	for _, n := range kneeConns {
		all = append(all, s[fmt.Sprintf("%s_%d_%d", metric, burst, n)])
	}
	return all
}

// kneeCurves are the P99 of all arms and bursts over the connections.
func kneeCurves(r *Result) *Curves {
	c := &Curves{
		Header: []string{"arm", "burst", "connections", "conns_per_burst", "p50_ms", "p99_ms", "served_per_s", "refused_percent"},
		Title:  fmt.Sprintf("knee: P99 in ms over connections, rate %d/s", kneeRate), X: floats(kneeConns),
	}
	for i, a := range r.Arms {
		typical := a.typical()
		for _, burst := range kneeBursts {
			columns := [][]float64{kneeColumn(typical, "p50", burst), kneeColumn(typical, "p99", burst), kneeColumn(typical, "served", burst), kneeColumn(typical, "refused", burst)}
			for j, n := range kneeConns {
				row := []string{a.Name, fmt.Sprint(burst), fmt.Sprint(n), fmt.Sprintf("%.3g", float64(n)/float64(burst))}
				for _, column := range columns {
					row = append(row, fmt.Sprintf("%.4g", column[j]))
				}
				c.Rows = append(c.Rows, row)
			}
			line := Line{Name: fmt.Sprintf("%s, burst %d", a.Name, burst), Y: columns[1], Mark: -1, Dashed: i > 0}
			if a.Name == "wait" {
				if line.Mark = bend(c.X, line.Y); line.Mark >= 0 {
					line.Name += fmt.Sprintf(": knee at conns/burst = %.3g", c.X[line.Mark]/float64(burst))
				}
			}
			c.Lines = append(c.Lines, line)
		}
	}
	return c
}
