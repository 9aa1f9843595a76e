// Package compare measures targets in front of one provider, interleaved, and
// tells whether the gateway keeps what issue 3 promises of its speed.
//
// # Method
//
// A round runs every scenario against every target, one after the other, each
// run with a provider and a target of its own that were started for it. Ratios
// are taken within a round, and the median over the rounds counts. A run waits
// for a quiet machine, and is repeated if other processes took part of it; the
// quietest try counts. CPU time is that of the target's process tree within
// the time that is measured, after a warm-up.
//
// Who should import this: lab/bench, the command.
package compare

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/lab/procfs"
)

// options are what a person chooses.
type options struct {
	binary    string
	rounds    int
	short     bool
	streams   int
	scenarios string
	targets   string
	quiet     float64
	tries     int
	wait      time.Duration
	json      string
	write     string
	gate      bool
}

// bench is one measurement.
type bench struct {
	options
	dir string // scratch
	log io.Writer
}

// report is all that a measurement has shown.
type report struct {
	Date    string   `json:"date"`
	Machine []string `json:"machine"`
	Rounds  int      `json:"rounds"`
	Short   bool     `json:"short"`
	Streams int      `json:"streams"`
	Notes   []string `json:"notes"`
	Results rounds   `json:"results"`
	// Figures are the promises' values, worked out from the results, of each
	// target that is judged.
	Figures map[string]map[string]spread `json:"figures"`

	quiet     float64
	scenarios []scenario
	targets   []target
}

// chosen are those that a list with commas names; an empty list names all.
func chosen(list string, all []string) ([]string, error) {
	if list == "" {
		return all, nil
	}
	names := strings.Split(list, ",")
	for _, n := range names {
		if !slices.Contains(all, n) {
			return nil, fmt.Errorf("there is no %q; there are %s", n, strings.Join(all, ", "))
		}
	}
	return names, nil
}

// measure runs all rounds. With an error comes what was measured before it, nil
// if that is nothing.
func (b *bench) measure(ctx context.Context) (*report, error) {
	if _, err := os.Stat(b.binary); err != nil {
		return nil, errNoBinary
	}
	r, err := b.newReport(ctx)
	if err != nil {
		return nil, err
	}
	for round := 1; round <= b.rounds; round++ {
		for _, s := range r.scenarios {
			order := slices.Clone(r.targets)
			if round%2 == 0 {
				slices.Reverse(order) // what comes first is not always the same
			}
			for _, t := range order {
				if slices.Contains(s.without, t.name) {
					continue
				}
				res, err := b.quietest(ctx, s, t)
				if err != nil {
					return r, err
				}
				res.Round = round
				r.Results = append(r.Results, res)
				b.progress(res)
			}
		}
	}
	r.Machine = append(r.Machine, "load average at the end "+procfs.LoadAverage())
	return r, nil
}

func (b *bench) newReport(ctx context.Context) (*report, error) {
	streams, limit := heldStreams(b.streams)
	r := &report{Date: time.Now().UTC().Format(time.DateOnly), Machine: b.machine(ctx), Rounds: b.rounds, Short: b.short, Streams: streams, quiet: b.quiet}
	if streams < b.streams {
		r.Notes = append(r.Notes, fmt.Sprintf("The limit of %d descriptors allows %d held streams, not %d.", limit, streams, b.streams))
	}
	wanted, err := chosen(b.options.scenarios, names)
	if err != nil {
		return nil, err
	}
	for _, s := range scenarios(b.short, streams) {
		if slices.Contains(wanted, s.name) {
			r.scenarios = append(r.scenarios, s)
		}
	}
	var all []string
	for _, t := range targets {
		all = append(all, t.name)
	}
	if wanted, err = chosen(b.options.targets, all); err != nil {
		return nil, err
	}
	for _, t := range targets {
		if slices.Contains(wanted, t.name) {
			r.targets = append(r.targets, t)
		}
	}
	return r, nil
}

