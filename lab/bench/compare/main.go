package compare

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/headgate-ai/headgate/lab/bench/mock"
)

// Main is the command: a measurement, or the role in one that the first
// argument names. It returns the exit code: 1 for a failure or, with --gate, a
// promise that is not kept, 2 for a misuse.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var err error
	switch {
	case len(args) > 0 && args[0] == "mock":
		err = mockRole(ctx, args[1:], stdout, stderr)
	case len(args) > 0 && args[0] == "proxy":
		err = proxyRole(ctx, args[1:], stdout, stderr)
	default:
		err = compareRole(ctx, args, stdout, stderr)
	}
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2 // the flags have said what is wrong
	}
	fmt.Fprintln(stderr, "bench:", err)
	return 1
}

var errUsage = errors.New("wrong use")

// parse reads flags; there are no other arguments.
func parse(f *flag.FlagSet, args []string, stderr io.Writer) error {
	f.SetOutput(stderr)
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	if f.NArg() > 0 {
		fmt.Fprintf(stderr, "bench: what is %q? See --help\n", f.Arg(0))
		return errUsage
	}
	return nil
}

func compareRole(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	b := bench{log: stderr}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&b.binary, "binary", "bin/headgate", "the gateway")
	f.IntVar(&b.rounds, "rounds", 3, "rounds; in the short form 1 unless given")
	f.BoolVar(&b.short, "short", false, "a trial of two or three minutes: short runs, none repeated, fewer streams")
	f.IntVar(&b.streams, "streams", 5000, "streams of the scenario hold; in the short form 500 unless given")
	f.StringVar(&b.options.scenarios, "scenarios", "", "some of: idle,unary,big,closed,stream,hold")
	f.StringVar(&b.options.targets, "targets", "", "some of: direct,stdproxy,headgate,admission,own client,net/http")
	f.Float64Var(&b.quiet, "quiet", .3, "cores that others may take; noisier runs are repeated")
	f.IntVar(&b.tries, "tries", 3, "most runs where others take too much; the quietest counts")
	f.DurationVar(&b.wait, "wait", 15*time.Second, "longest wait for a quiet machine before each run")
	f.StringVar(&b.options.json, "json", "", "`file` for every run's figures")
	f.StringVar(&b.write, "write", "", "`file` for the page, such as docs/performance.md")
	f.BoolVar(&b.gate, "gate", false, "fail if a must is missed")
	if err := parse(f, args, stderr); err != nil {
		return err
	}
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	b.shorten(given)
	if b.rounds < 1 || b.streams < 1 || b.tries < 1 {
		fmt.Fprintln(stderr, "bench: rounds, streams and tries are at least 1")
		return errUsage
	}
	return b.all(ctx, stdout)
}

// shorten sets what the short form changes, unless it was given.
func (b *bench) shorten(given map[string]bool) {
	if !b.short {
		return
	}
	if !given["rounds"] {
		b.rounds = 1
	}
	if !given["streams"] {
		b.streams = 500
	}
	if !given["tries"] {
		b.tries = 1
	}
	if !given["wait"] {
		b.wait = 500 * time.Millisecond
	}
}

// all measures and tells.
func (b *bench) all(ctx context.Context, stdout io.Writer) (err error) {
	// The generator's collections would take their time from the target.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	if b.dir, err = os.MkdirTemp("", "headgate-bench"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	r, broken := b.measure(ctx)
	if r == nil || broken != nil && len(r.Results) == 0 {
		return broken
	}
	missing, err := r.writeText(stdout)
	if err := errors.Join(broken, err); err != nil {
		return err // what was measured until then was worth telling, no more
	}
	if b.options.json != "" {
		if err := r.writeJSON(b.options.json); err != nil {
			return err
		}
	}
	if b.write != "" {
		if err := r.writePage(b.write); err != nil {
			return err
		}
	}
	if b.gate && missing > 0 {
		return fmt.Errorf("%d of the musts are missed", missing)
	}
	return nil
}

// announce listens and says where.
func announce(ctx context.Context, stdout io.Writer) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	_, err = fmt.Fprintln(stdout, l.Addr())
	return l, err
}

func mockRole(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var c mock.Config
	f := flag.NewFlagSet("bench mock", flag.ContinueOnError)
	f.BoolVar(&c.Stream, "stream", false, "answer with streams")
	f.IntVar(&c.Tokens, "tokens", 100, "tokens of an answer")
	f.IntVar(&c.TokenBytes, "token-bytes", 5, "size of a token's text")
	f.DurationVar(&c.Gap, "gap", 20*time.Millisecond, "time from one token of a stream to the next")
	if err := parse(f, args, stderr); err != nil {
		return err
	}
	l, err := announce(ctx, stdout)
	if err != nil {
		return err
	}
	return unlessEnded(ctx, mock.New(c).Serve(l))
}

func proxyRole(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("bench proxy", flag.ContinueOnError)
	upstream := f.String("upstream", "http://127.0.0.1:9100", "where to forward")
	if err := parse(f, args, stderr); err != nil {
		return err
	}
	l, err := announce(ctx, stdout)
	if err != nil {
		return err
	}
	return unlessEnded(ctx, serveProxy(l, *upstream))
}

// unlessEnded drops the error of a role that was told to end.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
