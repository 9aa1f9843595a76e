package compare

import (
	"context"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"time"

	"github.com/headgate-ai/headgate/lab/load"
	"github.com/headgate-ai/headgate/lab/procfs"
)

// Result is what one run of a scenario against a target has shown. Times are in
// microseconds unless their names say otherwise; what was not measured is 0.
type Result struct {
	Scenario string `json:"scenario"`
	Target   string `json:"target"`
	Round    int    `json:"round"`

	OK     int64  `json:"ok"`
	Failed int64  `json:"failed"`
	Error  string `json:"error,omitempty"` // an example of what failed
	// Requests and Tokens a second, within the time that is measured.
	RequestsPerSecond float64 `json:"requests_per_s"`
	TokensPerSecond   float64 `json:"tokens_per_s"`
	P50               float64 `json:"p50_us"`
	P99               float64 `json:"p99_us"`
	// TokenP50 and TokenP99 are of the time from a token's stamp to its arrival.
	TokenP50 float64 `json:"token_p50_us"`
	TokenP99 float64 `json:"token_p99_us"`

	CPUPerRequest float64 `json:"cpu_us_per_request"`
	CPUPerToken   float64 `json:"cpu_us_per_token"`
	// Cores are the processors that each was using.
	Cores          float64 `json:"cores"`
	MockCores      float64 `json:"mock_cores"`
	GeneratorCores float64 `json:"generator_cores"`
	OtherCores     float64 `json:"other_cores"`
	LoadAverage    string  `json:"load_average"`
	Tries          int     `json:"tries"`

	Ready     float64 `json:"ready_ms"`
	Resident  int64   `json:"resident_bytes"`
	Open      int64   `json:"open_streams"`
	PerStream float64 `json:"private_bytes_per_stream"`
}

// usage is what everything has used of the processors at a moment.
type usage struct {
	at                            time.Time
	target, mock, generator, busy time.Duration
	requests                      int64
}

// one is a run on its way.
type one struct {
	s            scenario
	mock, target *process // target is nil where the load goes to the mock
	res          *Result
	credential   string
	requests     func() int64

	open    atomic.Int64 // most streams at once
	base    int64        // private memory before
	private int64        // most private memory
	errs    []error
}

// run makes one run, with processes of its own: what an earlier one has grown,
// pooled or left behind is not part of it.
func (b *bench) run(ctx context.Context, s scenario, t target) (*Result, error) {
	dir, err := os.MkdirTemp(b.dir, "run")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	credential, err := t.credential(time.Now())
	if err != nil {
		return nil, err
	}
	o := &one{s: s, credential: credential, res: &Result{Scenario: s.name, Target: t.name, LoadAverage: procfs.LoadAverage()}}
	if o.mock, err = startMock(ctx, s.mock); err != nil {
		return nil, err
	}
	defer o.mock.stop()
	if o.target, err = t.start(ctx, b.binary, dir, "http://"+o.mock.address); err != nil {
		return nil, fmt.Errorf("%s: %w", t.name, err)
	}
	address := o.mock.address
	if o.target != nil {
		defer o.target.stop()
		address = o.target.address
		o.res.Ready = float64(o.target.ready) / 1e6
	}
	if err := o.measure(ctx, address); err != nil {
		return nil, fmt.Errorf("%s, %s: %w", s.name, t.name, err)
	}
	if len(o.errs) > 0 {
		return nil, fmt.Errorf("%s, %s: %w", s.name, t.name, o.errs[0])
	}
	return o.res, ctx.Err()
}

func (o *one) measure(ctx context.Context, address string) error {
	switch {
	case o.s.name == idle:
		sleep(ctx, o.s.measure)
		m, err := procfs.MemoryOf(o.target.pid())
		o.res.Resident = m.Resident
		return err
	case o.s.connections > 0:
		return o.hammer(ctx, address)
	}
	return o.load(ctx, address)
}

// hammer is the closed loop.
func (o *one) hammer(ctx context.Context, address string) error {
	text := o.s.mock.Text()
	request := chatRequest(address, clientModel, o.credential, o.s.prompt)
	if _, err := probe(ctx, address, request, text); err != nil {
		return err
	}
	var h hammer
	o.requests = h.ok.Load
	start := time.Now()
	from := start.Add(o.s.warm)
	watched := o.watch(ctx, start)
	h.run(ctx, address, o.s.connections, request, text, from, from.Add(o.s.measure))
	before, after := watched()
	o.res.OK, o.res.Failed, o.res.Error = h.ok.Load(), h.failed, h.example
	o.res.P50, o.res.P99 = micro(h.latency.Quantile(.5)), micro(h.latency.Quantile(.99))
	o.account(before, after, float64(after.requests-before.requests), 0)
	return nil
}

