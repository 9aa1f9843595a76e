package journal

import (
	"bytes"
	"fmt"
	"strings"
)

// Metric describes one of the gateway's metrics.
type Metric struct {
	Name   string
	Type   MetricType
	Unit   string // seconds, tokens, … or "" for a plain count
	Labels []string
	Help   string
	// Buckets are a histogram's classic upper bounds. Each histogram is a
	// native one too.
	Buckets []float64
}

// MetricType is what Prometheus calls a metric's type.
type MetricType string

// The types in use.
const (
	Counter   MetricType = "counter"
	Gauge     MetricType = "gauge"
	Histogram MetricType = "histogram"
)

// The advisory buckets of the OpenTelemetry GenAI conventions, and ours.
var (
	genAIDuration = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	genAITokens   = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
	genAIFirst    = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	genAIPerToken = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5}
	durations     = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.187, 0.25, 0.5, 0.8, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
	stageTimes    = []float64{1e-6, 5e-6, 25e-6, 100e-6, 250e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 50e-3, 0.1, 0.25, 0.5, 1, 5, 30, 120}
	syncTimes     = []float64{100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1}
	gapTimes      = []float64{0.001, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.187, 0.25, 0.5, 1, 2.5, 5, 10, 30}
)

var genAILabels = []string{"gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "error_type"}

// Metrics lists every metric of the journal; the instruments and the page
// docs/metrics.md are made from it. Labels hold configured names or members of
// closed sets, never a client's string; "none" stands where there is nothing,
// and "other" for what lies outside the set. The gen_ai_* metrics follow the
// OpenTelemetry GenAI semantic conventions 1.37, where error_type is absent
// (empty) on success.
var Metrics = []Metric{
	{"llm_request_duration_seconds", Histogram, "seconds", []string{"model", "status_code", "operation"}, "Time from a request's first byte to its last.", durations},
	{"llm_token_total", Counter, "tokens", []string{"model", "direction"}, "Tokens of answered requests; direction is input or output.", nil},

	{"gen_ai_client_operation_duration_seconds", Histogram, "seconds", genAILabels, "Time of the call to the provider, from building it to its last byte.", genAIDuration},
	{"gen_ai_client_token_usage", Histogram, "tokens", append(genAILabels[:3:3], "gen_ai_token_type"), "Tokens of one request; gen_ai_token_type is input or output.", genAITokens},
	{"gen_ai_server_request_duration_seconds", Histogram, "seconds", genAILabels, "Time of a request for a model, as its client sees it.", genAIDuration},
	{"gen_ai_server_time_to_first_token_seconds", Histogram, "seconds", genAILabels[:3:3], "Time from a request's first byte to its answer's first token, for streams.", genAIFirst},
	{"gen_ai_server_time_per_output_token_seconds", Histogram, "seconds", genAILabels[:3:3], "Time per output token after the first, for streams.", genAIPerToken},

	{"headgate_requests_total", Counter, "", []string{"dialect", "operation", "model", "provider", "status_class", "outcome"}, "Requests by how they ended; outcome is ok, error or cancelled.", nil},
	{"headgate_inflight_requests", Gauge, "", nil, "Requests that have begun and not ended.", nil},
	{"headgate_streams_open", Gauge, "", nil, "Streams that are being relayed.", nil},
	{"headgate_stage_seconds", Histogram, "seconds", []string{"stage"}, "Time that requests spend in each stage of their life.", stageTimes},
	{"headgate_faults_total", Counter, "", []string{"kind", "blame"}, "Failures by kind and by whose they are.", nil},
	{"headgate_upstream_connections_total", Counter, "", []string{"provider", "reused"}, "Requests that got a connection to a provider; reused is whether it came from the pool.", nil},
	{"headgate_stream_gap_seconds", Histogram, "seconds", []string{"stat"}, "Time between the content events of a stream: one observation per stream of its p50, p95 and max.", gapTimes},
	{"headgate_stream_backpressure_seconds_total", Counter, "seconds", []string{"side"}, "Time that streams waited for one side; client is time waiting for clients to read, upstream is time that providers were kept waiting by a full read-ahead buffer.", nil},
	{"headgate_window_rps", Gauge, "", nil, "Successful answers a second, in the last ten seconds.", nil},
	{"headgate_window_p99_ms", Gauge, "milliseconds", nil, "Time that 99 of 100 of them took at most, within one in a hundred.", nil},
	{"headgate_window_token_tps", Gauge, "tokens", nil, "Tokens of answers a second, in the last ten seconds.", nil},
	{"headgate_limiter_sync_seconds", Histogram, "seconds", []string{"call"}, "Time that calls of the store took that limits are shared in; call is acquire (a lease), report (what was used) or beat.", syncTimes},
	{"headgate_panics_total", Counter, "", nil, "Panics that were caught; each of them is a mistake in the gateway.", nil},
	{"headgate_config_reloads_total", Counter, "", []string{"result"}, "Configuration reloads; result is ok or rejected.", nil},
	{"headgate_config_info", Gauge, "", []string{"hash"}, "Always 1, for the hash of the running configuration.", nil},
	{"headgate_tls_resumed_total", Counter, "", nil, "TLS handshakes with clients that took up an earlier session.", nil},
	{"headgate_log_dropped_total", Counter, "", []string{"level"}, "Log lines that were lost because the ring was full or the log could not be written.", nil},
	{"headgate_log_write_errors_total", Counter, "", nil, "Writes to the log that failed.", nil},
	{"headgate_trace_spans_total", Counter, "", []string{"result"}, "Spans; result is exported, dropped (the collector is too slow) or failed (it refused them).", nil},
	{"headgate_build_info", Gauge, "", []string{"version", "commit", "goversion"}, "Always 1, for the build that is running.", nil},
}

// MetricsMarkdown writes the table of metrics as a Markdown page, with those
// that others register below the journal's own.
func MetricsMarkdown(others ...Metric) []byte {
	all := append(Metrics[:len(Metrics):len(Metrics)], others...)
	var b bytes.Buffer
	b.WriteString("# Metrics\n\nServed on the admin listener's `/metrics`, in the Prometheus text, protobuf and OpenMetrics formats, beside the\n" +
		"Go runtime's `go_*` and the process's `process_*`. Every histogram has classic and native buckets (factor 1.1).\n" +
		"Labels hold configured names or members of closed sets, never a client's string: `none` stands where there is\n" +
		"nothing, `other` for what lies outside of the set.\n\n" +
		"| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n")
	for _, m := range all {
		labels := "–"
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		unit := m.Unit
		if unit == "" {
			unit = "–"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.Name, m.Type, unit, labels, m.Help)
	}
	b.WriteString("\n## Classic buckets\n\n| metric | upper bounds |\n|---|---|\n")
	for _, m := range all {
		if m.Type == Histogram {
			fmt.Fprintf(&b, "| `%s` | %s |\n", m.Name, strings.Trim(strings.Join(strings.Fields(fmt.Sprint(m.Buckets)), ", "), "[]"))
		}
	}
	return b.Bytes()
}
