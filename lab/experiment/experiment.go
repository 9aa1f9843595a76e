// Package experiment shows by measurement what a mistake in a gateway costs: it
// runs an arm that makes the mistake and one that does not, in one process tree
// and in turns, and compares the medians with the figures that were claimed for
// it. What was claimed comes from other machines and other models; only the
// shape can be the same, and each experiment says what shape it expects.
//
// All traffic stays on loopback, and every run is bounded: to some minutes, and
// to a few seconds when quick.
//
// Who should import this: cli, for "headgate experiment".
package experiment

import "context"

// Experiment is one before and after.
type Experiment struct {
	Name string
	// Row is where the requirements tell of it.
	Row   string
	Title string
	// Claim is what was claimed, with its figures; Wrong is what was wrong about
	// it, if anything was.
	Claim, Wrong string
	// Note is how it is measured, as far as a reader of the figures must know.
	Note string
	// Arms are what is compared, the mistake first; ratios are to the first.
	Arms    []Arm
	Metrics []Metric
	// Expect is the shape.
	Expect []Expectation
	// Rounds and QuickRounds are how often each arm runs unless told otherwise.
	Rounds, QuickRounds int
	// SideBySide runs a round's arms at once. That is for arms that wait nearly all
	// of their time: they do not take the processor from each other, and what the
	// machine does meanwhile is done to all of them.
	SideBySide bool
	// Run measures one arm once. It leaves nothing running.
	Run func(ctx context.Context, arm string, r Round) (Sample, error)
	// Curves are what a result shows beyond the metrics; nil if there is no more.
	Curves func(r *Result) *Curves
}

// Arm is one of the things compared.
type Arm struct {
	Name  string `json:"name"`
	Title string `json:"title"`
}

// Metric is one figure of a sample.
type Metric struct {
	Name  string `json:"name"`
	Unit  string `json:"unit,omitempty"`
	Title string `json:"title"`
}

// Sample is what one run of one arm has shown, by the metrics' names. A metric
// that cannot be measured here is left out; what is no metric is for curves.
type Sample map[string]float64

// Expectation is a part of the shape.
type Expectation struct {
	Text string
	// Holds is given the medians of all arms by their names.
	Holds func(median map[string]Sample) bool
}

// Round is one turn of all arms.
type Round struct {
	Number int
	// Quick asks for the smallest run that still shows the direction.
	Quick bool
	// Seed is the same for all arms of a round.
	Seed uint64
	// Gateway starts the real gateway; see StartGateway.
	Gateway StartGateway
}

// StartGateway runs a gateway in this process with the given configuration,
// until stop is called. It is handed over, so that experiments need not know
// how a gateway is built.
type StartGateway func(ctx context.Context, yaml string) (url string, stop func() error, err error)

// All are the experiments there are.
var All = []*Experiment{bufferLimit, streamLayer, windowCredit, eventCut, connectionReuse, syncLog, knee, spike, redisLatency}

// Find gives the experiment of that name, nil if there is none.
func Find(name string) *Experiment {
	for _, e := range All {
		if e.Name == name {
			return e
		}
	}
	return nil
}
