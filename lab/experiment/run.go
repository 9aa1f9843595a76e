package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"
)

// Options are how to run an experiment.
type Options struct {
	// Rounds is how often each arm runs; 0 is the experiment's own number.
	Rounds  int
	Quick   bool
	Gateway StartGateway
	// Progress is told before each run of an arm.
	Progress func(arm string, done, all int)
}

// maxRounds bounds what can be asked for.
const maxRounds = 100

// Result is what an experiment has shown.
type Result struct {
	Experiment  string            `json:"experiment"`
	Row         string            `json:"row"`
	Title       string            `json:"title"`
	Claim       string            `json:"claim"`
	Wrong       string            `json:"wrong,omitempty"`
	Note        string            `json:"note,omitempty"`
	Quick       bool              `json:"quick"`
	Rounds      int               `json:"rounds"`
	Elapsed     float64           `json:"elapsed_s"`
	SideBySide  bool              `json:"side_by_side,omitempty"`
	Environment map[string]string `json:"environment"`
	Metrics     []Metric          `json:"metrics"`
	Arms        []ArmResult       `json:"arms"`
	Shape       []ShapeResult     `json:"shape"`
	// Holds is whether all of the shape does.
	Holds bool `json:"holds"`
}

// ArmResult is one arm's figures, by metric.
type ArmResult struct {
	Arm
	Values map[string]Estimate `json:"values"`
	// Ratios are to the first arm, round by round; metrics that are zero there
	// have none.
	Ratios  map[string]Estimate `json:"ratios,omitempty"`
	Samples []Sample            `json:"samples"`
}

// typical is the median of everything that the arm has measured.
func (a *ArmResult) typical() Sample {
	all := Sample{}
	for name := range a.Samples[0] {
		values, _ := column(a.Samples, a.Samples, name)
		all[name] = median(values)
	}
	return all
}

// ShapeResult is whether one expectation holds.
type ShapeResult struct {
	Text  string `json:"text"`
	Holds bool   `json:"holds"`
}

// Run runs all arms in turns, or side by side. Each round begins with another
// arm, so that none always runs first or behind the same one.
func Run(ctx context.Context, e *Experiment, o Options) (*Result, error) {
	rounds := o.Rounds
	switch {
	case rounds > maxRounds:
		return nil, fmt.Errorf("rounds: at most %d", maxRounds)
	case rounds > 0:
	case o.Quick:
		rounds = e.QuickRounds
	default:
		rounds = e.Rounds
	}
	begun := time.Now()
	samples := map[string][]Sample{}
	for n := range rounds {
		round := Round{Number: n, Quick: o.Quick, Seed: uint64(n + 1), Gateway: o.Gateway}
		if err := e.round(ctx, round, rounds, o.Progress, samples); err != nil {
			return nil, err
		}
	}
	res := e.result(samples)
	res.Quick, res.Rounds, res.Elapsed = o.Quick, rounds, math.Round(time.Since(begun).Seconds()*10)/10
	return res, nil
}

// round runs each arm once and adds what they have shown.
func (e *Experiment) round(ctx context.Context, r Round, rounds int, progress func(string, int, int), samples map[string][]Sample) error {
	got, failed := make([]Sample, len(e.Arms)), make([]error, len(e.Arms))
	var running sync.WaitGroup
	for i := range e.Arms {
		at := (i + r.Number) % len(e.Arms)
		arm := e.Arms[at].Name
		if progress != nil {
			progress(arm, r.Number*len(e.Arms)+i, rounds*len(e.Arms))
		}
		runtime.GC() // no arm pays for the garbage of another
		running.Go(func() {
			s, err := e.Run(ctx, arm, r)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				failed[at] = fmt.Errorf("arm %s, round %d: %w", arm, r.Number+1, err)
			}
			got[at] = s
		})
		if !e.SideBySide {
			running.Wait()
			if failed[at] != nil {
				return failed[at]
			}
		}
	}
	running.Wait()
	for i, a := range e.Arms {
		samples[a.Name] = append(samples[a.Name], got[i])
	}
	return errors.Join(failed...)
}

func (e *Experiment) result(samples map[string][]Sample) *Result {
	res := &Result{
		Experiment: e.Name, Row: e.Row, Title: e.Title, Claim: e.Claim, Wrong: e.Wrong, Note: e.Note, Metrics: e.Metrics, SideBySide: e.SideBySide, Holds: true,
		Environment: map[string]string{"go": runtime.Version(), "os": runtime.GOOS + "/" + runtime.GOARCH, "cpus": fmt.Sprint(runtime.NumCPU())},
	}
	first := samples[e.Arms[0].Name]
	medians := map[string]Sample{}
	for i, a := range e.Arms {
		r := ArmResult{Arm: a, Values: map[string]Estimate{}, Samples: samples[a.Name]}
		medians[a.Name] = Sample{}
		for _, m := range e.Metrics {
			values, ratios := column(r.Samples, first, m.Name)
			if len(values) == 0 {
				continue
			}
			r.Values[m.Name] = estimate(values)
			medians[a.Name][m.Name] = r.Values[m.Name].Median
			if i > 0 && len(ratios) > 0 {
				if r.Ratios == nil {
					r.Ratios = map[string]Estimate{}
				}
				r.Ratios[m.Name] = estimate(ratios)
			}
		}
		res.Arms = append(res.Arms, r)
	}
	for _, x := range e.Expect {
		holds := x.Holds(medians)
		res.Shape = append(res.Shape, ShapeResult{x.Text, holds})
		res.Holds = res.Holds && holds
	}
	return res
}

// column is one metric of an arm, and its ratio to the first arm in each round.
func column(samples, first []Sample, metric string) (values, ratios []float64) {
	for i, s := range samples {
		v, ok := s[metric]
		if !ok {
			continue
		}
		values = append(values, v)
		if base := first[i][metric]; base != 0 {
			ratios = append(ratios, v/base)
		}
	}
	return values, ratios
}