// load is the open loop.
func (o *one) load(ctx context.Context, address string) error {
	c := load.Default()
	c.URL, c.Model, c.Key = "http://"+address, clientModel, o.credential
	c.PromptBytes, c.MaxTokens, c.Stream = o.s.prompt, 256, o.s.mock.Stream
	c.Rate, c.InFlight, c.Requests = o.s.rate, 100_000, 10_000_000
	c.Warmup, c.Duration = o.s.warm, o.s.warm+o.s.measure
	c.Progress = func(p load.Progress) { o.open.Store(max(o.open.Load(), p.Open)) }
	length := 0
	if !c.Stream {
		var err error
		if length, err = probe(ctx, address, chatRequest(address, c.Model, c.Key, o.s.prompt), o.s.mock.Text()); err != nil {
			return err
		}
	}
	if o.s.streams > 0 {
		// All that are opened are measured; the time of opening is the warm-up of
		// the processes, not of the streams.
		c.Requests, c.Warmup = o.s.streams, 0
		if err := o.rest(ctx); err != nil {
			return err
		}
	}
	watched := o.watch(ctx, time.Now())
	rep, err := load.Run(ctx, c)
	if err != nil {
		return err
	}
	before, after := watched()
	o.report(rep, length)
	requests, tokens := inside(rep.Series, rep.Elapsed, o.s.warm, o.s.warm+o.s.measure)
	o.account(before, after, requests, tokens)
	if o.s.streams > 0 && o.target != nil {
		o.res.Open = o.open.Load()
		o.res.PerStream = float64(o.private-o.base) / float64(max(1, o.res.Open))
	}
	return nil
}

// rest measures the memory of a target that has done nothing yet.
func (o *one) rest(ctx context.Context) error {
	if o.target == nil {
		return nil
	}
	sleep(ctx, 500*time.Millisecond)
	m, err := procfs.MemoryOf(o.target.pid())
	o.base = m.Private
	return err
}

// report takes over what the load has seen.
func (o *one) report(rep *load.Report, length int) {
	r := o.res
	r.OK, r.Failed = rep.OK, rep.Failed
	for _, kind := range load.Kinds {
		if rep.Errors[kind] > 0 && r.Error == "" {
			r.Error = fmt.Sprintf("%s: %.200s", kind, rep.Examples[kind])
		}
	}
	r.P50, r.P99 = rep.Latency.P50*1e3, rep.Latency.P99*1e3
	if rep.Added != nil {
		r.TokenP50, r.TokenP99 = rep.Added.P50*1e3, rep.Added.P99*1e3
	}
	// lab/load finds that an answer is whole and JSON; whether it is the mock's
	// shows in its length, all of them being the same.
	if length > 0 && rep.OK > 0 && rep.Failed == 0 && rep.RequestsPerSecond > 0 {
		if mean := rep.BytesPerSecond / rep.RequestsPerSecond; math.Abs(mean-float64(length)) > .05 {
			r.Failed++
			r.Error = fmt.Sprintf("answers of %.2f bytes, not of %d", mean, length)
		}
	}
}

// inside counts the requests that ended and the tokens that came within a part
// of a run. What came after the end of the load counts in the last slot, which
// begins there.
func inside(series []load.Point, elapsed float64, from, to time.Duration) (requests, tokens float64) {
	for i, p := range series {
		end := elapsed
		if i+1 < len(series) {
			end = series[i+1].At
		}
		width := end - p.At
		if middle := p.At + width/2; middle > from.Seconds() && middle < to.Seconds() {
			requests += (p.OK + p.Failed) * width
			tokens += p.Tokens * width
		}
	}
	return requests, tokens
}

// watch reads what is used at both ends of the time that is measured, and
// memory between them. The result waits for the second.
func (o *one) watch(ctx context.Context, start time.Time) func() (before, after usage) {
	var before, after usage
	done := make(chan struct{})
	go func() {
		defer close(done)
		from := start.Add(o.s.warm)
		until := from.Add(o.s.measure)
		sleep(ctx, time.Until(from))
		before = o.usage()
		for o.s.streams > 0 && time.Now().Before(until) && ctx.Err() == nil {
			if o.target != nil {
				m, err := procfs.MemoryOf(o.target.pid())
				o.note(err)
				o.private = max(o.private, m.Private)
			}
			sleep(ctx, min(250*time.Millisecond, time.Until(until)))
		}
		sleep(ctx, time.Until(until))
		after = o.usage()
		if o.target != nil {
			m, err := procfs.MemoryOf(o.target.pid())
			o.note(err)
			o.res.Resident, o.private = m.Resident, max(o.private, m.Private)
		}
	}()
	return func() (usage, usage) { <-done; return before, after }
}

func (o *one) note(err error) {
	if err != nil {
		o.errs = append(o.errs, err)
	}
}

func (o *one) usage() usage {
	u := usage{at: time.Now()}
	var err error
	if o.target != nil {
		u.target, err = procfs.CPU(o.target.pid())
		o.note(err)
	}
	u.mock, err = procfs.Own(o.mock.pid())
	o.note(err)
	u.generator, err = procfs.Own(os.Getpid())
	o.note(err)
	u.busy, err = procfs.Busy()
	o.note(err)
	if o.requests != nil {
		u.requests = o.requests()
	}
	return u
}

// account works out who used what, for each request and token.
func (o *one) account(before, after usage, requests, tokens float64) {
	r, seconds := o.res, after.at.Sub(before.at).Seconds()
	if seconds <= 0 {
		return // the run was broken off
	}
	part := func(a, b time.Duration) float64 { return (b - a).Seconds() / seconds }
	r.Cores, r.MockCores, r.GeneratorCores = part(before.target, after.target), part(before.mock, after.mock), part(before.generator, after.generator)
	r.OtherCores = max(0, part(before.busy, after.busy)-r.Cores-r.MockCores-r.GeneratorCores)
	r.RequestsPerSecond, r.TokensPerSecond = requests/seconds, tokens/seconds
	cpu := micro(after.target - before.target)
	if requests > 0 {
		r.CPUPerRequest = cpu / requests
	}
	if tokens > 0 {
		r.CPUPerToken = cpu / tokens
	}
}

func micro(d time.Duration) float64 { return float64(d) / 1e3 }

// sleep waits, but not longer than ctx.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
