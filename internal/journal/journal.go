package journal

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
)

// Options are what app hands over at construction.
type Options struct {
	// Config is the configuration the process starts with. What a plan cannot
	// change later (sinks and sizes) is taken from it; see Room.Pending.
	Config Config
	// Version and Commit say which build this is.
	Version, Commit string
	// Level is the least level of the gateway's own messages; nil is Info.
	Level slog.Leveler
	// Output replaces standard error where the log has no path.
	Output io.Writer
	// Notify is told, once per outage, that the log or the collector cannot be
	// reached, and once that it can be again. It runs on its own goroutines'
	// time, never on a request's. Nil writes to standard error.
	Notify func(message string)
	// Exporter replaces the OTLP exporter, for tests.
	Exporter sdktrace.SpanExporter
}

// Room keeps the journal. It lives as long as the process; all its methods may
// be called from any goroutine.
type Room struct {
	plan     Plan // what the room was built with; used where no plan is given
	registry *prometheus.Registry
	m        *instruments
	log      *sink
	level    slog.Leveler
	recent   recent
	totals   totals
	window   window
	digester digester
	tracer   *tracer // nil when traces are off
	redactor atomic.Pointer[Redactor]
}

// New builds the room: it opens the log and prepares the export of traces.
func New(o Options) (*Room, error) {
	plan, err := o.Config.Compile()
	if err != nil {
		return nil, err
	}
	if o.Level == nil {
		o.Level = slog.LevelInfo
	}
	if o.Notify == nil {
		o.Notify = notifyStderr
	}
	j := &Room{plan: plan, registry: prometheus.NewRegistry(), level: o.Level}
	j.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	j.m = newInstruments(j.registry, o.Version, o.Commit)
	j.recent.init(plan.cfg.Recent)
	j.totals.init()
	j.window.begun = time.Now()
	j.digester.init(j.enter)
	if j.log, err = newSink(plan.cfg.Log, o.Output, j.m, o.Notify); err != nil {
		return nil, err
	}
	if j.tracer, err = newTracer(plan.cfg.Trace, o, j.m); err != nil {
		return nil, errors.Join(err, j.log.shutdown(context.Background()))
	}
	return j, nil
}

// Begin gives the record its place in a trace: the caller's, where the header
// traceparent is valid, else a new one. It also counts the request as in
// flight until Close.
func (j *Room) Begin(p *Plan, r *Record, traceparent string) {
	if !r.begun {
		r.begun = true
		j.m.inflight.Inc()
	}
	if !parseTraceparent(traceparent, r) {
		mintTrace(r)
		r.Sampled = j.tracer != nil && tail(r.Trace) < j.or(p).traceBelow
	}
	r.Span = mintSpan()
	r.UpstreamSpan = mintSpan()
}

// Close ends the record, for the totals, the recent requests, the metrics, the
// access log and the trace; see digester for when it is entered there. The
// record must not be changed afterwards. A second Close does nothing.
func (j *Room) Close(p *Plan, r *Record) {
	if r.closed {
		return
	}
	r.settle(time.Now())
	if r.begun {
		j.m.inflight.Dec()
	}
	j.digester.add(j.or(p), r)
}

// enter puts a closed record everywhere it belongs.
func (j *Room) enter(p *Plan, r *Record) {
	j.totals.add(r)
	j.window.add(r)
	j.recent.add(r, p.Redactor)
	j.m.observe(r)
	if p.logs(r) {
		j.access(p, r)
	}
	if j.tracer != nil && (r.Sampled || r.broken()) {
		j.tracer.emit(p, r)
	}
}

// or is the plan, or the room's own where there is none (a request that failed
// before a snapshot was taken).
func (j *Room) or(p *Plan) *Plan {
	if p == nil {
		return &j.plan
	}
	return p
}

// settle completes the record: whatever has not been marked is Finish's, so
// that the stages sum to the whole.
func (r *Record) settle(now time.Time) {
	r.closed = true
	if r.Elapsed == 0 {
		r.Mark(Finish, now)
		r.Elapsed = now.Sub(r.Start)
	}
	// Clients and providers choose these strings.
	r.Asked, r.Target = clean(r.Asked, maxAsked), clean(r.Target, maxAsked)
	r.FinishReason = clean(r.FinishReason, maxReason)
}

// broken is whether the gateway or a provider failed the request: what an
// operator wants to see whatever is sampled away.
func (r *Record) broken() bool {
	if r.Outcome != Failed {
		return false
	}
	if r.Fault == nil {
		return true
	}
	b := r.Fault.Kind.Blame()
	return b == fault.Ours || b == fault.Upstreams
}

// tokens is what the request is said to have used: nothing where the client was
// given an error as its answer, and all that passed where a stream broke off
// or was cancelled.
func (r *Record) tokens() llm.Usage {
	if r.Outcome == Failed && r.Status >= http.StatusBadRequest {
		return llm.Usage{}
	}
	return r.Usage
}

// Registry is where other rooms register metrics of their own.
func (j *Room) Registry() *prometheus.Registry {
	j.digester.digest()
	j.showWindow()
	return j.registry
}

// Handler serves /metrics in the Prometheus and OpenMetrics formats.
func (j *Room) Handler() http.Handler {
	h := promhttp.HandlerFor(j.registry, promhttp.HandlerOpts{Registry: j.registry, EnableOpenMetrics: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		j.digester.digest()
		j.showWindow()
		h.ServeHTTP(w, r)
	})
}

// SetRedactor sets what is taken out of the gateway's own messages. App calls
// it with each new plan's redactor.
func (j *Room) SetRedactor(r *Redactor) { j.redactor.Store(r) }

// Reopen opens the log's file anew, after it was rotated. Lines of which the
// writing has begun still go to the old file; it never waits for them.
func (j *Room) Reopen() error { return j.log.reopen() }

// Shutdown writes out all that is waiting and stops the room's goroutines.
// Nothing is lost unless ctx ends first. Messages logged afterwards go to
// standard error at once.
func (j *Room) Shutdown(ctx context.Context) error {
	j.digester.end()
	var err error
	if j.tracer != nil {
		err = j.tracer.shutdown(ctx)
	}
	return errors.Join(err, j.log.shutdown(ctx))
}
