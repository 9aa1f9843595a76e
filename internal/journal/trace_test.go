package journal

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/headgate-ai/headgate/internal/fault"
)

const callers = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// memory is an in-memory exporter that outlives its shutdown.
type memory struct{ spans tracetest.SpanStubs }

func (m *memory) ExportSpans(_ context.Context, s []sdktrace.ReadOnlySpan) error {
	m.spans = append(m.spans, tracetest.SpanStubsFromReadOnlySpans(s)...)
	return nil
}
func (m *memory) Shutdown(context.Context) error { return nil }

// tree writes spans as parent/child lines with their times in milliseconds.
func tree(spans tracetest.SpanStubs) string {
	names := map[trace.SpanID]string{}
	for _, s := range spans {
		names[s.SpanContext.SpanID()] = s.Name
	}
	var b strings.Builder
	for _, s := range spans {
		parent := names[s.Parent.SpanID()]
		if parent == "" {
			parent = s.Parent.SpanID().String()
		}
		fmt.Fprintf(&b, "%s > %s %s %d-%d", parent, s.Name, s.SpanKind, s.StartTime.Sub(start).Milliseconds(), s.EndTime.Sub(start).Milliseconds())
		for _, e := range s.Events {
			fmt.Fprintf(&b, " [%s]", e.Name)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func attr(s tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

func TestSpanTree(t *testing.T) {
	var out memory
	j, p := open(t, Options{Output: &buffer{}, Exporter: &out})
	r := streamed("req-1")
	j.Begin(p, r, callers)
	finish(j, p, r)
	closed(t, j)
	want := `00f067aa0ba902b7 > llm.request server 0-66
llm.request > admission internal 1-15
llm.request > upstream client 21-55
llm.request > llm.completion internal 45-55 [llm.token.usage]
`
	if got := tree(out.spans); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	root, up, completion := out.spans[0], out.spans[1+1], out.spans[3]
	for _, s := range out.spans {
		if s.SpanContext.TraceID().String() != "4bf92f3577b34da6a3ce929d0e0e4736" || s.Status.Code != codes.Unset {
			t.Errorf("%s: %v %v", s.Name, s.SpanContext.TraceID(), s.Status)
		}
	}
	if root.SpanContext.SpanID() != trace.SpanID(r.Span) || up.SpanContext.SpanID() != trace.SpanID(r.UpstreamSpan) || !root.Parent.IsRemote() {
		t.Error("the spans do not have the record's ids")
	}
	if got, want := string(AppendTraceparent(nil, r)), "00-4bf92f3577b34da6a3ce929d0e0e4736-"+hex.EncodeToString(r.UpstreamSpan[:])+"-01"; got != want {
		t.Errorf("traceparent %s, want %s", got, want)
	}
	for _, c := range []struct {
		span      tracetest.SpanStub
		key, want string
	}{
		{root, "gen_ai.operation.name", "chat"}, {root, "gen_ai.provider.name", "openai"},
		{root, "gen_ai.request.model", "gpt-4o-mini"}, {root, "gen_ai.usage.input_tokens", "20"},
		{root, "gen_ai.response.finish_reasons", `["stop"]`}, {root, "http.response.status_code", "200"},
		{root, "url.path", "/v1/chat/completions"}, {root, "headgate.request_id", "req-1"}, {root, "headgate.tenant", "acme"},
		{up, "gen_ai.request.model", "gpt-4o-mini"}, {completion, "gen_ai.usage.output_tokens", "11"},
	} {
		if got := attr(c.span, c.key); got != c.want {
			t.Errorf("%s: %s = %q, want %q", c.span.Name, c.key, got, c.want)
		}
	}
	if a := completion.Events[0].Attributes; a[0] != attribute.Int("gen_ai.usage.input_tokens", 20) || a[1] != attribute.Int("gen_ai.usage.output_tokens", 11) {
		t.Errorf("usage event: %v", a)
	}
}

func TestErrorsAreTracedWhateverWasDrawn(t *testing.T) {
	var out memory
	j, p := open(t, Options{Output: &buffer{}, Exporter: &out}, func(c *Config) { c.Trace.Sample = 0 })
	for i, r := range []*Record{streamed("ok"), refused("bad"), streamed("client's")} {
		if i == 2 {
			r.Outcome, r.Status, r.Fault = Failed, 400, fault.New(fault.Malformed, "edge.Decode", "no model")
		}
		j.Begin(p, r, "")
		if r.Sampled || !strings.HasSuffix(string(AppendTraceparent(nil, r)), "-00") {
			t.Error("sampled although the share is 0")
		}
		finish(j, p, r)
	}
	closed(t, j)
	if got, want := tree(out.spans), `0000000000000000 > llm.request server 0-66
llm.request > admission internal 1-15
llm.request > upstream client 21-36
`; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for _, i := range []int{0, 2} {
		s := out.spans[i]
		if s.Status.Code != codes.Error || strings.Contains(s.Status.Description, leaked) || attr(s, "error.type") != "upstream_failed" {
			t.Errorf("%s: %+v", s.Name, s.Status)
		}
	}
}

func TestSampleRatio(t *testing.T) {
	j, p := open(t, Options{Output: &buffer{}, Exporter: &memory{}}, func(c *Config) { c.Trace.Sample = 0.25 })
	defer closed(t, j)
	n := 0
	for range 4000 {
		r := &Record{}
		j.Begin(p, r, "")
		if r.Sampled {
			n++
		}
		j.Begin(p, r, callers[:53]+"00")
		if r.Sampled {
			t.Fatal("the caller's decision is not followed")
		}
	}
	if n < 800 || n > 1200 {
		t.Errorf("%d of 4000 sampled", n)
	}
}

// receiver is an OTLP collector that keeps the names of what it gets.
func receiver(t *testing.T, path string) (*httptest.Server, chan string) {
	names := make(chan string, 100)
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		b, err := io.ReadAll(body)
		var q collector.ExportTraceServiceRequest
		if err = errors.Join(err, proto.Unmarshal(b, &q)); err != nil || r.URL.Path != path {
			t.Errorf("%v at %s", err, r.URL.Path)
		}
		for _, rs := range q.ResourceSpans {
			service := ""
			for _, a := range rs.Resource.Attributes {
				if a.Key == "service.name" {
					service = a.Value.GetStringValue()
				}
			}
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					names <- service + " " + s.Name + " " + hex.EncodeToString(s.TraceId)
				}
			}
		}
	})), names
}

