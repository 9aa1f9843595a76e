package experiment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/lab/fake"
	"github.com/headgate-ai/headgate/lab/load"
)

var spike = &Experiment{
	Name:  "limiter-spike",
	Row:   "B19, O5",
	Title: "a limit that stands still, against one that moves with refusals and with the provider's latency, when demand rises by 370 %",
	Claim: "static: tolerates 180 % of the peak, P99 +320 %, 12.7 % business errors; adaptive: 410 %, +42 %, 0.9 %; the burst went from 240 to 680 within 12 s.",
	Wrong: "to raise a limit helps only where there is headroom behind it; without any the same controller must shed, which the third arm shows.",
	Note: "the real gateway between lab/load and the simulated provider, all in this process. The limit is 40/s with a burst of 80, a third of the claim's, so that two busy cores bear all arms at once; " +
		"40 calls a second for 10 s, then 188 for 60 s (quick: 20/s and 40; 20 calls a second for 2 s, then 94 for 12 s). The provider takes 20 ms, and without headroom serves two calls at once, 10 % more than the limit. " +
		"An error is a refusal, or an answer that takes more than a second; settled is behind the first 12 s (quick: 9 s), in which the limit moves. P99 is of the first token of what is let in; on a busy machine its rise is the machine's own, in all arms. " +
		"tolerance is the highest demand of a ramp, on a gateway of its own whose burst hides nothing, at which at most 5 % fail; quick, the ramp ends at 250 %.",
	Arms: []Arm{{"static", "the limit stands still"}, {"adaptive", "it moves, and the provider has headroom"}, {"full", "it moves, and the provider has none"}},
	Metrics: []Metric{
		{"errors", "%", "errors during the spike, settled"}, {"errors_all", "%", "errors during all of the spike"}, {"errors_calm", "%", "errors before it"},
		{"p99_calm", "ms", "P99 before the spike"}, {"p99", "ms", "P99 during the spike, settled"}, {"p99_rise", "%", "P99, increase by the spike"},
		{"reached", "s", "from the spike's begin to 2.5 × the burst"},
		{"burst", "", "largest burst during the spike, as a multiple"}, {"burst_mean", "", "mean of the burst during the spike, as a multiple"},
		{"tolerance", "%", "highest demand at which at most 5 % fail"},
	},
	Expect: []Expectation{
		{"adaptive, the burst is ≥ 2.5 × within 12 s", func(m map[string]Sample) bool {
			reached, ok := m["adaptive"]["reached"]
			return ok && reached <= 12
		}},
		{"adaptive, less than 2 % fail; static, more than five times as many", func(m map[string]Sample) bool {
			return m["adaptive"]["errors"] < 2 && m["static"]["errors"] > 5*max(m["adaptive"]["errors"], 1)
		}},
		{"adaptive tolerates ≥ 2 × what static does", func(m map[string]Sample) bool {
			return m["static"]["tolerance"] >= 100 && m["adaptive"]["tolerance"] >= 2*m["static"]["tolerance"]
		}},
		{"without headroom the limit is not raised but sheds: the burst is below the configured one on average, and at most 1.8 ×, which is two steps", func(m map[string]Sample) bool {
			return m["full"]["burst_mean"] < 1 && m["full"]["burst"] <= 1.8
		}},
	},
	Rounds: 3, QuickRounds: 1, SideBySide: true,
	Run: runSpike,
}

// spikeYAML is a gateway with one limit in front of one provider.
const spikeYAML = gatewayYAML + `
quota:
  rules:
    - name: spike
      requests: {rate: %d/s, burst: %d}
`

const (
	spikeRise    = 4.7 // + 370 %
	spikeServes  = 20 * time.Millisecond
	spikeTooLate = time.Second
	// spikeMoves lets the limit move up to six times, and down to a quarter; the
	// provider must begin 95 of 100 answers within the time. A machine that is
	// busy with other things takes tens of milliseconds now and then, which must
	// not pass for a provider without headroom.
	spikeMoves = "      adapt: {burst: {floor: 0.25, ceiling: 6, p95: 250ms}}\n"
)

// spikeSize is how large and how long a run is.
type spikeSize struct {
	rate               int // calls a second
	calm, high, settle time.Duration
	// The ramp's levels, as multiples of the rate, and how long each is held,
	// and how much of that is not measured.
	levels       []float64
	held, unseen time.Duration
}

var (
	spikeFull = spikeSize{
		40, 10 * time.Second, 60 * time.Second, 12 * time.Second,
		[]float64{1, 1.25, 1.6, 2, 2.5, 3.2, 4, 5, 6.3, 8}, 5 * time.Second, 3 * time.Second,
	}
	spikeQuick = spikeSize{
		20, 2 * time.Second, 12 * time.Second, 9 * time.Second,
		[]float64{1, 1.25, 1.6, 2, 2.5}, 3 * time.Second, 2 * time.Second,
	}
)

