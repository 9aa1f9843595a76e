package journal

import (
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
)

// The spans of a request:
//
//	llm.request      the whole, from the first byte to the last; child of the caller's span
//	├ admission      decode, identify, route
//	├ upstream       the call to the provider; its id is the one the provider was given
//	└ llm.completion first token to last byte, with the event llm.token.usage
//
// A span whose stage did not happen is left out; queue and tokenize will stand
// between admission and upstream once there are such stages.
const (
	spanRequest    = "llm.request"
	spanAdmission  = "admission"
	spanUpstream   = "upstream"
	spanCompletion = "llm.completion"
	eventUsage     = "llm.token.usage"
)

// span is one finished span. It is read by the exporter on the processor's
// goroutine, and only then are its attributes made. The embedded interface is
// nil: the SDK requires it, as it allows no implementation but its own; every
// method that can be called is defined below.
type span struct {
	sdktrace.ReadOnlySpan
	t          *tracer
	red        *Redactor
	r          *Record
	name       string
	id         [8]byte
	start, end time.Duration // offsets from the record's start
	children   int
}

// spans makes the record's spans, the root first.
func (t *tracer) spans(p *Plan, r *Record) []span {
	all := make([]span, 1, 4)
	add := func(name string, id [8]byte, start, end time.Duration) {
		all = append(all, span{t: t, red: p.Redactor, r: r, name: name, id: id, start: start, end: end})
	}
	s := &r.StageTime
	if s[Decode]+s[Identify]+s[Route] > 0 {
		add(spanAdmission, mintSpan(), r.Offset(Receive), r.Offset(Reserve))
	}
	if r.called() {
		add(spanUpstream, r.UpstreamSpan, r.Offset(Prepare), r.Offset(Relay))
	}
	if s[Relay] > 0 && r.Status < http.StatusBadRequest {
		add(spanCompletion, mintSpan(), r.Offset(FirstToken), r.Offset(Relay))
	}
	all[0] = span{t: t, red: p.Redactor, r: r, name: spanRequest, id: r.Span, end: r.Elapsed, children: len(all) - 1}
	return all
}

func (s *span) root() bool { return s.name == spanRequest }

func (s *span) Name() string { return s.name }

func (s *span) SpanContext() trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: s.r.Trace, SpanID: s.id,
		// What is exported counts as sampled, also where an error was kept
		// although the draw went against it.
		TraceFlags: trace.FlagsSampled,
	})
}

func (s *span) Parent() trace.SpanContext {
	c := trace.SpanContextConfig{TraceID: s.r.Trace, SpanID: s.r.Span, TraceFlags: trace.FlagsSampled}
	if s.root() {
		if s.r.Parent == [8]byte{} {
			return trace.SpanContext{}
		}
		c.SpanID, c.Remote = s.r.Parent, true
	}
	return trace.NewSpanContext(c)
}

func (s *span) SpanKind() trace.SpanKind {
	switch s.name {
	case spanRequest:
		return trace.SpanKindServer
	case spanUpstream:
		return trace.SpanKindClient
	}
	return trace.SpanKindInternal
}

func (s *span) StartTime() time.Time         { return s.r.Start.Add(s.start) }
func (s *span) EndTime() time.Time           { return s.r.Start.Add(s.end) }
func (s *span) Links() []sdktrace.Link       { return nil }
func (s *span) DroppedAttributes() int       { return 0 }
func (s *span) DroppedLinks() int            { return 0 }
func (s *span) DroppedEvents() int           { return 0 }
func (s *span) ChildSpanCount() int          { return s.children }
func (s *span) Resource() *resource.Resource { return s.t.resource }
func (s *span) scope() instrumentation.Scope {
	return instrumentation.Scope{Name: scopeName, SchemaURL: semconv.SchemaURL}
}

// InstrumentationScope names this package as the spans' maker.
func (s *span) InstrumentationScope() instrumentation.Scope { return s.scope() }

// InstrumentationLibrary is the SDK's older name for the same.
//
//lint:ignore SA1019 the SDK's interface still demands it
func (s *span) InstrumentationLibrary() instrumentation.Library { return s.scope() }

const scopeName = "github.com/headgate-ai/headgate/internal/journal"

// Status is an error where the gateway or the provider failed; a server span
// is not in error for its caller's mistakes.
func (s *span) Status() sdktrace.Status {
	if !s.r.broken() || s.name == spanAdmission {
		return sdktrace.Status{}
	}
	st := sdktrace.Status{Code: codes.Error}
	if s.r.Fault != nil {
		st.Description = s.red.text(s.r.Fault.Error())
	}
	return st
}

