package compare

import (
	"fmt"
	"math"
	"slices"
)

// round is one round's runs of a scenario: of the target in question, of the
// bare proxy, without anything in between, and of the gateway as it is by
// default. Ratios and differences are taken within it, so that what changes on
// the machine from round to round falls out. Any but the target may be nil.
type round struct{ target, base, direct, plain *Result }

// figure is a row of the table: what is promised, and how it is worked out.
type figure struct {
	name      string
	scenarios []string // the rounds of several are added up
	unit      string
	must, aim float64
	// more is that higher is better; worst is that every round must do, not the
	// median.
	more, worst bool
	// only is the one target that a figure is about; "" is every one.
	only  string
	value func(round) float64
	// absolute is the figure behind a ratio.
	absolute     func(*Result) float64
	absoluteUnit string
}

const (
	kibibyte = 1 << 10
	mebibyte = 1 << 20
)

// toBase is a ratio to the bare proxy.
func toBase(of func(*Result) float64) func(round) float64 {
	return func(t round) float64 {
		if t.base == nil {
			return math.NaN()
		}
		return ratio(of(t.target), of(t.base))
	}
}

func cpuRequest(r *Result) float64 { return r.CPUPerRequest }
func cpuToken(r *Result) float64   { return r.CPUPerToken }
func throughput(r *Result) float64 { return r.RequestsPerSecond }
func perStream(r *Result) float64  { return r.PerStream / kibibyte }
func failures(r *Result) float64   { return float64(r.Failed) }
func resident(r *Result) float64   { return float64(r.Resident) / mebibyte }
func readiness(r *Result) float64  { return r.Ready }

// addedP50 is a ratio of differences: what the target adds to the way without
// it, to what the bare proxy adds. A target that seems to add less than nothing
// says that the machine was busier without it, and nothing about the target.
func addedP50(t round) float64 {
	if t.base == nil || t.direct == nil || t.target.P50 <= t.direct.P50 {
		return math.NaN()
	}
	return ratio(t.target.P50-t.direct.P50, t.base.P50-t.direct.P50)
}

// addedChunk is by how much the 99th percentile of a token's delay is higher
// than it is without anything in between, in milliseconds.
func addedChunk(t round) float64 {
	if t.direct == nil {
		return math.NaN()
	}
	return max(0, t.target.TokenP99-t.direct.TokenP99) / 1e3
}

func plain(of func(*Result) float64) func(round) float64 {
	return func(t round) float64 { return of(t.target) }
}

// toPlain is by how much a figure is higher than that of the gateway as it is by
// default. Noise can make it less than nothing.
func toPlain(of func(*Result) float64) func(round) float64 {
	return func(t round) float64 {
		if t.plain == nil {
			return math.NaN()
		}
		return of(t.target) - of(t.plain)
	}
}

