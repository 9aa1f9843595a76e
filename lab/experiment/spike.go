package experiment

import (
	"context"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/internal/quota/adapt"
	"github.com/headgate-ai/headgate/internal/quota/gcra"
)

var spike = &Experiment{
	Name:  "limiter-spike",
	Row:   "B19, O5",
	Title: "a limit that stands still, against one that moves with refusals and with the provider's latency, when demand rises by 370 %",
	Claim: "static: tolerates 180 % of the peak, P99 +320 %, 12.7 % business errors; adaptive: 410 %, +42 %, 0.9 %; the burst went from 240 to 680 within 12 s.",
	Wrong: "to raise a limit helps only where there is headroom behind it. Without any the same controller must shed, which the third arm shows.",
	Note: "limit 120/s with a burst of 240; 120 calls a second, then 564 for as long again; times are a tenth of the claim's, so the controller acts every 100 ms and 12 s are 1.2 s. " +
		"The provider takes 5 ms and serves 100 calls at once (full: 2), beyond which they queue. An error is a refusal, or an answer after 250 ms. tolerance is the demand at which errors reach 5 %, as a part of 120/s, in a ramp of its own.",
	Arms: []Arm{{"static", "the limit stands still"}, {"adaptive", "it moves, and the provider has headroom"}, {"full", "it moves, and the provider has none"}},
	Metrics: []Metric{
		{"errors", "%", "errors during the spike, behind its first 1.2 s"}, {"p99", "ms", "P99 of what was let in"},
		{"burst", "", "largest burst within 1.2 s of the spike's begin"}, {"tolerance", "%", "demand at which 5 % fail"},
	},
	Expect: []Expectation{
		{"adaptive, the burst is ≥ 2.5 × 240 within 1.2 s", func(m map[string]Sample) bool { return m["adaptive"]["burst"] >= 2.5*240 }},
		{"adaptive, less than 2 % fail; static, more than five times as many", func(m map[string]Sample) bool {
			return m["adaptive"]["errors"] < 2 && m["static"]["errors"] > 5*max(m["adaptive"]["errors"], 1)
		}},
		{"adaptive tolerates ≥ 2 × what static does", func(m map[string]Sample) bool { return m["adaptive"]["tolerance"] >= 2*m["static"]["tolerance"] }},
		{"without headroom the burst is not raised", func(m map[string]Sample) bool { return m["full"]["burst"] <= 1.4*240 }},
	},
	Rounds: 3, QuickRounds: 1,
	Run: runSpike,
}

const (
	spikeRate, spikeBurst = 120, 240
	spikeSlow             = 250 * time.Millisecond
	spikeTick             = 100 * time.Millisecond
)

func runSpike(ctx context.Context, arm string, r Round) (Sample, error) {
	calm, high := time.Second, 4*time.Second
	if r.Quick {
		calm, high = 500*time.Millisecond, 2500*time.Millisecond
	}
	p := newProtected(arm)
	stop := p.control(ctx)
	p.send(ctx, spikeRate, calm)
	p.reset()
	p.send(ctx, spikeRate*4.7, 1200*time.Millisecond)
	sample := Sample{"burst": p.largest()}
	p.reset()
	p.send(ctx, spikeRate*4.7, high-1200*time.Millisecond)
	errors, _ := p.failed()
	sample["errors"], sample["p99"] = 100*errors, ms(p.p99())
	stop()
	if arm != "full" {
		sample["tolerance"] = tolerance(ctx, arm, r.Quick)
	}
	return sample, ctx.Err()
}

// tolerance raises the demand until one call in twenty fails.
func tolerance(ctx context.Context, arm string, quick bool) float64 {
	const step = 400 * time.Millisecond
	rise := 0.5
	if quick {
		rise = 1
	}
	p := newProtected(arm)
	defer p.control(ctx)()
	p.state = p.limit().Take(p.state, spikeBurst, 0) // no burst hides the limit
	for demand := 1.0; demand < 8 && ctx.Err() == nil; demand += rise {
		p.send(ctx, spikeRate*demand, step+step/2) // time to adapt
		p.reset()
		p.send(ctx, spikeRate*demand, step)
		if errors, _ := p.failed(); errors > 0.05 {
			return 100 * demand
		}
	}
	return 800
}

// protected is a provider behind a limit.
type protected struct {
	begun    time.Time
	adaptive bool
	slots    chan struct{}

	mu       sync.Mutex // guards what follows
	state    gcra.State
	burst    adapt.Burst
	refused  int
	latency  []time.Duration // of the calls that were let in
	tick     adapt.Seen      // since the controller last looked
	recent   []time.Duration
	greatest float64
}

func newProtected(arm string) *protected {
	slots := 100
	if arm == "full" {
		slots = 2
	}
	return &protected{begun: time.Now(), adaptive: arm != "static", slots: make(chan struct{}, slots), greatest: spikeBurst}
}

// limit is the limit of the moment. It is called with mu held.
func (p *protected) limit() gcra.Limit {
	f := p.burst.Factor()
	return gcra.Limit{Count: max(1, int64(spikeRate*f)), Period: int64(time.Second), Burst: max(1, int64(spikeBurst*f))}
}

// control moves the limit until it is stopped.
func (p *protected) control(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(spikeTick); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				p.adapt()
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (p *protected) adapt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.tick
	seen.P95 = quantile(p.recent, .95).Seconds()
	p.tick, p.recent = adapt.Seen{}, nil
	if !p.adaptive {
		return
	}
	was := p.limit()
	p.burst = p.burst.Next(adapt.BurstRule{Floor: 0.25, Ceiling: 8, P95: 0.05}, seen)
	p.state = p.limit().Adopt(was, p.state, int64(time.Since(p.begun)))
	p.greatest = max(p.greatest, float64(p.limit().Burst))
}

// send makes calls at a fixed rate for a time, and waits for their answers.
func (p *protected) send(ctx context.Context, rate float64, length time.Duration) {
	var wg sync.WaitGroup
	begun := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		at := time.Duration(float64(n) / rate * float64(time.Second))
		if at >= length {
			break
		}
		pause(ctx, time.Until(begun.Add(at)))
		wg.Go(func() { p.call(ctx) })
	}
	wg.Wait()
}

func (p *protected) call(ctx context.Context) {
	begun := time.Now()
	if !p.admit(int64(begun.Sub(p.begun))) {
		return
	}
	select {
	case p.slots <- struct{}{}:
		pause(ctx, 5*time.Millisecond)
		<-p.slots
	case <-time.After(2 * spikeSlow):
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	took := time.Since(begun)
	p.latency, p.recent = append(p.latency, took), append(p.recent, took)
}

func (p *protected) admit(now int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.limit()
	if l.Wait(p.state, 1, now) > 0 {
		p.refused++
		p.tick.Refused++
		return false
	}
	p.state = l.Take(p.state, 1, now)
	p.tick.Admitted++
	return true
}

// reset begins to count anew.
func (p *protected) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused, p.latency = 0, nil
}

// failed is the part of the calls that were refused or came too late.
func (p *protected) failed() (part float64, calls int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := 0
	for _, d := range p.latency {
		if d > spikeSlow {
			late++
		}
	}
	calls = p.refused + len(p.latency)
	return float64(p.refused+late) / float64(max(1, calls)), calls
}

func (p *protected) p99() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return quantile(p.latency, .99)
}

func (p *protected) largest() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.greatest
}
