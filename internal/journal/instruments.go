package journal

import (
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
)

// none stands in a label where a request has nothing to say.
const none = "none"

// instruments are the registered metrics, and the children that are used on
// every request.
type instruments struct {
	counters   map[string]*prometheus.CounterVec
	gauges     map[string]*prometheus.GaugeVec
	histograms map[string]*histograms

	inflight, streams prometheus.Gauge
	window            [3]prometheus.Gauge // rps, p99_ms, token_tps
	stages            [Stages]*histogram
	gaps              [3]*histogram         // p50, p95, max
	syncs             map[string]*histogram // by call
	faults            []prometheus.Counter  // by kind
	backpressure      [2]prometheus.Counter // client, upstream
	panics            prometheus.Counter
	reloads           [2]prometheus.Counter // rejected, ok
	tlsResumed        prometheus.Counter
	logDropped        [classes]prometheus.Counter
	logErrors         prometheus.Counter
	spansExported     prometheus.Counter
	spansDropped      prometheus.Counter
	spansFailed       prometheus.Counter

	series seriesCache
	mu     sync.Mutex // guards the histograms' series
}

func newInstruments(reg prometheus.Registerer, version, commit string) *instruments {
	m := &instruments{
		counters:   map[string]*prometheus.CounterVec{},
		gauges:     map[string]*prometheus.GaugeVec{},
		histograms: map[string]*histograms{},
	}
	for _, d := range Metrics {
		reg.MustRegister(m.build(d))
	}
	m.bind()
	m.gauges["headgate_build_info"].WithLabelValues(version, commit, runtime.Version()).Set(1)
	return m
}

// build makes one row of the table real.
func (m *instruments) build(d Metric) prometheus.Collector {
	switch d.Type {
	case Counter:
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
		m.counters[d.Name] = v
		return v
	case Gauge:
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.Name, Help: d.Help}, d.Labels)
		m.gauges[d.Name] = v
		return v
	}
	h := newHistograms(d, &m.mu)
	m.histograms[d.Name] = h
	return h
}

// bind fetches the children whose labels are closed sets, so that they exist,
// as zero, from the first scrape on.
func (m *instruments) bind() {
	counter := func(name string, labels ...string) prometheus.Counter {
		return m.counters[name].WithLabelValues(labels...)
	}
	m.inflight = m.gauges["headgate_inflight_requests"].WithLabelValues()
	m.streams = m.gauges["headgate_streams_open"].WithLabelValues()
	for i, name := range []string{"rps", "p99_ms", "token_tps"} {
		m.window[i] = m.gauges["headgate_window_"+name].WithLabelValues()
	}
	for s := range Stages {
		m.stages[s] = m.histograms["headgate_stage_seconds"].with(s.String())
	}
	for i, stat := range []string{"p50", "p95", "max"} {
		m.gaps[i] = m.histograms["headgate_stream_gap_seconds"].with(stat)
	}
	m.syncs = map[string]*histogram{}
	for _, call := range []string{"acquire", "report", "beat"} {
		m.syncs[call] = m.histograms["headgate_limiter_sync_seconds"].with(call)
	}
	for _, k := range fault.Kinds() {
		m.faults = append(m.faults, counter("headgate_faults_total", k.String(), k.Blame().String()))
	}
	for c, name := range classNames {
		m.logDropped[c] = counter("headgate_log_dropped_total", name)
	}
	m.backpressure = [2]prometheus.Counter{
		counter("headgate_stream_backpressure_seconds_total", "client"),
		counter("headgate_stream_backpressure_seconds_total", "upstream"),
	}
	m.panics = counter("headgate_panics_total")
	m.reloads = [2]prometheus.Counter{counter("headgate_config_reloads_total", "rejected"), counter("headgate_config_reloads_total", "ok")}
	m.tlsResumed = counter("headgate_tls_resumed_total")
	m.logErrors = counter("headgate_log_write_errors_total")
	m.spansExported = counter("headgate_trace_spans_total", "exported")
	m.spansDropped = counter("headgate_trace_spans_total", "dropped")
	m.spansFailed = counter("headgate_trace_spans_total", "failed")
}

// observe enters a closed record.
func (m *instruments) observe(r *Record) {
	series := m.series.of(m, keyFor(r))
	m.mu.Lock()
	defer m.mu.Unlock()
	for s, d := range r.StageTime {
		if d > 0 {
			m.stages[s].observe(seconds(d))
		}
	}
	if r.Fault != nil && int(r.Fault.Kind) < len(m.faults) {
		m.faults[r.Fault.Kind].Inc()
	}
	if r.Gaps.Count > 0 {
		m.gaps[0].observe(seconds(r.Gaps.P50))
		m.gaps[1].observe(seconds(r.Gaps.P95))
		m.gaps[2].observe(seconds(r.Gaps.Max))
	}
	m.backpressure[0].Add(seconds(r.BackPressure))
	m.backpressure[1].Add(seconds(r.AheadWait))
	series.observe(r)
}

// StreamOpened counts a stream as open; StreamClosed ends that.
func (j *Room) StreamOpened() { j.m.streams.Inc() }

// StreamClosed counts a stream as over.
func (j *Room) StreamClosed() { j.m.streams.Dec() }

// Synced counts a call of the store that limits are shared in, and how long it
// took; call is acquire, report or beat.
func (j *Room) Synced(call string, took time.Duration) {
	j.m.mu.Lock()
	defer j.m.mu.Unlock()
	j.m.syncs[call].observe(seconds(took))
}

// Panicked counts a panic that was caught.
func (j *Room) Panicked() { j.m.panics.Inc() }

// Reloaded counts an attempt to load a configuration; hash names the one that
// is now running, whether or not the attempt succeeded.
func (j *Room) Reloaded(ok bool, hash string) {
	result := 0
	if ok {
		result = 1
	}
	j.m.reloads[result].Inc()
	j.ConfigRunning(hash)
}

// ConfigRunning names the running configuration.
func (j *Room) ConfigRunning(hash string) {
	info := j.m.gauges["headgate_config_info"]
	info.Reset()
	info.WithLabelValues(hash).Set(1)
}

// TLSResumed counts a client's handshake that took up an earlier session.
func (j *Room) TLSResumed() { j.m.tlsResumed.Inc() }

// statusLabel is a status as label: one of those that are known, else "other".
func statusLabel(code int) string {
	if http.StatusText(code) == "" && code != 499 && code != 529 {
		return other
	}
	return strconv.Itoa(code)
}

// statusClass is "2xx" and so on.
func statusClass(code int) string {
	if code < 100 || code > 599 {
		return other
	}
	return strconv.Itoa(code/100) + "xx"
}

// operationLabel and dialectLabel keep to the closed sets.
func operationLabel(o llm.Operation) string {
	switch o {
	case "":
		return none
	case llm.Chat, llm.Completion, llm.Embeddings, llm.Responses, llm.Moderations, llm.Images,
		llm.Speech, llm.Transcriptions, llm.CountTokens, llm.ListModels, llm.GetModel:
		return string(o)
	}
	return other
}

func dialectLabel(d llm.Dialect) string {
	switch d {
	case "":
		return none
	case llm.OpenAI, llm.Anthropic, llm.Gemini, llm.Simulator:
		return string(d)
	}
	return other
}

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}

// kindLabel is a fault's kind as label.
func kindLabel(k int16) string { return fault.Kind(k).String() }
