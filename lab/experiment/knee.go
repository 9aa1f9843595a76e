package experiment

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/internal/quota/gcra"
)

// kneeConns are the numbers of connections of the sweep.
var kneeConns = []int{10, 25, 50, 70, 90, 120, 180, 200}

var knee = &Experiment{
	Name:  "knee",
	Row:   "B16, O13",
	Title: "a limiter that makes callers wait, against one that refuses who would wait too long, over the number of connections",
	Claim: "beyond conns/burst = 1.8 the P99 rises 3.2 ×; at 50, 90 and 120 connections and a burst of 100 by 8, 140 and 680 %.",
	Wrong: "the burst only hides the knee for a while. It lies where the connections together ask for more than the rate; from there each one waits for all others, N/rate. " +
		"A wait that is bounded keeps the latency of those who are let in, and tells the rest at once.",
	Note: "rate 500/s, burst 100, closed loop; every connection thinks for 100 ms between two calls, a call takes 2 ms; 2 s for each number of connections, behind half a second that is not counted. " +
		"Times are a tenth of the claim's. bounded refuses a wait of more than 5 ms.",
	Arms:    []Arm{{"wait", "everyone waits their turn"}, {"bounded", "a wait of more than 5 ms is refused"}},
	Metrics: kneeMetrics(),
	Expect: []Expectation{
		{"waiting, P99 at 200 connections is ≥ 10 × that at 25", func(m map[string]Sample) bool { return m["wait"]["p99_200"] >= 10*m["wait"]["p99_25"] }},
		{"bounded, P99 of those let in stays within the 5 ms that they may wait, and 2 ms of timers, of that at 25 connections", func(m map[string]Sample) bool {
			return m["bounded"]["p99_200"] <= m["bounded"]["p99_25"]+7
		}},
		{"bounded refuses nobody below the knee, and more than a quarter at 200 connections", func(m map[string]Sample) bool {
			return m["bounded"]["refused_25"] == 0 && m["bounded"]["refused_200"] > 25
		}},
		{"the knee lies between 25 and 120 connections", func(m map[string]Sample) bool { return m["wait"]["knee"] >= 0.25 && m["wait"]["knee"] <= 1.2 }},
	},
	Rounds: 3, QuickRounds: 1,
	Run: runKnee,
}

func kneeMetrics() []Metric {
	var all []Metric
	for _, n := range kneeConns {
		all = append(all, Metric{fmt.Sprintf("p99_%d", n), "ms", fmt.Sprintf("P99, %d connections", n)})
	}
	return append(all,
		Metric{"knee", "", "knee, as connections / burst"},
		Metric{"refused_25", "%", "refused at 25 connections"}, Metric{"refused_200", "%", "refused at 200 connections"})
}

func runKnee(ctx context.Context, arm string, r Round) (Sample, error) {
	conns, warm, length := kneeConns, 500*time.Millisecond, 2*time.Second
	if r.Quick {
		conns, warm, length = []int{10, 25, 50, 90, 200}, 300*time.Millisecond, 500*time.Millisecond
	}
	sample := Sample{}
	var curve []float64
	for _, n := range conns {
		s := sweep{burst: 100, patience: math.MaxInt64, begun: time.Now(), warm: warm}
		if arm == "bounded" {
			s.patience = int64(5 * time.Millisecond)
		}
		s.run(ctx, n, length)
		p99 := ms(quantile(s.latency, .99))
		sample[fmt.Sprintf("p99_%d", n)] = p99
		curve = append(curve, p99)
		if n == 25 || n == 200 {
			sample[fmt.Sprintf("refused_%d", n)] = 100 * float64(s.refused) / float64(max(1, s.refused+len(s.latency)))
		}
	}
	if arm == "wait" {
		sample["knee"] = kneeOf(conns, curve) / 100
	}
	return sample, ctx.Err()
}

// kneeOf is the number of connections at which the curve bends most: where the
// straight line from its first to its last point is farthest above it.
func kneeOf(conns []int, curve []float64) float64 {
	last := len(curve) - 1
	x0, x1 := float64(conns[0]), float64(conns[last])
	best, at := 0.0, x0
	for i, y := range curve {
		x := float64(conns[i])
		line := curve[0] + (curve[last]-curve[0])*(x-x0)/(x1-x0)
		if line-y > best {
			best, at = line-y, x
		}
	}
	return at
}

// sweep is one number of connections.
type sweep struct {
	burst, patience int64
	begun           time.Time
	warm            time.Duration

	mu      sync.Mutex // guards what follows
	state   gcra.State
	latency []time.Duration
	refused int
}

func (s *sweep) run(ctx context.Context, connections int, length time.Duration) {
	ctx, stop := context.WithTimeout(ctx, s.warm+length)
	defer stop()
	var wg sync.WaitGroup
	for i := range connections {
		wg.Go(func() {
			pause(ctx, time.Duration(i)*100*time.Millisecond/time.Duration(connections))
			for ctx.Err() == nil {
				s.call(ctx)
				pause(ctx, 100*time.Millisecond)
			}
		})
	}
	wg.Wait()
}

// call waits its turn, does its work and notes how long that took.
func (s *sweep) call(ctx context.Context) {
	begun := time.Now()
	wait, ok := s.turn(int64(begun.Sub(s.begun)))
	if ok {
		pause(ctx, time.Duration(wait)+2*time.Millisecond)
	}
	if ctx.Err() != nil || begun.Sub(s.begun) < s.warm {
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
	l := gcra.Limit{Count: 500, Period: 1e9, Burst: s.burst}
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait = l.Wait(s.state, 1, now); wait > s.patience {
		return 0, false
	}
	s.state = l.Take(s.state, 1, now)
	return wait, true
}
