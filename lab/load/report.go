package load

import (
	"math"
	"runtime"
	"time"
)

// Report is what a run has shown. Times are in milliseconds unless their names
// say otherwise.
type Report struct {
	Target      string  `json:"target"`
	Dialect     string  `json:"dialect"`
	Model       string  `json:"model"`
	Stream      bool    `json:"stream"`
	Loop        string  `json:"loop"` // open or closed
	Pattern     Pattern `json:"pattern,omitempty"`
	Rate        float64 `json:"rate_per_s,omitempty"`
	Connections int     `json:"connections,omitempty"`
	Sessions    int     `json:"sessions,omitempty"`
	Seed        uint64  `json:"seed"`
	CPUs        int     `json:"cpus"`

	Started string  `json:"started"`
	Elapsed float64 `json:"elapsed_s"`
	// Requests counts what was measured; Aborted is what the end of the run
	// broke off.
	Requests          int64   `json:"requests"`
	OK                int64   `json:"ok"`
	Failed            int64   `json:"failed"`
	Aborted           int64   `json:"aborted,omitempty"`
	RequestsPerSecond float64 `json:"requests_per_s"` // that succeeded
	TokensPerSecond   float64 `json:"tokens_per_s"`
	BytesPerSecond    float64 `json:"bytes_per_s"`

	// Latency is charged from when a request was due, Service from when it was
	// sent; Lag is the difference, the wait for a place among those in flight
	// and the delay of the tool's own timer.
	Latency Percentiles `json:"latency_ms"`
	Service Percentiles `json:"service_ms"`
	Lag     Percentiles `json:"lag_ms"`
	// TTFT, Gap and Added are those of streams. Added is the time from a token's
	// stamp to its arrival.
	TTFT  *Percentiles `json:"ttft_ms,omitempty"`
	Gap   *Percentiles `json:"gap_ms,omitempty"`
	Added *Percentiles `json:"added_ms,omitempty"`
	// Phases are the parts of an exchange, each by itself: name lookup, connect,
	// TLS, from the connection to the first byte, from there to the end, all.
	Phases Phases `json:"phases_ms"`
	// Reused is the share of requests whose connection was in use before.
	Reused float64 `json:"connections_reused"`

	Errors   map[Kind]int64  `json:"errors"`
	Statuses map[int]int64   `json:"statuses,omitempty"` // of the kind status
	Examples map[Kind]string `json:"examples,omitempty"`
	Tokens   Tokens          `json:"tokens"`
	Process  *Process        `json:"process,omitempty"`
	Series   []Point         `json:"series"`

	curves []curve
}

// Tokens counts the tokens of streams; where they bear no stamps, content
// events, and nothing is known of losses.
type Tokens struct {
	Received   int64 `json:"received"`
	Lost       int64 `json:"lost"`
	Duplicate  int64 `json:"duplicate"`
	OutOfOrder int64 `json:"out_of_order"`
}

// Phases are the parts of an exchange.
type Phases struct {
	DNS       Percentiles `json:"dns"`
	Connect   Percentiles `json:"connect"`
	TLS       Percentiles `json:"tls"`
	FirstByte Percentiles `json:"first_byte"`
	Transfer  Percentiles `json:"transfer"`
	Total     Percentiles `json:"total"`
}

// curve is a line of the percentile plot.
type curve struct {
	name   string
	points [][2]float64 // share, milliseconds
}

func (r *runner) report(elapsed time.Duration, w *processWatch) *Report {
	c, t := r.cfg, r.tally
	rep := &Report{
		Target: r.maker.url.String(), Dialect: r.maker.dialect, Model: c.Model, Stream: c.Stream, Loop: "closed", Sessions: c.Sessions, Seed: c.Seed,
		CPUs: runtime.NumCPU(), Started: r.start.UTC().Format(time.RFC3339), Elapsed: round(elapsed.Seconds()),
		OK: t.ok.Load(), Failed: t.failed.Load(), Aborted: t.aborted.Load(),
		Latency: t.latency.Percentiles(), Service: t.service.Percentiles(), Lag: t.lag.Percentiles(),
		Errors: t.errors, Statuses: t.statuses, Examples: t.examples, Series: r.series.points(elapsed),
		Tokens: Tokens{t.tokens.Load(), t.lost.Load(), t.duplicate.Load(), t.late.Load()},
	}
	rep.Requests = rep.OK + rep.Failed
	if c.Rate > 0 {
		rep.Loop, rep.Rate, rep.Pattern = "open", c.Rate, c.Pattern
	} else {
		rep.Connections = c.Connections
	}
	rep.rates(t, elapsed-c.Warmup)
	rep.Phases = Phases{
		t.dns.Percentiles(), t.connect.Percentiles(), t.tls.Percentiles(), t.firstByte.Percentiles(), t.transfer.Percentiles(), t.totalPhase.Percentiles(),
	}
	rep.curves = append(rep.curves, curveOf("latency", &t.latency))
	if c.Stream {
		rep.streams(t)
	}
	rep.process(w)
	return rep
}

func (rep *Report) rates(t *tally, measured time.Duration) {
	if s := measured.Seconds(); s > 0 {
		rep.RequestsPerSecond = round(float64(rep.OK) / s)
		rep.TokensPerSecond = round(float64(t.tokens.Load()) / s)
		rep.BytesPerSecond = round(float64(t.bytes.Load()) / s)
	}
	if n := t.conns.Load(); n > 0 {
		rep.Reused = round(float64(t.reused.Load()) / float64(n))
	}
}

// streams adds what only streams have.
func (rep *Report) streams(t *tally) {
	summary := func(name string, h *Histogram) *Percentiles {
		p := h.Percentiles()
		if p.Count > 0 {
			rep.curves = append(rep.curves, curveOf(name, h))
		}
		return &p
	}
	rep.TTFT, rep.Gap = summary("first token", &t.ttft), summary("gap", &t.gaps)
	if t.added.Count() > 0 {
		rep.Added = summary("added", &t.added)
	}
}

func (rep *Report) process(w *processWatch) {
	if w.pid == 0 {
		return
	}
	rep.Process = &Process{PID: w.pid, CPU: round(w.cpu.Seconds()), PeakRSS: w.peak}
	if rep.Requests > 0 {
		rep.Process.CPUPerRequest = milliseconds(w.cpu / time.Duration(rep.Requests))
	}
}

// curveOf has points from the median to the share that the count can tell.
func curveOf(name string, h *Histogram) curve {
	c := curve{name: name}
	n := float64(h.Count())
	for x := 0.0; x <= 4.001; x += 0.05 {
		q := 1 - math.Pow(10, -x)
		if x > 0 && n*(1-q) < 1 {
			break
		}
		c.points = append(c.points, [2]float64{q, float64(h.Quantile(q)) / 1e6})
	}
	return c
}

func round(v float64) float64 { return math.Round(v*1000) / 1000 }
