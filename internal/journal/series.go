package journal

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate-ai/headgate/internal/llm"
)

// seriesKey is all that a request's labels are made of.
type seriesKey struct {
	dialect, op     string
	model, provider string
	status          int16
	outcome         Outcome
	fault           int16 // kind, or -1
	connection      int8  // 0 none was needed, 1 new, 2 reused
}

func keyFor(r *Record) seriesKey {
	k := seriesKey{
		dialect: string(r.Dialect), op: string(r.Op), model: r.Model, provider: r.Provider,
		outcome: r.Outcome, fault: -1,
	}
	if 100 <= r.Status && r.Status <= 599 {
		k.status = int16(r.Status)
	}
	if r.Fault != nil {
		k.fault = int16(r.Fault.Kind)
	}
	if r.called() {
		k.connection = 1
		if r.Reused {
			k.connection = 2
		}
	}
	return k
}

// called is whether a provider was reached.
func (r *Record) called() bool {
	return r.UpstreamRaw != 0 || r.StageTime[Connect]+r.StageTime[FirstByte] > 0
}

// maxModels and maxSeries guard the number of time series. Labels are
// configured names, so only a configuration that keeps changing, or a mistake
// in the gateway, can reach them; then the model becomes "other".
const (
	maxModels = 2_000
	maxSeries = 20_000
)

// seriesCache finds the children of a combination of labels with one look-up,
// where the vectors would need one for each metric.
type seriesCache struct {
	mu     sync.RWMutex
	models map[string]bool
	known  map[seriesKey]*series
}

func (c *seriesCache) of(m *instruments, k seriesKey) *series {
	c.mu.RLock()
	s := c.known[k]
	c.mu.RUnlock()
	if s == nil {
		s = c.add(m, k)
	}
	return s
}

func (c *seriesCache) add(m *instruments, k seriesKey) *series {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.models, c.known = map[string]bool{}, map[seriesKey]*series{}
	}
	full := c.known[k] == nil && len(c.known) >= maxSeries
	if full || !c.models[k.model] && len(c.models) >= maxModels {
		k.model, k.provider = other, other
	}
	if s := c.known[k]; s != nil {
		return s
	}
	// The cache outlives the request: it must not hold on to its buffers.
	k.model, k.provider = strings.Clone(k.model), strings.Clone(k.provider)
	s := newSeries(m, k)
	c.models[k.model], c.known[k] = true, s
	return s
}

// series are the children of one combination of labels. The GenAI ones are nil
// for requests that are not for a model.
type series struct {
	requests       prometheus.Counter
	duration       *histogram
	input, output  prometheus.Counter
	connection     prometheus.Counter // nil if no provider was called
	clientDuration *histogram         // nil likewise
	serverDuration *histogram
	usageIn        *histogram
	usageOut       *histogram
	firstToken     *histogram
	perToken       *histogram
}

func newSeries(m *instruments, k seriesKey) *series {
	op, model, provider := operationLabel(llm.Operation(k.op)), orNone(k.model), orNone(k.provider)
	tokens := m.counters["llm_token_total"]
	s := &series{
		requests: m.counters["headgate_requests_total"].WithLabelValues(
			dialectLabel(llm.Dialect(k.dialect)), op, model, provider, statusClass(int(k.status)), k.outcome.String()),
		duration: m.histograms["llm_request_duration_seconds"].with(model, statusLabel(int(k.status)), op),
		input:    tokens.WithLabelValues(model, "input"),
		output:   tokens.WithLabelValues(model, "output"),
	}
	if k.connection != 0 {
		s.connection = m.counters["headgate_upstream_connections_total"].WithLabelValues(provider, strconv.FormatBool(k.connection == 2))
	}
	if isModelCall(llm.Operation(k.op)) {
		s.bindGenAI(m, op, provider, model, k.fault, k.connection != 0)
	}
	return s
}

// isModelCall is whether the operation is put to a model; the others are the
// gateway's own answers about models.
func isModelCall(o llm.Operation) bool {
	return o != "" && o != llm.ListModels && o != llm.GetModel
}

func (s *series) bindGenAI(m *instruments, op, provider, model string, kind int16, called bool) {
	errorType := ""
	if kind >= 0 {
		errorType = kindLabel(kind)
	}
	if called {
		s.clientDuration = m.histograms["gen_ai_client_operation_duration_seconds"].with(op, provider, model, errorType)
	}
	s.serverDuration = m.histograms["gen_ai_server_request_duration_seconds"].with(op, provider, model, errorType)
	usage := m.histograms["gen_ai_client_token_usage"]
	s.usageIn = usage.with(op, provider, model, "input")
	s.usageOut = usage.with(op, provider, model, "output")
	s.firstToken = m.histograms["gen_ai_server_time_to_first_token_seconds"].with(op, provider, model)
	s.perToken = m.histograms["gen_ai_server_time_per_output_token_seconds"].with(op, provider, model)
}

func (s *series) observe(r *Record) {
	elapsed := seconds(r.Elapsed)
	s.requests.Inc()
	s.duration.observe(elapsed)
	if s.connection != nil {
		s.connection.Inc()
	}
	used := r.tokens()
	if used.Input > 0 {
		s.input.Add(float64(used.Input))
	}
	if used.Output > 0 {
		s.output.Add(float64(used.Output))
	}
	if s.serverDuration != nil {
		s.observeGenAI(r, used, elapsed)
	}
}

func (s *series) observeGenAI(r *Record, used llm.Usage, elapsed float64) {
	s.serverDuration.observe(elapsed)
	if s.clientDuration != nil {
		s.clientDuration.observe(seconds(r.Offset(Relay) - r.Offset(Reserve)))
	}
	if used.Input > 0 {
		s.usageIn.observe(float64(used.Input))
	}
	if used.Output > 0 {
		s.usageOut.observe(float64(used.Output))
	}
	if !r.Stream || r.StageTime[FirstToken] == 0 {
		return
	}
	s.firstToken.observe(seconds(r.Offset(FirstToken)))
	if n := used.Output - 1; n > 0 && r.StageTime[Relay] > 0 {
		s.perToken.observe(seconds(r.StageTime[Relay] / time.Duration(n)))
	}
}
