package fake

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate-ai/headgate/internal/setting"
)

// Override is one part of the behaviour that a single request may set.
type Override struct {
	// Name is the key: the header x-sim-NAME, or NAME=VALUE in the model's name.
	Name string
	// Doc is what it does and how its value is written.
	Doc string

	set func(c *Config, value string) error
}

// Overrides are all that a request may set, in the order of documentation. A
// header wins over the model's name, which wins over the configuration.
var Overrides = []Override{
	{"first-token", "time to the first token: 200ms, uniform(10ms,50ms), lognormal(40ms,0.5), pareto(20ms,1.5)",
		wait(func(c *Config) *Dist { return &c.FirstToken })},
	{"token-gap", "time between tokens, written as first-token is", wait(func(c *Config) *Dist { return &c.TokenGap })},
	{"prompt-gap", "time per prompt token, added to first-token: 20us",
		duration(func(c *Config) *setting.Duration { return &c.PromptGap })},
	{"early-headers", "send the headers and the opening event at once: true or false",
		boolean(func(c *Config) *bool { return &c.EarlyHeaders })},
	{"tokens", "length of the answer: 64, uniform(10,200)", count(func(c *Config) *Dist { return &c.Tokens })},
	{"bytes-per-token", "exact bytes of a token's text; 0 means words", number(func(c *Config) *int { return &c.BytesPerToken })},
	{"reasoning", "hidden reasoning tokens: 100", count(func(c *Config) *Dist { return &c.Usage.Reasoning })},
	{"cached-share", "share of the prompt reported as cached: 0.5", share(func(c *Config) *float64 { return &c.Usage.CachedShare })},
	{"tool-calls", "number of tool calls in the answer, if the request offers tools", number(func(c *Config) *int { return &c.ToolCalls })},
	{"stamp", "tokens carry ~SEQ.UNIXNANOS~: true, 1, false or 0", boolean(func(c *Config) *bool { return &c.Stamp })},
	{"seed", "seed of this answer; errors and latencies then depend on seed and body alone", setSeed},
	{"status", "fail with this HTTP status: 400 to 599", setStatus},
	{"error-rate", "chance to fail with error-status: 0 to 1", share(func(c *Config) *float64 { return &c.ErrorRate })},
	{"error-status", "HTTP status of such failures: 400 to 599", setErrorStatus},
	{"fail-first", "fail the first so many arrivals of this body with error-status", number(func(c *Config) *int { return &c.FailFirst })},
	{"retry-after", "what failures announce: 2s, 1500ms, or a number of seconds", setRetryAfter},
	{"reset-rate", "chance of a TCP reset instead of an answer: 0 to 1", share(func(c *Config) *float64 { return &c.ResetRate })},
	{"reset-after", "TCP reset after so many tokens; 0 means before the first byte", setResetAfter},
	{"fault", "misbehave as named in Faults; none means behave", setFault},
	{"fault-rate", "chance that fault applies: 0 to 1", share(func(c *Config) *float64 { return &c.FaultRate })},
	{"fault-after", "tokens before a fault inside the stream", number(func(c *Config) *int { return &c.FaultAfter })},
	{"stall-after", "fall silent after so many tokens; 0 means before the first", setStallAfter},
	{"stall-for", "how long a stall lasts: 5s; 0s means until the client leaves",
		duration(func(c *Config) *setting.Duration { return &c.StallFor })},
	{"event-size", "make one event this large: 1MiB", setEventSize},
}

// headerPrefix is how Go spells the headers' common beginning.
const headerPrefix = "X-Sim-"

// Set applies one override to c, as a request with it would.
func (c *Config) Set(name, value string) error {
	for i := range Overrides {
		if o := &Overrides[i]; o.Name == name {
			if err := o.set(c, strings.TrimSpace(value)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		}
	}
	return fmt.Errorf("unknown override %q; known are %s", name, strings.Join(overrideNames(), ", "))
}

func overrideNames() []string {
	names := make([]string, len(Overrides))
	for i, o := range Overrides {
		names[i] = o.Name
	}
	return names
}

// applyHeaders applies the x-sim-* headers, in the table's order because some
// overrides touch the same field.
func (c *Config) applyHeaders(h http.Header) error {
	var found []string
	for name := range h {
		if strings.HasPrefix(name, headerPrefix) {
			found = append(found, strings.ToLower(name[len(headerPrefix):]))
		}
	}
	order := func(name string) int {
		return slices.IndexFunc(Overrides, func(o Override) bool { return o.Name == name })
	}
	slices.SortFunc(found, func(a, b string) int { return order(a) - order(b) })
	for _, name := range found {
		if err := c.Set(name, h.Get(headerPrefix+name)); err != nil {
			return fmt.Errorf("header x-sim-%w", err)
		}
	}
	return nil
}

// applyModel applies the name+key=value+key=value of a model. A part without
// "=" belongs to the name.
func (c *Config) applyModel(model string) error {
	parts := strings.Split(model, "+")
	for _, part := range parts[1:] {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			continue
		}
		if err := c.Set(name, value); err != nil {
			return fmt.Errorf("model %q: %w", model, err)
		}
	}
	return nil
}

// BaseModel is a model's name without its overrides.
func BaseModel(model string) string {
	base, rest, _ := strings.Cut(model, "+")
	for rest != "" {
		var part string
		if part, rest, _ = strings.Cut(rest, "+"); !strings.Contains(part, "=") {
			base += "+" + part
		}
	}
	return base
}

func wait(field func(*Config) *Dist) func(*Config, string) error {
	return dist(field, Dist.wantTime)
}

func count(field func(*Config) *Dist) func(*Config, string) error {
	return dist(field, Dist.wantCount)
}

func dist(field func(*Config) *Dist, wrong func(Dist) string) func(*Config, string) error {
	return func(c *Config, v string) error {
		d, err := ParseDist(v)
		if err != nil {
			return err
		}
		if w := wrong(d); w != "" {
			return fmt.Errorf("%s", w)
		}
		*field(c) = d
		return nil
	}
}

func duration(field func(*Config) *setting.Duration) func(*Config, string) error {
	return func(c *Config, v string) error { return field(c).UnmarshalText([]byte(v)) }
}

func number(field func(*Config) *int) func(*Config, string) error {
	return func(c *Config, v string) (err error) {
		*field(c), err = whole(v)
		return err
	}
}

func whole(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 || n > 1<<20 {
		return 0, fmt.Errorf("%q is not a count; write a whole number from 0 to %d", v, 1<<20)
	}
	return n, nil
}

func boolean(field func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, v string) (err error) {
		if *field(c), err = strconv.ParseBool(v); err != nil {
			return fmt.Errorf("%q is neither true nor false; write one of them", v)
		}
		return nil
	}
}

func share(field func(*Config) *float64) func(*Config, string) error {
	return func(c *Config, v string) error {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || wrongRate(f) != "" {
			return fmt.Errorf("%q is not a share; write a number from 0 to 1", v)
		}
		*field(c) = f
		return nil
	}
}