// runSpike has the spike and the ramp at once, each with its own gateway.
func runSpike(ctx context.Context, arm string, r Round) (Sample, error) {
	if r.Gateway == nil {
		return nil, errors.New("this experiment needs a gateway to run, and there is none here")
	}
	size := spikeFull
	if r.Quick {
		size = spikeQuick
	}
	var tolerance float64
	var failed error
	var ramp sync.WaitGroup
	if arm != "full" {
		ramp.Go(func() { tolerance, failed = size.tolerance(ctx, arm, r) })
	}
	sample, err := size.spike(ctx, arm, r)
	ramp.Wait()
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	if arm != "full" {
		sample["tolerance"] = tolerance
	}
	return sample, nil
}

// start runs a gateway with the arm's limit in front of the arm's provider.
func (z *spikeSize) start(ctx context.Context, arm string, burst int, r Round) (url string, stop func(), err error) {
	provider, stopProvider, err := simulator(func(c *fake.Config) {
		c.Seed, c.Tokens, c.FirstToken = r.Seed, fake.Count(4), fake.Wait(spikeServes)
		if arm == "full" {
			c.Slots, c.FirstToken = 2, fake.Wait(2*time.Second*10/11/time.Duration(z.rate))
		}
	})
	if err != nil {
		return "", nil, err
	}
	yaml := fmt.Sprintf(spikeYAML, provider, z.rate, burst)
	if arm != "static" {
		yaml += spikeMoves
	}
	url, stopGateway, err := r.Gateway(ctx, yaml)
	if err != nil {
		stopProvider()
		return "", nil, err
	}
	return url, func() { _ = stopGateway(); stopProvider() }, nil
}

// send asks for answers at a multiple of the rate; the time unseen at its begin
// is not measured.
func (z *spikeSize) send(ctx context.Context, url string, r Round, times float64, length, unseen time.Duration) (*load.Report, error) {
	c := load.Default()
	c.URL, c.Model, c.Stream, c.Seed = url, "sim-small", true, r.Seed
	c.Rate, c.Duration, c.Warmup, c.Timeout, c.InFlight = times*float64(z.rate), length, unseen, spikeTooLate, 10_000
	rep, err := load.Run(ctx, c)
	if err == nil {
		err = ctx.Err()
	}
	return rep, err
}

// spike measures the calm, and then the spike.
func (z *spikeSize) spike(ctx context.Context, arm string, r Round) (Sample, error) {
	url, stop, err := z.start(ctx, arm, 2*z.rate, r)
	if err != nil {
		return nil, err
	}
	defer stop()
	calm, err := z.send(ctx, url, r, 1, z.calm, 0)
	if err != nil {
		return nil, err
	}
	watched := watchBurst(ctx, url)
	moving, settled, err := z.demand(ctx, url, r)
	bursts := watched()
	if err != nil {
		return nil, err
	}
	s := Sample{
		"errors": failedPercent(settled), "errors_all": failedPercent(moving, settled), "errors_calm": failedPercent(calm),
		"p99_calm": calm.TTFT.P99, "p99": settled.TTFT.P99,
	}
	if calm.TTFT.P99 > 0 {
		s["p99_rise"] = 100 * (settled.TTFT.P99/calm.TTFT.P99 - 1)
	}
	bursts.report(s, float64(2*z.rate))
	return s, nil
}

// demand is the spike itself, in the part in which limits move and the rest.
// The second begins on time, whether or not the first has all of its answers.
func (z *spikeSize) demand(ctx context.Context, url string, r Round) (moving, settled *load.Report, err error) {
	var failed error
	var first sync.WaitGroup
	first.Go(func() { moving, failed = z.send(ctx, url, r, spikeRise, z.settle, 0) })
	pause(ctx, z.settle)
	settled, err = z.send(ctx, url, r, spikeRise, z.high-z.settle, 0)
	first.Wait()
	return moving, settled, errors.Join(failed, err)
}

func failedPercent(reports ...*load.Report) float64 {
	var failed, all int64
	for _, r := range reports {
		failed, all = failed+r.Failed, all+r.Requests
	}
	return 100 * share(int(failed), int(all))
}

// tolerance raises the demand until more than one call in twenty fails, and is
// the level before, in per cent of the limit. A level at which too many fail is
// held once more: a limit fails there again, a machine that stumbled does not.
func (z *spikeSize) tolerance(ctx context.Context, arm string, r Round) (float64, error) {
	url, stop, err := z.start(ctx, arm, z.rate/5, r)
	if err != nil {
		return 0, err
	}
	defer stop()
	held := 0.0
	for _, level := range z.levels {
		const tries = 2
		for try := 1; ; try++ {
			rep, err := z.send(ctx, url, r, level, z.held, z.unseen)
			if err != nil {
				return 0, err
			}
			if failedPercent(rep) <= 5 {
				break
			}
			if try == tries {
				return held, nil
			}
		}
		held = 100 * level
	}
	return held, nil
}
