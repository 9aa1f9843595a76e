package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/headgate-ai/headgate/internal/app"
	"github.com/headgate-ai/headgate/internal/config/source/static"
	"github.com/headgate-ai/headgate/lab/experiment"
)

type experimentCmd struct {
	List experimentListCmd `cmd:"" help:"Name the experiments."`
	Run  experimentRunCmd  `cmd:"" help:"Run one experiment, or all of them."`
}

// Help is the example.
func (experimentCmd) Help() string { return "Example:\n  headgate experiment list" }

type experimentListCmd struct {
	JSON bool `help:"Print as JSON."`
}

// Help is the example.
func (experimentListCmd) Help() string { return "Example:\n  headgate experiment list --json" }

// Run prints the experiments' names.
func (c *experimentListCmd) Run(env *Env) error {
	type entry struct {
		Name  string `json:"name"`
		Row   string `json:"row"`
		Title string `json:"title"`
		Claim string `json:"claim"`
		Wrong string `json:"wrong,omitempty"`
	}
	list := []entry{}
	for _, e := range experiment.All {
		list = append(list, entry{e.Name, e.Row, e.Title, e.Claim, e.Wrong})
	}
	if c.JSON {
		return printJSON(env.Stdout, list)
	}
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintf(&b, "%-17s %-12s %s\n", e.Name, e.Row, e.Title)
	}
	_, err := io.WriteString(env.Stdout, b.String())
	return err
}

type experimentRunCmd struct {
	Name   string `arg:"" help:"An experiment's name, or all."`
	Rounds int    `help:"How often each arm runs; 0 is the experiment's own number." placeholder:"N"`
	Quick  bool   `help:"The smallest run that still shows the direction."`
	JSON   bool   `help:"Print the results as JSON."`
	CSV    string `name:"csv" help:"Write the points of the experiment's curves into this file." placeholder:"FILE"`
	Plot   string `help:"Draw the experiment's curves into this file, as PNG." placeholder:"FILE"`
}

// Help is the rest of the command's manual.
func (experimentRunCmd) Help() string {
	return `Runs a mistake and its cure in turns, on loopback and in this process, mostly for half a minute, at most for some
minutes (some seconds with --quick), and prints both arms' medians, the ratios, and what was claimed. Exit status 1 if the
shape does not hold.

Examples:
  headgate experiment run buffer-limit
  headgate experiment run knee --csv knee.csv --plot knee.png
  headgate experiment run all --quick --json`
}

// Validate makes wrong values wrong usage.
func (c *experimentRunCmd) Validate() error {
	if c.Rounds < 0 {
		return fmt.Errorf("rounds: write a number, or 0 for the experiment's own")
	}
	e := experiment.Find(c.Name)
	if c.Name != "all" && e == nil {
		return fmt.Errorf("unknown experiment %q; known are all, %s", c.Name, namesOf(func(*experiment.Experiment) bool { return true }))
	}
	if (c.CSV != "" || c.Plot != "") && (e == nil || e.Curves == nil) {
		return fmt.Errorf("csv, plot: write the name of an experiment that has curves: %s", namesOf(func(e *experiment.Experiment) bool { return e.Curves != nil }))
	}
	return nil
}

func namesOf(which func(*experiment.Experiment) bool) string {
	var names []string
	for _, e := range experiment.All {
		if which(e) {
			names = append(names, e.Name)
		}
	}
	return strings.Join(names, ", ")
}

// Run runs the experiments one after the other.
func (c *experimentRunCmd) Run(ctx context.Context, env *Env) error {
	ctx, stop := untilStopped(ctx)
	defer stop()
	list := experiment.All
	if c.Name != "all" {
		list = []*experiment.Experiment{experiment.Find(c.Name)}
	}
	var results []*experiment.Result
	var missed []string
	for i, e := range list {
		res, err := c.one(ctx, env, e)
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		if err := c.writeCurves(e, res); err != nil {
			return err
		}
		results = append(results, res)
		if !res.Holds {
			missed = append(missed, e.Name)
		}
		if c.JSON {
			continue
		}
		if i > 0 {
			fmt.Fprintln(env.Stdout)
		}
		if err := res.WriteTable(env.Stdout); err != nil {
			return err
		}
	}
	if err := c.printJSON(env, results); err != nil {
		return err
	}
	if len(missed) > 0 {
		return fmt.Errorf("the shape does not hold: %s", strings.Join(missed, ", "))
	}
	return nil
}

func (c *experimentRunCmd) one(ctx context.Context, env *Env, e *experiment.Experiment) (*experiment.Result, error) {
	o := experiment.Options{Rounds: c.Rounds, Quick: c.Quick, Gateway: gatewayHere}
	if env.Terminal {
		o.Progress = func(arm string, done, all int) {
			fmt.Fprintf(env.Stderr, "\r\033[K%s: %d of %d, %s", e.Name, done+1, all, arm)
		}
		defer fmt.Fprint(env.Stderr, "\r\033[K")
	}
	return experiment.Run(ctx, e, o)
}

// writeCurves writes the files that were asked for.
func (c *experimentRunCmd) writeCurves(e *experiment.Experiment, res *experiment.Result) error {
	if c.CSV == "" && c.Plot == "" {
		return nil
	}
	curves := e.Curves(res)
	return errors.Join(writeInto(c.CSV, curves.WriteCSV), writeInto(c.Plot, curves.WritePNG))
}

// writeInto makes a file, unless its name is empty.
func writeInto(name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// printJSON prints one result by itself, and several as a list.
func (c *experimentRunCmd) printJSON(env *Env, results []*experiment.Result) error {
	switch {
	case !c.JSON:
		return nil
	case len(results) == 1 && c.Name != "all":
		return printJSON(env.Stdout, results[0])
	}
	return printJSON(env.Stdout, results)
}

// gatewayHere runs a gateway in this process; its log goes nowhere.
func gatewayHere(ctx context.Context, yaml string) (string, func() error, error) {
	a, err := app.New(ctx, app.Options{
		Source: static.New("experiment.yaml", []byte(yaml)), Version: Version, Commit: commit(), LogOutput: io.Discard, Level: slog.LevelError,
	})
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	return "http://" + a.API(), func() error { cancel(); return <-ended }, nil
}
