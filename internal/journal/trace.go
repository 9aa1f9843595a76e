package journal

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
)

// maxSpans is how many finished spans may wait for the collector.
const maxSpans = 4096

// tracer turns closed records into spans and hands them to the SDK's batch
// processor. Spans are made after the fact, from the record's times and with
// the record's ids, so a request pays nothing for its trace while it runs.
type tracer struct {
	batch    sdktrace.SpanProcessor
	out      *exporter
	resource *resource.Resource
	m        *instruments
}

// newTracer prepares the export, or returns nil if it is off.
func newTracer(cfg TraceConfig, o Options, m *instruments) (*tracer, error) {
	inner, err := newExporter(cfg, o)
	if inner == nil || err != nil {
		return nil, err
	}
	res, err := resource.New(context.Background(),
		resource.WithTelemetrySDK(), resource.WithFromEnv(),
		resource.WithAttributes(semconv.ServiceName(cfg.ServiceName), semconv.ServiceVersion(o.Version)))
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("cannot describe this process to the collector: %w", err)
	}
	t := &tracer{resource: res, m: m, out: &exporter{inner: inner, m: m, notify: o.Notify}}
	t.out.ctx, t.out.cancel = context.WithCancel(context.Background())
	opts := []sdktrace.BatchSpanProcessorOption{sdktrace.WithMaxQueueSize(maxSpans)}
	if os.Getenv("OTEL_BSP_SCHEDULE_DELAY") == "" {
		// The SDK's five seconds are long when someone looks for a trace.
		opts = append(opts, sdktrace.WithBatchTimeout(time.Second))
	}
	t.batch = sdktrace.NewBatchSpanProcessor(t.out, opts...)
	return t, nil
}

// newExporter makes the OTLP/HTTP exporter, or nil if nobody asked for one.
func newExporter(cfg TraceConfig, o Options) (sdktrace.SpanExporter, error) {
	if o.Exporter != nil {
		return o.Exporter, nil
	}
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	var opts []otlptracehttp.Option
	switch {
	case cfg.Endpoint != "":
		opts = append(opts, otlptracehttp.WithEndpointURL(withPath(cfg.Endpoint)))
	case os.Getenv("OTEL_TRACES_EXPORTER") == "none":
		return nil, nil
	case os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "":
		return nil, nil
	}
	e, err := otlptracehttp.New(context.Background(), opts...)
	if err != nil {
		return nil, fmt.Errorf("cannot prepare the export of traces: %w", err)
	}
	return e, nil
}

// withPath adds OTLP's own path to an address that has none.
func withPath(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err == nil && strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
		return u.String()
	}
	return endpoint
}

// emit queues the record's spans, all or none: the processor would drop single
// ones, and without saying so.
func (t *tracer) emit(p *Plan, r *Record) {
	spans := t.spans(p, r)
	n := int64(len(spans))
	if t.out.waiting.Add(n) > maxSpans {
		t.out.waiting.Add(-n)
		t.m.spansDropped.Add(float64(n))
		return
	}
	for i := range spans {
		t.batch.OnEnd(&spans[i])
	}
}

// shutdown exports what is waiting. When ctx ends first, the export in
// progress is broken off.
func (t *tracer) shutdown(ctx context.Context) error {
	stop := context.AfterFunc(ctx, t.out.cancel)
	defer stop()
	err := t.batch.Shutdown(ctx)
	t.out.cancel()
	if err != nil {
		return fmt.Errorf("the traces could not be exported in time: %w", err)
	}
	return nil
}

// exporter stands between the processor and the real exporter: it counts, and
// it reports an outage once rather than with each batch.
type exporter struct {
	inner   sdktrace.SpanExporter
	m       *instruments
	notify  func(string)
	waiting atomic.Int64 // spans queued and not yet exported
	failing atomic.Bool
	ctx     context.Context // ends when shutdown's time is over
	cancel  context.CancelFunc
}

// ExportSpans implements sdktrace.SpanExporter. Its errors have been dealt
// with, so it returns none: the SDK would only print them.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	err := e.inner.ExportSpans(ctx, spans)
	e.waiting.Add(-int64(len(spans)))
	if err == nil {
		e.m.spansExported.Add(float64(len(spans)))
		if e.failing.Swap(false) {
			e.notify("the trace collector can be reached again")
		}
		return nil
	}
	e.m.spansFailed.Add(float64(len(spans)))
	if !e.failing.Swap(true) {
		e.notify(fmt.Sprintf("the trace collector cannot be reached (%v); spans are dropped and counted until it can", err))
	}
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (e *exporter) Shutdown(ctx context.Context) error { return e.inner.Shutdown(ctx) }
