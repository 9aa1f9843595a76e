package fleet

import (
	"math"
	"sync/atomic"
	"time"
)

// Pulse counts how the calls of one provider go. Each call says Begin once, and
// Answer, Fail or Leave once. It allocates and locks nothing: the counts are
// read by a Trend.
type Pulse struct {
	waiting  atomic.Int64
	failed   atomic.Uint32
	answered [classes]atomic.Uint32

	version, model atomic.Pointer[string]
}

// Times are kept in classes, each a tenth longer than the one before, from a
// millisecond to an hour: what is read from them is within a twentieth.
const (
	spread  = 1.1
	classes = 160
)

// classOf is the class of a time.
func classOf(d time.Duration) int {
	ms := float64(d) / float64(time.Millisecond)
	if ms <= 1 {
		return 0
	}
	return min(int(math.Ceil(math.Log(ms)/math.Log(spread))), classes-1)
}

// timeOf is the middle of a class, in seconds.
func timeOf(class int) float64 { return 2 * math.Pow(spread, float64(class)) / (1 + spread) / 1000 }

// Begin says that a call is sent.
func (p *Pulse) Begin() { p.waiting.Add(1) }

// Answer says that the first of an answer has come, and after which time.
func (p *Pulse) Answer(after time.Duration) {
	p.waiting.Add(-1)
	p.answered[classOf(after)].Add(1)
}

// Fail says that the provider has failed a call that has not been answered.
func (p *Pulse) Fail() {
	p.waiting.Add(-1)
	p.failed.Add(1)
}

// Break says that an answer has broken off by the provider's fault.
func (p *Pulse) Break() { p.failed.Add(1) }

// Leave says that a call ended without an answer and nobody's fault.
func (p *Pulse) Leave() { p.waiting.Add(-1) }

// Name notes what the provider said it is, and which model was called there.
// "" is not noted.
func (p *Pulse) Name(version, model string) {
	note(&p.version, version)
	note(&p.model, model)
}

func note(at *atomic.Pointer[string], name string) {
	if was := at.Load(); name != "" && (was == nil || *was != name) {
		kept := string(append([]byte(nil), name...)) // it may lie in a buffer of the call
		at.Store(&kept)
	}
}

func text(at *atomic.Pointer[string]) string {
	if s := at.Load(); s != nil {
		return *s
	}
	return ""
}

// Seen is how a provider is doing, or several together.
type Seen struct {
	// Calls is how many calls it is known by; those of a second ago count half,
	// those of two a quarter. With next to none nothing is known.
	Calls float64
	// P95 is the time in seconds within which 95 of 100 answers began; 0 is
	// unknown.
	P95 float64
	// Errors is the part of the calls that failed, from 0 to 1.
	Errors float64
	// Health is from 0 to 1; 1 where nothing is known.
	Health float64
	// Version and Model are the latest that were noted. Of several providers they
	// are what all have in common, else a name that no pattern but * matches.
	Version, Model string
}

// Trend follows a Pulse: it weighs what is new above what is old. It belongs to
// one goroutine.
type Trend struct {
	failedBefore   uint32
	answeredBefore [classes]uint32

	weights  [classes]float64 // of answers by their time
	failures float64
	silent   float64 // seconds in which calls waited and none was answered
	baseline baseline
	version  string
	model    string
}

// fewCalls is how little may be left of calls before they are forgotten: one
// call is for five seconds.
const fewCalls = 0.04

// Follow takes up what the pulse has counted in so many seconds since it was
// called last, and says how the provider is doing.
func (t *Trend) Follow(p *Pulse, seconds float64) Seen {
	keep := math.Exp2(-seconds)
	ended := false
	for i := range t.weights {
		n := p.answered[i].Load()
		came := n - t.answeredBefore[i] // right across an overflow, too
		t.answeredBefore[i] = n
		t.weights[i] = t.weights[i]*keep + float64(came)
		ended = ended || came > 0
	}
	n := p.failed.Load()
	came := n - t.failedBefore
	t.failedBefore = n
	t.failures = t.failures*keep + float64(came)
	if t.silent += seconds; ended || came > 0 || p.waiting.Load() <= 0 {
		t.silent = 0
	}
	t.version, t.model = text(&p.version), text(&p.model)
	s := Together([]*Trend{t})
	if ended {
		t.baseline.learn(s.P95, seconds)
	}
	s.Health = Health(s.Errors, s.P95, t.baseline.p95)
	return s
}

// Together is how several providers are doing: their answers are taken as one
// provider's. Health is left to the caller, as each has a baseline of its own.
func Together(trends []*Trend) Seen {
	s := Seen{Health: 1}
	var weights [classes]float64
	failures, answers, silent := 0.0, 0.0, 0.0
	for _, t := range trends {
		for i, w := range t.weights {
			weights[i] += w
			answers += w
		}
		failures += t.failures
		silent = max(silent, t.silent)
		s.Version, s.Model = either(s.Version, t.version), either(s.Model, t.model)
	}
	if s.Calls = answers + failures; s.Calls < fewCalls {
		s.Calls = 0
	} else {
		s.Errors = failures / s.Calls
		s.P95 = quantile(&weights, 0.95*answers)
	}
	// Calls that wait for an answer that does not come are slower than those that
	// have one.
	if silent > 1 {
		s.P95 = max(s.P95, silent)
	}
	return s
}

// either is the name that two have in common. Providers of different versions
// have none together.
func either(a, b string) string {
	switch {
	case a == "" || a == b:
		return b
	case b == "":
		return a
	}
	return several
}

// several is a name that no provider has.
const several = "\x00"

// quantile is the time in seconds that rank of the answers took at most.
func quantile(weights *[classes]float64, rank float64) float64 {
	if rank <= 0 {
		return 0
	}
	sum := 0.0
	for class, w := range weights {
		if sum += w; sum >= rank {
			return timeOf(class)
		}
	}
	return timeOf(classes - 1)
}
