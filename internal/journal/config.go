package journal

import (
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"

	"github.com/headgate-ai/headgate/internal/setting"
)

// Config is what an operator may say about logs, records and traces.
type Config struct {
	// Log is the access log, one line per request, which the gateway's own
	// messages share.
	Log LogConfig `yaml:"log"`
	// Recent is how many of the latest requests are kept in memory for
	// GET /admin/v1/requests; 0 keeps none. Default 1000. Takes effect at start.
	Recent int `yaml:"recent"`
	// Trace sends one trace per request to an OpenTelemetry collector.
	Trace TraceConfig `yaml:"trace"`
}

// LogConfig is the access log.
type LogConfig struct {
	// Enabled writes one line per request. Default true. The gateway's own
	// messages are written in any case.
	Enabled bool `yaml:"enabled"`
	// Path is the file to append to; empty writes to standard error. The file is
	// opened anew on SIGHUP, so it may be rotated. A named pipe is never waited
	// for. Takes effect at start.
	Path string `yaml:"path"`
	// Format is json (one object per line) or text (key=value, for people).
	// Default json. Takes effect at start.
	Format string `yaml:"format"`
	// Sample is the share of successful requests that are logged, from 0 to 1.
	// Default 1. Failed and cancelled requests are always logged.
	Sample float64 `yaml:"sample"`
	// Buffer is how many lines may wait for a slow disk; lines beyond it are
	// dropped and counted in headgate_log_dropped_total, and no request ever
	// waits for the log. Default 1000. Takes effect at start.
	Buffer int `yaml:"buffer"`
}

// TraceConfig is the export of traces over OTLP/HTTP.
type TraceConfig struct {
	// Endpoint is the collector's address, as in http://127.0.0.1:4318; without
	// a path, /v1/traces is used. Empty uses OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
	// else OTEL_EXPORTER_OTLP_ENDPOINT; with none of them traces are off. The
	// other OTEL_EXPORTER_OTLP_* variables (headers, timeouts, certificates)
	// are honoured too. Takes effect at start.
	Endpoint string `yaml:"endpoint"`
	// Sample is the share of traces begun here that are exported, from 0 to 1.
	// Default 1. A caller's own sampling decision is followed, and a request
	// that the gateway or the provider failed is exported whatever was drawn.
	Sample float64 `yaml:"sample"`
	// ServiceName names this gateway in traces and log lines. Empty uses
	// OTEL_SERVICE_NAME, else "headgate".
	ServiceName string `yaml:"service_name"`
}

// The formats of the log.
const (
	formatJSON = "json"
	formatText = "text"
)

// Default is the configuration of a gateway that says nothing about it.
func Default() Config {
	return Config{
		Log:    LogConfig{Enabled: true, Format: formatJSON, Sample: 1, Buffer: 1000},
		Recent: 1000,
		Trace:  TraceConfig{Sample: 1},
	}
}

// The largest buffers that can have been meant; beyond them lies a typing
// mistake that would cost gigabytes.
const (
	maxBuffer = 1_000_000
	maxRecent = 100_000
)

// Validate notes every mistake, with path as the section's own place.
func (c *Config) Validate(path string, p *setting.Problems) {
	at := func(field string) string {
		if path == "" {
			return field
		}
		return path + "." + field
	}
	share(p, at("log.sample"), c.Log.Sample)
	share(p, at("trace.sample"), c.Trace.Sample)
	if f := c.Log.Format; f != formatJSON && f != formatText {
		p.Add(at("log.format"), "%q is not a format; write json or text", f)
	}
	if n := c.Log.Buffer; n < 1 || n > maxBuffer {
		p.Add(at("log.buffer"), "%d lines cannot be kept; write a number from 1 to %d, such as 1000", n, maxBuffer)
	}
	if n := c.Recent; n < 0 || n > maxRecent {
		p.Add(at("recent"), "%d records cannot be kept; write a number from 0 (none) to %d, such as 1000", n, maxRecent)
	}
	if f := c.Log.Path; f != "" {
		if i, err := os.Stat(filepath.Dir(f)); err != nil || !i.IsDir() {
			p.Add(at("log.path"), "the folder %s does not exist; create it, or leave the path empty to log to standard error", filepath.Dir(f))
		}
	}
	if e := c.Trace.Endpoint; e != "" {
		if err := checkEndpoint(e); err != nil {
			p.Add(at("trace.endpoint"), "%v; write the collector's address, such as http://127.0.0.1:4318", err)
		}
	}
}

func share(p *setting.Problems, path string, v float64) {
	if math.IsNaN(v) || v < 0 || v > 1 {
		p.Add(path, "%v is not a share; write a number from 0 (none) to 1 (all)", v)
	}
}

func checkEndpoint(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Host == "":
		// The parser's own message repeats the URL, which may hold a password.
		return fmt.Errorf("the endpoint is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%q is not a scheme for OTLP over HTTP", u.Scheme)
	case u.User != nil:
		return fmt.Errorf("credentials do not belong into the URL (use OTEL_EXPORTER_OTLP_HEADERS)")
	}
	return nil
}

// Plan is the compiled configuration that a request sees. It is immutable.
type Plan struct {
	// Redactor takes secrets out of error texts. It is set once by app, before
	// the plan is published; nil still hides what looks like a credential.
	Redactor *Redactor

	cfg        Config // with the environment's defaults filled in
	logAll     bool   // no draw is needed
	logBelow   uint64 // log an OK request if the draw is below this
	traceBelow uint64 // sample a new trace if its id's tail is below this
}

// Compile makes the plan. The configuration must have been validated.
func (c *Config) Compile() (Plan, error) {
	cfg := *c
	if cfg.Trace.ServiceName == "" {
		cfg.Trace.ServiceName = os.Getenv("OTEL_SERVICE_NAME")
	}
	if cfg.Trace.ServiceName == "" {
		cfg.Trace.ServiceName = "headgate"
	}
	p := Plan{
		cfg:        cfg,
		logAll:     cfg.Log.Sample >= 1,
		logBelow:   threshold(cfg.Log.Sample),
		traceBelow: threshold(cfg.Trace.Sample),
	}
	return p, nil
}

// ServiceName is the name that stands in every log line and trace.
func (p *Plan) ServiceName() string { return p.cfg.Trace.ServiceName }

// threshold turns a share into the bound that a uniform 63-bit draw is held
// against.
func threshold(share float64) uint64 {
	if share >= 1 {
		return 1 << 63
	}
	return uint64(share * (1 << 63))
}

// Pending names the settings of p that this room will only take up when the
// process starts anew, because they differ from those it was built with.
func (j *Room) Pending(p *Plan) []string {
	was, is := &j.plan.cfg, &p.cfg
	var names []string
	for _, f := range []struct {
		name    string
		changed bool
	}{
		{"log.path", was.Log.Path != is.Log.Path},
		{"log.format", was.Log.Format != is.Log.Format},
		{"log.buffer", was.Log.Buffer != is.Log.Buffer},
		{"recent", was.Recent != is.Recent},
		{"trace.endpoint", was.Trace.Endpoint != is.Trace.Endpoint},
		{"trace.service_name", was.Trace.ServiceName != is.Trace.ServiceName},
	} {
		if f.changed {
			names = append(names, f.name)
		}
	}
	return names
}