// quietest makes runs until one was not disturbed, or there were enough.
func (b *bench) quietest(ctx context.Context, s scenario, t target) (best *Result, err error) {
	for try := 1; try <= b.tries; try++ {
		b.awaitQuiet(ctx)
		res, err := b.run(ctx, s, t)
		if err != nil {
			return nil, err
		}
		// A repetition must not hide what a disturbed run has lost.
		if best != nil {
			lost, example := best.Failed+res.Failed, best.Error+res.Error
			if res.OtherCores < best.OtherCores {
				best = res
			}
			best.Failed, best.Error = lost, example
		} else {
			best = res
		}
		best.Tries = try
		if res.OtherCores <= b.quiet {
			break
		}
	}
	return best, nil
}

// awaitQuiet returns when the machine has been quiet for half a second, or when
// it has waited long enough.
func (b *bench) awaitQuiet(ctx context.Context) {
	for end := time.Now().Add(b.wait); time.Now().Before(end) && ctx.Err() == nil; {
		before, err := procfs.Busy()
		start := time.Now()
		sleep(ctx, 500*time.Millisecond)
		after, err2 := procfs.Busy()
		if errors.Join(err, err2) != nil || (after-before).Seconds()/time.Since(start).Seconds() <= b.quiet {
			return
		}
	}
}

func (b *bench) progress(r *Result) {
	fmt.Fprintf(b.log, "%d/%d  %-7s %-11s ok %-6d errors %-3d", r.Round, b.rounds, r.Scenario, r.Target, r.OK, r.Failed)
	switch r.Scenario {
	case idle:
		fmt.Fprintf(b.log, " ready %.0f ms, %.1f MiB", r.Ready, resident(r))
	case stream, hold:
		fmt.Fprintf(b.log, " token p50 %.0f p99 %.0f µs, CPU %.1f µs/token, %.1f KiB/stream", r.TokenP50, r.TokenP99, r.CPUPerToken, perStream(r))
	default:
		fmt.Fprintf(b.log, " %.0f/s p50 %.0f p99 %.0f µs, CPU %.0f µs/request", r.RequestsPerSecond, r.P50, r.P99, r.CPUPerRequest)
	}
	fmt.Fprintf(b.log, ", other cores %.2f, tries %d, load %s\n", r.OtherCores, r.Tries, r.LoadAverage)
	if r.Error != "" {
		fmt.Fprintf(b.log, "      %s\n", r.Error)
	}
}

// machine says where this was measured, and what.
func (b *bench) machine(ctx context.Context) []string {
	processor, kernel := procfs.Machine()
	all := []string{fmt.Sprintf("%s, %d processors, Linux %s", processor, runtime.NumCPU(), kernel)}
	if out, err := exec.CommandContext(ctx, b.binary, "version").Output(); err == nil {
		all = append(all, strings.TrimSpace(string(out)))
	}
	if info, err := buildinfo.ReadFile(b.binary); err == nil {
		all = append(all, "gateway built with "+info.GoVersion)
	}
	return append(all, "bare proxy, mock and load with "+runtime.Version(), "load average at the start "+procfs.LoadAverage())
}

// writeText writes the tables for a terminal.
func (r *report) writeText(w io.Writer) (missing int, err error) {
	g, missing := r.promises()
	text := "\n" + g.text() + "\n" + r.added().text() + "\n" + r.savings().text()
	for _, d := range r.details() {
		text += "\n" + d.text()
	}
	for _, n := range slices.Concat(r.Notes, r.Machine) {
		text += "\n" + n
	}
	_, err = io.WriteString(w, text+"\n")
	return missing, err
}

func (r *report) writeJSON(path string) error {
	r.Figures = map[string]map[string]spread{}
	for _, name := range judged {
		r.Figures[name] = map[string]spread{}
		for _, f := range figures(r.Streams) {
			r.Figures[name][f.name] = r.of(f, name)
		}
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