// figures are what issue 3 promises, and what the one of admission does.
func figures(streams int) []figure {
	return []figure{
		{name: "CPU per unary request (unary)", scenarios: []string{unary}, unit: " ×", must: .75, aim: .5, value: toBase(cpuRequest), absolute: cpuRequest, absoluteUnit: " µs"},
		{name: "throughput, 64 connections (closed)", scenarios: []string{closed}, unit: " ×", must: 1.4, aim: 2.2, more: true, value: toBase(throughput), absolute: throughput, absoluteUnit: "/s"},
		{name: "added p50 (unary)", scenarios: []string{unary}, unit: " ×", must: .8, aim: .5, value: addedP50, absolute: func(r *Result) float64 { return r.P50 }, absoluteUnit: " µs in all"},
		{name: "CPU per 64 KiB request (big)", scenarios: []string{big}, unit: " ×", must: .7, aim: .45, value: toBase(cpuRequest), absolute: cpuRequest, absoluteUnit: " µs"},
		{name: "CPU per streamed token (stream)", scenarios: []string{stream}, unit: " ×", must: 1, aim: .8, value: toBase(cpuToken), absolute: cpuToken, absoluteUnit: " µs"},
		{name: "added chunk p99 (stream)", scenarios: []string{stream}, unit: " ms", must: 2, aim: 1, value: addedChunk, absolute: func(r *Result) float64 { return r.TokenP99 / 1e3 }, absoluteUnit: " ms in all"},
		{name: fmt.Sprintf("private memory per open stream (hold %d)", streams), scenarios: []string{hold}, unit: " KiB", must: 40, aim: 24, value: plain(perStream), absolute: perStream, absoluteUnit: " KiB"},
		{name: "truncated or lost streams", scenarios: []string{stream, hold}, worst: true, value: plain(failures), absolute: failures},
		{name: "other errors", scenarios: []string{unary, big, closed}, worst: true, value: plain(failures), absolute: failures},
		{name: fmt.Sprintf("idle RSS with %d keys", keyCount), scenarios: []string{idle}, unit: " MiB", must: 30, aim: 20, value: plain(resident), absolute: resident, absoluteUnit: " MiB"},
		{name: "CPU that admission adds to a request (closed)", scenarios: []string{closed}, unit: " µs", must: 15, aim: 8, only: admission, value: toPlain(cpuRequest), absolute: cpuRequest, absoluteUnit: " µs in all"},
		{name: "start to ready", scenarios: []string{idle}, unit: " ms", must: 500, aim: 200, value: plain(readiness), absolute: readiness, absoluteUnit: " ms"},
	}
}

// meets is whether a figure reaches a bound.
func (f figure) meets(s spread, bound float64) bool {
	v := s.Median
	if f.worst {
		v = s.High
	}
	if f.more {
		return v >= bound
	}
	return v <= bound
}

// verdict is how a figure does.
func (f figure) verdict(s spread) string {
	switch {
	case s.Rounds == 0:
		return unknown
	case !f.meets(s, f.must):
		return missed
	case !f.meets(s, f.aim):
		return "must"
	}
	return "aim"
}

// The verdicts that fail the gate.
const (
	missed = "MISSED"
	// unknown is that the runs give no such figure, for noise or for want of
	// another target's.
	unknown = "NO FIGURE"
)

// rounds are the runs of all rounds.
type rounds []*Result

// find is the run of a round, nil if there is none.
func (rs rounds) find(round int, scenario, target string) *Result {
	for _, r := range rs {
		if r.Round == round && r.Scenario == scenario && r.Target == target {
			return r
		}
	}
	return nil
}

// ran is whether a target has had one of some scenarios.
func (rs rounds) ran(scenarios []string, target string) bool {
	return slices.ContainsFunc(rs, func(r *Result) bool { return r.Target == target && slices.Contains(scenarios, r.Scenario) })
}

func (rs rounds) count() (n int) {
	for _, r := range rs {
		n = max(n, r.Round)
	}
	return n
}

// over is a figure of each round for a target, those of several scenarios
// added up.
func (rs rounds) over(scenarios []string, target string, value func(round) float64) spread {
	var values []float64
	for n := 1; n <= rs.count(); n++ {
		sum, known := 0.0, false
		for _, s := range scenarios {
			if r := rs.find(n, s, target); r != nil {
				sum, known = sum+value(round{r, rs.find(n, s, baseline), rs.find(n, s, direct), rs.find(n, s, headgate)}), true
			}
		}
		if known {
			values = append(values, sum)
		}
	}
	return spreadOf(values)
}

// half is what one of our own halves saves of the processor's time.
type half struct {
	name          string
	with, without string
	needs         float64 // the share that makes it the default
}

var halves = []half{
	{"own client", ownClient, standard, .20},
	{"own server", headgate, ownClient, .15},
	{"both", headgate, standard, 0},
}

// saved is the share of the processor's time that a half saves, in percent.
func (rs rounds) saved(h half, scenario string, of func(*Result) float64) spread {
	var values []float64
	for round := 1; round <= rs.count(); round++ {
		with, without := rs.find(round, scenario, h.with), rs.find(round, scenario, h.without)
		if with != nil && without != nil {
			values = append(values, 100*(1-ratio(of(with), of(without))))
		}
	}
	return spreadOf(values)
}
