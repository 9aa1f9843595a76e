package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/lab/load"
)

type loadCmd struct {
	URL string `arg:"" help:"Address of the API, such as http://127.0.0.1:8080, or of one endpoint." name:"url"`

	Rate        float64       `help:"Open loop: requests a second, sent when they are due whatever the server does. Without it: closed loop." placeholder:"PER-SECOND" group:"Load"`
	Connections int           `short:"c" help:"Closed loop: requests kept on their way." default:"16" placeholder:"N" group:"Load"`
	InFlight    int           `help:"Open loop: most requests on their way; those due beyond it wait, which counts as latency." default:"1000" placeholder:"N" group:"Load"`
	Pattern     string        `help:"Open loop: constant, step (from half-time on PEAK times the rate), burst (PEAK times the rate for BURST in every PERIOD) or pareto (heavy-tailed gaps)." enum:"constant,step,burst,pareto" default:"constant" group:"Load"`
	Peak        float64       `help:"Factor of step and burst." default:"4" placeholder:"FACTOR" group:"Load"`
	Period      time.Duration `help:"Time from one burst to the next." default:"5s" group:"Load"`
	Burst       time.Duration `help:"Length of a burst." default:"500ms" group:"Load"`
	Sessions    int           `help:"Sessions that ask, few of them often and most of them seldom (Zipf); the requests of one share a prompt prefix and a user." placeholder:"N" group:"Load"`
	Zipf        float64       `help:"Exponent of that distribution, above 1." default:"1.1" group:"Load"`
	Seed        uint64        `help:"Seed of everything drawn." default:"1" group:"Load"`

	Duration time.Duration `short:"d" help:"Longest that requests are sent for." default:"10s" group:"Bounds"`
	Requests int           `short:"n" help:"Most requests that are sent." default:"100000" placeholder:"N" group:"Bounds"`
	Timeout  time.Duration `help:"Longest that one request may take." default:"60s" group:"Bounds"`
	Warmup   time.Duration `help:"Time at the start that is not measured." default:"0s" group:"Bounds"`

	Stream      bool     `help:"Ask for streams, and check every event." group:"Request"`
	Dialect     string   `help:"openai or anthropic; without it the URL decides." enum:"openai,anthropic," default:"" group:"Request"`
	Model       string   `short:"m" help:"Model to ask for." default:"demo" group:"Request"`
	PromptBytes int      `help:"Size of each prompt in bytes." default:"256" placeholder:"N" group:"Request"`
	MaxTokens   int      `help:"Bound on each answer in tokens." default:"64" placeholder:"N" group:"Request"`
	Key         string   `help:"Credential. Other users of the machine can see it; better use key-env." placeholder:"KEY" group:"Request"`
	KeyEnv      string   `help:"Name of the environment variable that holds the credential." placeholder:"NAME" group:"Request"`
	Header      []string `short:"H" help:"Header to add, such as 'x-sim-token-gap: 20ms'; may be repeated." placeholder:"NAME:VALUE" sep:"none" group:"Request"`

	HTTP2    bool `name:"http2" help:"Speak HTTP/2." group:"Connection"`
	Insecure bool `help:"Accept any certificate." group:"Connection"`
	Fresh    bool `help:"Make a connection for every request." group:"Connection"`

	PID  int    `name:"pid" help:"Process on this machine to measure CPU time and memory of, with its children." placeholder:"PID" group:"Output"`
	JSON bool   `help:"Print the report as JSON." group:"Output"`
	SVG  string `name:"svg" help:"Draw percentiles and throughput into this file." placeholder:"FILE" group:"Output"`
}

// Help is the rest of the command's manual.
func (loadCmd) Help() string {
	return `In the open loop latency is charged from the time at which a request was due, so that a server that stalls is charged
for everything that fell due meanwhile. Streams are read event by event; with the simulator's stamps every token must
come once and in order, and the delay that a gateway adds to it is measured. Exit status 1 if no request succeeded.

Examples:
  headgate load http://127.0.0.1:8080 --model demo --key-env HEADGATE_API_KEY
  headgate simulate --listen 127.0.0.1:9100 & headgate load http://127.0.0.1:9100 --rate 200 --stream --model sim-small+stamp=true+token-gap=20ms --svg load.svg`
}

// Validate makes wrong values wrong usage.
func (c *loadCmd) Validate() error {
	_, err := c.config(func(string) string { return "-" })
	return err
}

// config is the run that the flags describe.
func (c *loadCmd) config(getenv func(string) string) (load.Config, error) {
	cfg := load.Config{
		URL: c.URL, Dialect: c.Dialect, Model: c.Model, Key: c.Key, Header: http.Header{}, Stream: c.Stream, PromptBytes: c.PromptBytes, MaxTokens: c.MaxTokens,
		Rate: c.Rate, Connections: c.Connections, InFlight: c.InFlight, Pattern: load.Pattern(c.Pattern), Peak: c.Peak, Period: c.Period, BurstLength: c.Burst,
		Sessions: c.Sessions, Zipf: c.Zipf, Seed: c.Seed, Duration: c.Duration, Requests: c.Requests, Timeout: c.Timeout, Warmup: c.Warmup,
		HTTP2: c.HTTP2, Insecure: c.Insecure, Fresh: c.Fresh, PID: c.PID,
	}
	if c.KeyEnv != "" {
		if cfg.Key = getenv(c.KeyEnv); cfg.Key == "" {
			return cfg, fmt.Errorf("key-env: the environment has no %s", c.KeyEnv)
		}
	}
	for _, h := range c.Header {
		name, value, ok := strings.Cut(h, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return cfg, fmt.Errorf("header: %q is not NAME:VALUE", h)
		}
		cfg.Header.Add(name, strings.TrimSpace(value))
	}
	return cfg, cfg.Validate()
}

// Run makes the load and prints what was seen, also when it is broken off.
func (c *loadCmd) Run(ctx context.Context, env *Env) error {
	cfg, err := c.config(env.Getenv)
	if err != nil {
		return err
	}
	if env.Terminal {
		cfg.Progress = func(p load.Progress) {
			fmt.Fprintf(env.Stderr, "\r\033[K%3.0f s of %.0f s: %d ok, %d failed, %d open, p99 %s", p.Elapsed.Seconds(), p.Of.Seconds(), p.OK, p.Failed, p.Open, p.P99.Round(time.Microsecond))
		}
	}
	ctx, stop := untilStopped(ctx)
	defer stop()
	if env.Getenv("GOGC") == "" {
		// The generator holds a few MiB and would collect forty times a second, in time
		// that it takes from what it measures.
		defer debug.SetGCPercent(debug.SetGCPercent(800))
	}
	report, err := load.Run(ctx, cfg)
	if env.Terminal {
		fmt.Fprint(env.Stderr, "\r\033[K")
	}
	if err != nil {
		return err
	}
	if err := c.print(env, report); err != nil {
		return err
	}
	if report.OK == 0 {
		return errors.New("no request succeeded")
	}
	return nil
}

func (c *loadCmd) print(env *Env, report *load.Report) error {
	if err := writeInto(c.SVG, report.WriteSVG); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(env.Stdout, report)
	}
	return report.WriteTable(env.Stdout)
}
