package load

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// The dialects.
const (
	OpenAI    = "openai"
	Anthropic = "anthropic"
)

// Config is what to ask, of whom, how often and how long. Default fills it.
type Config struct {
	// URL is the endpoint, or the base of an API to which the dialect's path is
	// added.
	URL string
	// Dialect is OpenAI or Anthropic; "" follows the URL, and is OpenAI where
	// that says nothing.
	Dialect string
	Model   string
	// Key is the credential, sent where the dialect's clients send it.
	Key    string
	Header http.Header
	// Stream asks for streams.
	Stream bool
	// PromptBytes is the size of each prompt, MaxTokens the bound on each answer.
	PromptBytes, MaxTokens int

	// Rate is the open loop's requests a second; 0 is the closed loop.
	Rate float64
	// Connections is how many requests the closed loop keeps on their way.
	Connections int
	// InFlight bounds the open loop's requests on their way. Where it is reached,
	// requests wait, and the wait is part of their latency.
	InFlight int
	// Pattern is how the open loop's requests follow each other; Peak, Period
	// and BurstLength belong to it.
	Pattern             Pattern
	Peak                float64
	Period, BurstLength time.Duration
	// Sessions is how many sessions ask, drawn with Zipf's exponent; 0 makes
	// every request a stranger's.
	Sessions int
	Zipf     float64
	Seed     uint64

	// Duration and Requests bound the run; it ends with the first of them.
	Duration time.Duration
	Requests int
	// Timeout bounds one request.
	Timeout time.Duration
	// Warmup is the time at the start that is not measured.
	Warmup time.Duration

	// HTTP2 speaks HTTP/2: by TLS's choice, or at once where there is no TLS.
	HTTP2 bool
	// Insecure accepts any certificate.
	Insecure bool
	// Fresh makes a connection for every request.
	Fresh bool
	// PID is a process on this machine whose CPU time and memory are measured,
	// with its children; 0 is none.
	PID int
	// Progress is told of the run twice a second.
	Progress func(Progress)
}

// Progress is where a run stands.
type Progress struct {
	Elapsed          time.Duration
	Of               time.Duration
	OK, Failed, Open int64
	P99              time.Duration
}

// Default is a short closed loop.
func Default() Config {
	return Config{
		Model: "demo", PromptBytes: 256, MaxTokens: 64, Connections: 16, InFlight: 1000, Pattern: Constant, Peak: 4,
		Period: 5 * time.Second, BurstLength: 500 * time.Millisecond, Zipf: 1.1, Duration: 10 * time.Second, Requests: 100_000,
		Timeout: time.Minute, Seed: 1,
	}
}

// The largest values that can have been meant.
const (
	maxDuration = 24 * time.Hour
	maxRequests = 100_000_000
	maxOpen     = 100_000
	maxPrompt   = 64 << 20
	maxRate     = 1e6
)

// Validate says what is wrong, and what would be right.
func (c *Config) Validate() error {
	if _, _, err := c.endpoint(); err != nil {
		return err
	}
	for _, rule := range []struct {
		ok   bool
		what string
	}{
		{c.Dialect == "" || c.Dialect == OpenAI || c.Dialect == Anthropic, "dialect: write openai or anthropic"},
		{c.Model != "", "model: write a name, such as demo"},
		{c.Rate >= 0 && c.Rate <= maxRate, "rate: write requests a second up to 1000000, or 0 for the closed loop"},
		{c.Connections >= 1 && c.Connections <= maxOpen, "connections: write a number from 1 to 100000"},
		{c.InFlight >= 1 && c.InFlight <= maxOpen, "in-flight: write a number from 1 to 100000"},
		{slices.Contains(Patterns, c.Pattern), "pattern: write constant, step, burst or pareto"},
		{c.Pattern == Constant || c.Rate > 0, "pattern: arrivals have a pattern in the open loop only; set a rate"},
		{c.Peak > 0 && c.Peak <= 1000, "peak: write a factor above 0, such as 4"},
		{c.BurstLength > 0 && c.BurstLength < c.Period, "burst: write a duration shorter than the period, such as 500ms of 5s"},
		{c.Sessions >= 0 && c.Sessions <= 1<<30, "sessions: write how many, or 0 for none"},
		{c.Zipf > 1 && c.Zipf <= 10, "zipf: write an exponent above 1, such as 1.1"},
		{c.PromptBytes >= 1 && c.PromptBytes <= maxPrompt, "prompt-bytes: write a number from 1 to 67108864"},
		{c.MaxTokens >= 1 && c.MaxTokens <= 1<<24, "max-tokens: write a number of at least 1"},
		{c.Duration > 0 && c.Duration <= maxDuration, "duration: write one up to 24h, such as 10s"},
		{c.Requests >= 1 && c.Requests <= maxRequests, "requests: write a number from 1 to 100000000"},
		{c.Timeout > 0 && c.Timeout <= maxDuration, "timeout: write a duration, such as 60s"},
		{c.Warmup >= 0 && c.Warmup < c.Duration, "warmup: write a duration shorter than the run"},
		{c.PID >= 0, "pid: write a process id"},
	} {
		if !rule.ok {
			return errors.New(rule.what)
		}
	}
	return nil
}

// paths are where each dialect's calls go.
var paths = map[string]string{OpenAI: "/v1/chat/completions", Anthropic: "/v1/messages"}

// endpoint is the whole URL to call, and the dialect to speak.
func (c *Config) endpoint() (string, string, error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil, u.Host == "", u.Scheme != "http" && u.Scheme != "https":
		// The parser's own message repeats the URL, which may hold a password.
		return "", "", errors.New("url: write an address such as http://127.0.0.1:8080")
	case u.User != nil:
		return "", "", errors.New("url: a credential does not belong there; use --key-env")
	}
	path := strings.TrimRight(u.Path, "/")
	for dialect, p := range paths {
		if strings.HasSuffix(path, strings.TrimPrefix(p, "/v1")) {
			if c.Dialect != "" && c.Dialect != dialect {
				return "", "", fmt.Errorf("url: %s is not a path of the dialect %s", path, c.Dialect)
			}
			return u.String(), dialect, nil
		}
	}
	dialect := c.Dialect
	if dialect == "" {
		dialect = OpenAI
	}
	u.Path = strings.TrimSuffix(path, "/v1") + paths[dialect]
	return u.String(), dialect, nil
}
