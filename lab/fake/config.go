package fake

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headgate-ai/headgate/internal/setting"
)

// Config is how the simulator behaves. One request may override most of it:
// see Overrides.
type Config struct {
	// Seed decides the text, ids and token counts of every answer, together with the request's body: the same seed and
	// body give the same bytes. Latencies, errors and resets are drawn from the seed and the request's number.
	Seed uint64 `yaml:"seed"`
	// Keys are the credentials that are accepted. With none, any credential or none at all will do.
	Keys []string `yaml:"keys"`
	// Models are the names that GET /v1/models lists.
	Models []string `yaml:"models"`
	// Strict answers 404 for a model that is not in models; otherwise any name will do.
	Strict bool `yaml:"strict"`

	// FirstToken is the time to the first token, or to the whole answer of an endpoint without tokens.
	FirstToken Dist `yaml:"first_token"`
	// TokenGap is the time between two tokens. An answer in one piece takes as long as it would as a stream.
	TokenGap Dist `yaml:"token_gap"`
	// PromptGap is the time that reading one prompt token takes (linear prefill); it is added to first_token.
	PromptGap setting.Duration `yaml:"prompt_gap"`
	// EarlyHeaders sends the response headers and the opening event of a stream at once, not with the first token.
	EarlyHeaders bool `yaml:"early_headers"`

	// Tokens is the length of an answer in tokens, which a request's own limit may shorten. The default is 16.
	Tokens Dist `yaml:"tokens"`
	// BytesPerToken is the exact size of a token's text; 0 means words of natural length, some beyond ASCII.
	BytesPerToken int `yaml:"bytes_per_token"`
	// ToolCalls is how many tool calls answer a request that offers tools. With 0 there is one, if the request insists.
	ToolCalls int `yaml:"tool_calls"`
	// Stamp makes each streamed token carry ~SEQ.UNIXNANOS~: its number from 0 and the time just before its write.
	Stamp bool `yaml:"stamp"`

	// Slots is how many requests are answered at the same time; others wait in order of arrival. 0 means no bound.
	Slots int `yaml:"slots"`
	// Queue is how many requests may wait for a slot; more are refused as overload. 0 means no bound.
	Queue int `yaml:"queue"`
	// RateLimit is the provider's own limit per credential.
	RateLimit RateLimit `yaml:"rate_limit"`

	// Status makes every request fail with this HTTP status and a proper error body; 0 means answer.
	Status int `yaml:"status"`
	// ErrorRate is the share of requests, 0 to 1, that fail with error_status.
	ErrorRate float64 `yaml:"error_rate"`
	// ErrorStatus is the HTTP status of those failures.
	ErrorStatus int `yaml:"error_status"`
	// FailFirst makes the first so many arrivals of each distinct body fail with error_status.
	FailFirst int `yaml:"fail_first"`
	// ResetRate is the share of requests, 0 to 1, whose connection is reset instead of answered.
	ResetRate float64 `yaml:"reset_rate"`
	// RetryAfter is what failures announce in retry-after and retry-after-ms; 0 leaves it to the failure.
	RetryAfter setting.Duration `yaml:"retry_after"`

	// Fault is the misbehaviour of every answer; one of the names in docs/simulator.md, or empty for none.
	Fault string `yaml:"fault"`
	// FaultRate is the share of requests, above 0 to 1, that fault applies to; left out, all of them.
	FaultRate float64 `yaml:"fault_rate"`
	// FaultAfter is how many tokens a stream sends before a fault inside it; at the latest the last token meets it.
	FaultAfter int `yaml:"fault_after"`
	// StallAfter makes a stream fall silent after so many tokens; 0 means never. For a stall before the first token
	// write fault: stall and fault_after: 0.
	StallAfter int `yaml:"stall_after"`
	// StallFor is how long a stall lasts; 0 means until the client leaves.
	StallFor setting.Duration `yaml:"stall_for"`
	// EventSize is the size of the one event that fault: giant sends.
	EventSize setting.Size `yaml:"event_size"`

	// Usage is what answers report about token use beyond the plain counts.
	Usage Usage `yaml:"usage"`
	// MaxBody is the largest accepted request body; a larger one is answered with 413.
	MaxBody setting.Size `yaml:"max_body"`
	// Keep is how many of the most recent requests are kept for GET /_sim/requests; 0 keeps none.
	Keep int `yaml:"keep"`
	// KeepBody is how much of a kept request's body is kept.
	KeepBody setting.Size `yaml:"keep_body"`
}

// RateLimit is a provider's limit, announced in the dialect's headers on every
// answer and enforced with 429. Both amounts refill evenly over the window.
type RateLimit struct {
	// Requests is how many requests a window allows; 0 means no limit.
	Requests int `yaml:"requests"`
	// Tokens is how many prompt and answer tokens a window allows; 0 means no limit.
	Tokens int `yaml:"tokens"`
	// Window is the length of the window; the default is 1m.
	Window setting.Duration `yaml:"window"`
}

