package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"time"

	"github.com/headgate-ai/headgate/lab/fake"
)

// behaviour has one flag for each way in which the simulator can be told to
// behave; a test holds it equal to fake.Overrides.
type behaviour struct {
	FirstToken    string `name:"first-token" help:"Time to the first token: 200ms, uniform(10ms,50ms), lognormal(40ms,0.5), pareto(20ms,1.5)." placeholder:"VALUE" group:"Behaviour"`
	TokenGap      string `name:"token-gap" help:"Time between tokens, written as first-token is." placeholder:"VALUE" group:"Behaviour"`
	PromptGap     string `name:"prompt-gap" help:"Time per prompt token, added to first-token: 20us." placeholder:"VALUE" group:"Behaviour"`
	EarlyHeaders  string `name:"early-headers" help:"Send the headers and the opening event at once: true or false." placeholder:"VALUE" group:"Behaviour"`
	Tokens        string `name:"tokens" help:"Length of the answer: 64, uniform(10,200)." placeholder:"VALUE" group:"Behaviour"`
	BytesPerToken string `name:"bytes-per-token" help:"Exact bytes of a token's text; 0 means words." placeholder:"VALUE" group:"Behaviour"`
	Reasoning     string `name:"reasoning" help:"Hidden reasoning tokens: 100." placeholder:"VALUE" group:"Behaviour"`
	CachedShare   string `name:"cached-share" help:"Share of the prompt reported as cached: 0.5." placeholder:"VALUE" group:"Behaviour"`
	ToolCalls     string `name:"tool-calls" help:"Number of tool calls in the answer, if the request offers tools." placeholder:"VALUE" group:"Behaviour"`
	Stamp         string `name:"stamp" help:"Tokens carry ~SEQ.UNIXNANOS~: true, 1, false or 0." placeholder:"VALUE" group:"Behaviour"`
	Seed          string `name:"seed" help:"Seed of this answer; errors and latencies then depend on seed and body alone." placeholder:"VALUE" group:"Behaviour"`
	Status        string `name:"status" help:"Fail with this HTTP status: 400 to 599." placeholder:"VALUE" group:"Behaviour"`
	ErrorRate     string `name:"error-rate" help:"Chance to fail with error-status: 0 to 1." placeholder:"VALUE" group:"Behaviour"`
	ErrorStatus   string `name:"error-status" help:"HTTP status of such failures: 400 to 599." placeholder:"VALUE" group:"Behaviour"`
	FailFirst     string `name:"fail-first" help:"Fail the first so many arrivals of this body with error-status." placeholder:"VALUE" group:"Behaviour"`
	RetryAfter    string `name:"retry-after" help:"What failures announce: 2s, 1500ms, or a number of seconds." placeholder:"VALUE" group:"Behaviour"`
	ResetRate     string `name:"reset-rate" help:"Chance of a TCP reset instead of an answer: 0 to 1." placeholder:"VALUE" group:"Behaviour"`
	ResetAfter    string `name:"reset-after" help:"TCP reset after so many tokens; 0 means before the first byte." placeholder:"VALUE" group:"Behaviour"`
	Fault         string `name:"fault" help:"Misbehave as named in Faults; none means behave." placeholder:"VALUE" group:"Behaviour"`
	FaultRate     string `name:"fault-rate" help:"Chance that fault applies: 0 to 1." placeholder:"VALUE" group:"Behaviour"`
	FaultAfter    string `name:"fault-after" help:"Tokens before a fault inside the stream." placeholder:"VALUE" group:"Behaviour"`
	StallAfter    string `name:"stall-after" help:"Fall silent after so many tokens; 0 means before the first." placeholder:"VALUE" group:"Behaviour"`
	StallFor      string `name:"stall-for" help:"How long a stall lasts: 5s; 0s means until the client leaves." placeholder:"VALUE" group:"Behaviour"`
	EventSize     string `name:"event-size" help:"Make one event this large: 1MiB." placeholder:"VALUE" group:"Behaviour"`
}

type simulateCmd struct {
	Listen string `help:"Address to listen on." default:"127.0.0.1:9100" placeholder:"HOST:PORT"`
	JSON   bool   `help:"Print the address as JSON."`
	behaviour
}

// Help is the rest of the command's manual.
func (simulateCmd) Help() string {
	return `Speaks the OpenAI and Anthropic APIs and accepts any credential. Each flag below can also be set for one request: by a
header x-sim-NAME, or in the model's name, as in "sim-small+tokens=20+token-gap=5ms".

Example:
  headgate simulate --listen 127.0.0.1:9100 --first-token "lognormal(200ms,0.5)" --token-gap 20ms --error-rate 0.01`
}

// config is what the flags make of the default behaviour.
func (b *behaviour) config() (fake.Config, error) {
	c := fake.Default()
	v := reflect.ValueOf(b).Elem()
	for i := range v.NumField() {
		name, value := v.Type().Field(i).Tag.Get("name"), v.Field(i).String()
		if value == "" {
			continue
		}
		if err := c.Set(name, value); err != nil {
			return c, fmt.Errorf("--%s: %w", name, err)
		}
	}
	return c, nil
}

// Run serves the simulator until stopped.
func (c *simulateCmd) Run(ctx context.Context, env *Env) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	ctx, stop := untilStopped(ctx)
	defer stop()
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: fake.New(cfg), Protocols: &protocols, ReadHeaderTimeout: 10 * time.Second}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	address := "http://" + l.Addr().String()
	if c.JSON {
		err = printJSON(env.Stdout, map[string]string{"address": address})
	} else {
		_, err = fmt.Fprintf(env.Stdout, "Simulated models at %s (OpenAI: base URL %s/v1; Anthropic: base URL %s). Stop with Ctrl-C.\n", address, address, address)
	}
	if err != nil {
		return err
	}
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