// Events is the usage, where the completion has one.
func (s *span) Events() []sdktrace.Event {
	used := s.r.tokens()
	if s.name != spanCompletion || used.Total() == 0 {
		return nil
	}
	return []sdktrace.Event{{
		Name: eventUsage,
		Time: s.EndTime(),
		Attributes: []attribute.KeyValue{
			semconv.GenAIUsageInputTokens(int(used.Input)),
			semconv.GenAIUsageOutputTokens(int(used.Output)),
			attribute.Int64("gen_ai.usage.cache_read.input_tokens", used.Cached),
			attribute.Bool("headgate.usage.estimated", used.Estimated),
		},
	}}
}

func (s *span) Attributes() []attribute.KeyValue {
	switch s.name {
	case spanRequest:
		return s.requestAttributes()
	case spanUpstream:
		return s.upstreamAttributes()
	case spanCompletion:
		return s.completionAttributes()
	}
	r := s.r
	return []attribute.KeyValue{
		attribute.Int64("headgate.decode_us", r.StageTime[Decode].Microseconds()),
		attribute.Int64("headgate.identify_us", r.StageTime[Identify].Microseconds()),
		attribute.Int64("headgate.route_us", r.StageTime[Route].Microseconds()),
	}
}

func (s *span) requestAttributes() []attribute.KeyValue {
	r := s.r
	a := append(s.genAI(r.Asked),
		semconv.HTTPRequestMethodKey.String(r.Method),
		semconv.HTTPRoute(r.Route),
		semconv.URLPath(r.Route),
		semconv.HTTPResponseStatusCode(r.Status),
		semconv.ClientAddress(r.Client),
		semconv.UserAgentOriginal(r.Agent),
		attribute.String("headgate.request_id", r.ID),
		attribute.String("headgate.tenant", r.Who.Tenant),
		attribute.String("headgate.key", r.Who.Key),
		attribute.String("headgate.model", r.Model),
		attribute.String("headgate.target", r.Target),
		attribute.String("headgate.dialect", string(r.Dialect)),
		attribute.String("headgate.outcome", r.Outcome.String()),
		attribute.Bool("gen_ai.request.stream", r.Stream),
		attribute.Int("headgate.attempts", r.Attempts),
		attribute.Int64("headgate.own_us", r.Own().Microseconds()),
	)
	return s.withUsage(s.withError(a))
}

func (s *span) upstreamAttributes() []attribute.KeyValue {
	r := s.r
	_, model, _ := strings.Cut(r.Target, "/")
	a := append(s.genAI(model),
		attribute.Bool("headgate.connection.reused", r.Reused),
		attribute.Int64("headgate.connect_us", r.StageTime[Connect].Microseconds()),
		attribute.Int64("headgate.first_byte_us", r.StageTime[FirstByte].Microseconds()),
	)
	if r.UpstreamRaw != 0 {
		a = append(a, semconv.HTTPResponseStatusCode(r.UpstreamRaw))
	}
	return s.withUsage(s.withError(a))
}

func (s *span) completionAttributes() []attribute.KeyValue {
	r := s.r
	a := []attribute.KeyValue{
		attribute.Int("headgate.events", r.Events),
		attribute.Float64("gen_ai.response.time_to_first_chunk", seconds(r.Offset(FirstToken))),
		attribute.Int64("headgate.backpressure_us", r.BackPressure.Microseconds()),
	}
	if g := r.Gaps; g.Count > 0 {
		a = append(a,
			attribute.Int64("headgate.gap_p50_us", g.P50.Microseconds()),
			attribute.Int64("headgate.gap_p95_us", g.P95.Microseconds()),
			attribute.Int64("headgate.gap_max_us", g.Max.Microseconds()))
	}
	return s.withUsage(a)
}

// genAI are the attributes that GenAI spans share.
func (s *span) genAI(model string) []attribute.KeyValue {
	r := s.r
	a := make([]attribute.KeyValue, 0, 28)
	a = append(a, semconv.GenAIOperationNameKey.String(string(r.Op)))
	if r.Provider != "" {
		a = append(a, semconv.GenAIProviderNameKey.String(r.Provider))
	}
	if model != "" {
		a = append(a, semconv.GenAIRequestModel(model))
	}
	return a
}

func (s *span) withError(a []attribute.KeyValue) []attribute.KeyValue {
	if f := s.r.Fault; f != nil {
		a = append(a, semconv.ErrorTypeKey.String(f.Kind.String()),
			attribute.String("headgate.blame", f.Kind.Blame().String()))
	}
	return a
}

func (s *span) withUsage(a []attribute.KeyValue) []attribute.KeyValue {
	if used := s.r.tokens(); used.Total() > 0 {
		a = append(a,
			semconv.GenAIUsageInputTokens(int(used.Input)),
			semconv.GenAIUsageOutputTokens(int(used.Output)))
	}
	if s.r.FinishReason != "" {
		a = append(a, semconv.GenAIResponseFinishReasons(s.r.FinishReason))
	}
	return a
}