// Usage is what answers report about token use beyond the plain counts.
type Usage struct {
	// CachedShare is the share of prompt tokens, 0 to 1, reported as read from the provider's prompt cache.
	CachedShare float64 `yaml:"cached_share"`
	// Reasoning is how many hidden reasoning tokens an answer reports. They count as output and take token_gap each.
	Reasoning Dist `yaml:"reasoning"`
	// Factor is what fault: wrong-usage multiplies the numbers by.
	Factor float64 `yaml:"factor"`
}

// Default is a fast, faultless provider.
func Default() Config {
	return Config{
		Models:      []string{"sim-small", "sim-large", "sim-embed", "sim-image", "sim-audio"},
		FirstToken:  Wait(0),
		TokenGap:    Wait(0),
		Tokens:      Count(16),
		ErrorStatus: 503,
		FaultRate:   1,
		FaultAfter:  3,
		EventSize:   1 << 20,
		RateLimit:   RateLimit{Window: setting.Duration(60e9)},
		Usage:       Usage{Factor: 10},
		MaxBody:     64 << 20,
		Keep:        64,
		KeepBody:    1 << 20,
	}
}

// Validate notes every mistake, at paths that begin with path.
func (c *Config) Validate(path string, p *setting.Problems) {
	at := func(field string) string { return strings.TrimPrefix(path+"."+field, ".") }
	check := func(field, message string) {
		if message != "" {
			p.Add(at(field), "%s", message)
		}
	}
	check("first_token", c.FirstToken.wantTime())
	check("token_gap", c.TokenGap.wantTime())
	check("tokens", c.Tokens.wantCount())
	check("usage.reasoning", c.Usage.Reasoning.wantCount())
	for _, f := range []struct {
		field string
		rate  float64
	}{{"error_rate", c.ErrorRate}, {"reset_rate", c.ResetRate}, {"fault_rate", c.FaultRate}, {"usage.cached_share", c.Usage.CachedShare}} {
		check(f.field, wrongRate(f.rate))
	}
	for _, f := range []struct {
		field string
		n     int
	}{
		{"bytes_per_token", c.BytesPerToken}, {"tool_calls", c.ToolCalls}, {"slots", c.Slots}, {"queue", c.Queue},
		{"fail_first", c.FailFirst}, {"fault_after", c.FaultAfter}, {"stall_after", c.StallAfter}, {"keep", c.Keep},
		{"rate_limit.requests", c.RateLimit.Requests}, {"rate_limit.tokens", c.RateLimit.Tokens},
	} {
		if f.n < 0 {
			check(f.field, fmt.Sprintf("%d is negative; write 0 or more", f.n))
		}
	}
	if c.EventSize > 1<<30 {
		check("event_size", "too large; write at most 1GiB")
	}
	if !(c.Usage.Factor >= 0 && c.Usage.Factor <= 1e6) {
		check("usage.factor", fmt.Sprintf("%v is out of range; write a number from 0 to 1000000", c.Usage.Factor))
	}
	check("status", wrongStatus(c.Status, true))
	check("error_status", wrongStatus(c.ErrorStatus, c.ErrorRate == 0 && c.FailFirst == 0))
	check("fault", wrongFault(c.Fault))
	if slices.Contains(c.Keys, "") {
		check("keys", "a key is empty; leave it out, or leave out keys to accept any credential")
	}
	for i, m := range c.Models {
		if m == "" {
			check(fmt.Sprintf("models[%d]", i), "a model's name is empty; write one such as sim-small")
		}
	}
}

func wrongRate(v float64) string {
	if v >= 0 && v <= 1 {
		return ""
	}
	return fmt.Sprintf("%v is not a share; write a number from 0 to 1", v)
}

func wrongStatus(v int, zero bool) string {
	if v >= 400 && v <= 599 || v == 0 && zero {
		return ""
	}
	return fmt.Sprintf("%d is not the status of a failure; write one from 400 to 599", v)
}

func wrongFault(name string) string {
	if name == "" || faultNamed(name) {
		return ""
	}
	names := make([]string, len(Faults))
	for i, f := range Faults {
		names[i] = f.Name
	}
	return fmt.Sprintf("unknown fault %q; known faults are %s", name, strings.Join(names, ", "))
}

// filled is c with what a hand-written Config may leave out.
func (c Config) filled() Config {
	d := Default()
	if c.Tokens.IsZero() {
		c.Tokens = d.Tokens
	}
	if c.ErrorStatus == 0 {
		c.ErrorStatus = d.ErrorStatus
	}
	if c.RateLimit.Window <= 0 {
		c.RateLimit.Window = d.RateLimit.Window
	}
	if c.EventSize <= 0 {
		c.EventSize = d.EventSize
	}
	if c.MaxBody <= 0 {
		c.MaxBody = d.MaxBody
	}
	if c.Usage.Factor == 0 {
		c.Usage.Factor = d.Usage.Factor
	}
	if c.Fault != "" && c.FaultRate == 0 {
		c.FaultRate = d.FaultRate
	}
	return c
}