func TestOTLPReceiver(t *testing.T) {
	for _, how := range []string{"config", "endpoint", "traces endpoint"} {
		t.Run(how, func(t *testing.T) {
			path := map[bool]string{true: "/custom", false: "/v1/traces"}[how == "traces endpoint"]
			srv, names := receiver(t, path)
			defer srv.Close()
			t.Setenv("OTEL_SERVICE_NAME", "gw")
			var cfg string
			switch how {
			case "config":
				cfg = srv.URL
			case "endpoint":
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL)
			default:
				t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", srv.URL+path)
			}
			j, p := open(t, Options{Output: &buffer{}}, func(c *Config) { c.Trace.Endpoint = cfg })
			r := streamed("req-1")
			j.Begin(p, r, "")
			finish(j, p, r)
			closed(t, j)
			close(names)
			var got []string
			for n := range names {
				got = append(got, strings.TrimSuffix(n, hex.EncodeToString(r.Trace[:])))
			}
			if s := fmt.Sprint(got); s != "[gw llm.request  gw admission  gw upstream  gw llm.completion ]" {
				t.Errorf("got %s", s)
			}
			if n := testutil.ToFloat64(j.m.spansExported); n != 4 {
				t.Errorf("%v spans counted", n)
			}
		})
	}
}

// stuckExporter takes a batch and never ends, unless it is told to.
type stuckExporter struct{ calls atomic.Int64 }

func (s *stuckExporter) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	s.calls.Add(1)
	<-ctx.Done()
	return ctx.Err()
}
func (s *stuckExporter) Shutdown(context.Context) error { return nil }

func TestStuckCollector(t *testing.T) {
	var said atomic.Int64
	out := &stuckExporter{}
	j, p := open(t, Options{Output: &buffer{}, Exporter: out, Notify: func(string) { said.Add(1) }})
	for range 3000 {
		r := streamed("x")
		j.Begin(p, r, "")
		finish(j, p, r)
	}
	dropped := testutil.ToFloat64(j.m.spansDropped)
	if want := 3000*4 - maxSpans; dropped != float64(want) {
		t.Errorf("%v spans dropped, want %d", dropped, want)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := j.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	for deadline := time.Now().Add(5 * time.Second); testutil.ToFloat64(j.m.spansFailed) < maxSpans; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the lost spans are not counted")
		}
	}
	if said.Load() != 1 {
		t.Errorf("said %d times", said.Load())
	}
}

func TestTraceparent(t *testing.T) {
	long := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for s, valid := range map[string]bool{
		long: true, long[:53] + "00": true, long[:53] + "ff": true,
		"cc" + long[2:]: true, "cc" + long[2:] + "-more": true,
		"": false, long[1:]: false, long + "-": false, long + " ": false, "ff" + long[2:]: false, "cc" + long[2:] + "more": false,
		strings.ToUpper(long): false, strings.ReplaceAll(long, "-", "_"): false, long[:53] + "0g": false,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01": false,
	} {
		var r Record
		if got := parseTraceparent(s, &r); got != valid {
			t.Errorf("%q: %v, want %v", s, got, valid)
		} else if !valid && r.Trace != [16]byte{} {
			t.Errorf("%q left its mark", s)
		}
	}
}

func FuzzTraceparent(f *testing.F) {
	f.Add(callers)
	f.Fuzz(func(t *testing.T, s string) {
		var r Record
		if parseTraceparent(s, &r) {
			r.UpstreamSpan = r.Parent
			if got := string(AppendTraceparent(nil, &r)); got[2:53] != s[2:53] {
				t.Errorf("%q became %q", s, got)
			}
		}
	})
}
