// Package cli is the command line: one file for each noun, results as text or
// as JSON, exit status 0 for done, 1 for failed and 2 for wrong usage. Only
// cmd/headgate uses it.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"
)

// Env is what the commands have of the process around them.
type Env struct {
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Setenv         func(name, value string) error
	// Terminal is whether standard error is one, for people to read.
	Terminal bool
	// Stdin is where questions are answered; nil where there is nobody to ask.
	Stdin io.Reader
}

// OS is the real process.
func OS() *Env {
	env := &Env{Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Setenv: os.Setenv, Terminal: terminal(os.Stderr)}
	if terminal(os.Stdin) {
		env.Stdin = os.Stdin
	}
	return env
}

func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// The exit statuses.
const (
	done   = 0
	failed = 1
	usage  = 2
)

// commands is the whole command line.
type commands struct {
	Serve      serveCmd      `cmd:"" help:"Run the gateway."`
	Demo       demoCmd       `cmd:"" help:"Run the gateway with a built-in demo model; needs no keys and no files."`
	Check      checkCmd      `cmd:"" help:"Check a configuration file and report every mistake in it."`
	Keys       keysCmd       `cmd:"" help:"Make, list, rotate and revoke the keys that clients call with."`
	Usage      usageCmd      `cmd:"" help:"Show what was used and what it cost, and hold it against an invoice."`
	Limits     limitsCmd     `cmd:"" help:"Show the limits of a running gateway, and change them."`
	Degrade    degradeCmd    `cmd:"" help:"Show how far a running gateway is turned down, and turn it down or up."`
	Audit      auditCmd      `cmd:"" help:"Show the record of operators' changes to a running gateway."`
	Simulate   simulateCmd   `cmd:"" help:"Run the scriptable model provider alone."`
	Load       loadCmd       `cmd:"" help:"Make load on any endpoint, check every answer and time it."`
	Experiment experimentCmd `cmd:"" help:"Run before-and-after experiments."`
	Version    versionCmd    `cmd:"" help:"Print the version, the commit and the Go version."`
}

const description = `Headgate is an AI API gateway: clients of the OpenAI and Anthropic APIs change only their base URL and key.

Example, a gateway with a demo model in front of you in a second:
  headgate demo

Example, a real one:
  headgate check headgate.yaml && headgate serve --config headgate.yaml`

// errReported is a failure that has been printed already.
var errReported = errors.New("reported")

// exited carries the status out of kong's own exits (--help).
type exited int

// Main runs one command and returns its exit status.
func Main(ctx context.Context, args []string, env *Env) (status int) {
	defer func() {
		if p := recover(); p != nil {
			code, ok := p.(exited)
			if !ok {
				panic(p)
			}
			status = int(code)
		}
	}()
	var c commands
	parser, err := kong.New(&c, kong.Name("headgate"), kong.Description(description),
		kong.Writers(env.Stdout, env.Stderr), kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.UsageOnError(),
		kong.Bind(env), kong.BindTo(ctx, (*context.Context)(nil)), kong.ValueFormatter(kong.DefaultHelpValueFormatter))
	if err != nil {
		fmt.Fprintln(env.Stderr, "headgate:", err)
		return failed
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(env.Stderr, "headgate: %v\nRun headgate --help for the commands, or headgate COMMAND --help for one of them.\n", err)
		return usage
	}
	switch err := parsed.Run(); {
	case errors.Is(err, errReported):
		return failed
	case err != nil:
		fmt.Fprintln(env.Stderr, "headgate:", err)
		return failed
	}
	return done
}

// untilStopped is a context that ends with SIGINT or SIGTERM. A second signal
// ends the process at once, as if it had not been caught.
func untilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// printJSON prints a result for tools.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// Version is the release, set by the linker; "devel" in any other build.
var Version = "devel"

// Commit is the commit, set by the linker; where it is not, the build's own
// record of it is used.
var Commit = ""

func commit() string {
	if Commit != "" {
		return Commit
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

type versionCmd struct {
	JSON bool `help:"Print as JSON."`
}

// Help is the example.
func (versionCmd) Help() string { return "Example:\n  headgate version --json" }

// Run prints the version.
func (c *versionCmd) Run(env *Env) error {
	v := struct {
		Version string `json:"version"`
		Commit  string `json:"commit"`
		Go      string `json:"go"`
	}{Version, commit(), runtime.Version()}
	if c.JSON {
		return printJSON(env.Stdout, v)
	}
	_, err := fmt.Fprintf(env.Stdout, "headgate %s (commit %s, %s)\n", v.Version, v.Commit, v.Go)
	return err
}
