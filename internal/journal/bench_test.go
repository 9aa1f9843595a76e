package journal

import (
	"context"
	"errors"
	"io"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/lab/race"
)

// again makes a record fit to be closed once more.
func again(r *Record) { r.closed, r.begun = false, false }

func benchmarkClose(b *testing.B, o Options, make func(string) *Record, change ...func(*Config)) {
	o.Output = io.Discard
	j, p := open(b, o, append(change, func(c *Config) { c.Log.Buffer = 100_000 })...)
	defer closed(b, j)
	r := make("req-0123456789")
	b.ReportAllocs()
	for b.Loop() {
		rec := *r // a closed record is the journal's
		j.Begin(p, &rec, callers)
		j.Close(p, &rec)
	}
	j.digester.digest()
}

func BenchmarkClose(b *testing.B) { benchmarkClose(b, Options{}, streamed) }
func BenchmarkCloseNoLog(b *testing.B) {
	benchmarkClose(b, Options{}, streamed, func(c *Config) { c.Log.Enabled = false })
}

// BenchmarkCloseFailed is a failure whose text looks innocent, and
// BenchmarkCloseLeaky one that the redactor's expression has to work on.
func BenchmarkCloseFailed(b *testing.B) {
	benchmarkClose(b, Options{}, func(id string) *Record {
		r := refused(id)
		r.Fault = fault.Wrap(fault.UpstreamUnreachable, "upstream.Send", errors.New("dial tcp 10.0.0.1:443: connect: connection refused"))
		return r
	})
}
func BenchmarkCloseLeaky(b *testing.B) { benchmarkClose(b, Options{}, refused) }
func BenchmarkCloseTraced(b *testing.B) {
	benchmarkClose(b, Options{Exporter: discard{}}, streamed)
}

// BenchmarkBegin is what tracing costs a request when its export is off.
func BenchmarkBegin(b *testing.B) {
	j, p := open(b, Options{Output: io.Discard})
	defer closed(b, j)
	r := streamed("x")
	b.ReportAllocs()
	for b.Loop() {
		again(r)
		j.Begin(p, r, "")
	}
}

type discard struct{}

func (discard) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (discard) Shutdown(context.Context) error                             { return nil }

func TestAllocations(t *testing.T) {
	j, p := open(t, Options{Output: io.Discard})
	defer closed(t, j)
	r := streamed("req")
	if n := testing.AllocsPerRun(2000, func() {
		rec := *r // a closed record is the journal's
		j.Begin(p, &rec, callers)
		finish(j, p, &rec)
	}); n > 3 && !race.Enabled {
		t.Errorf("Close allocates %v times, want at most 2 beside the record", n)
	}
	if n := testing.AllocsPerRun(100, func() { again(r); j.Begin(p, r, "") }); n != 0 {
		t.Errorf("Begin allocates %v times", n)
	}
}

// BenchmarkLine is the encoding of one access line.
func BenchmarkLine(b *testing.B) {
	r, p := streamed("req-0123456789"), &Plan{}
	l := line{}
	for b.Loop() {
		l.b = l.b[:0]
		l.begin(start, r.level(), "request", "headgate", r.ID)
		l.hex("trace_id", r.Trace[:])
		l.hex("span_id", r.Span[:])
		l.what(r)
		l.result(p, r)
		l.timing(r)
		l.end()
	}
	b.SetBytes(int64(len(l.b)))
}
