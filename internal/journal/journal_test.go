package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
)

func TestMain(m *testing.M) {
	for _, v := range []string{"OTEL_SERVICE_NAME", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED"} {
		os.Unsetenv(v)
	}
	goleak.VerifyTestMain(m)
}

// buffer is an io.Writer that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Split(strings.TrimSuffix(b.b.String(), "\n"), "\n")
}

// open builds a room and its plan, with the secret that tests leak on purpose.
func open(t testing.TB, o Options, change ...func(*Config)) (*Room, *Plan) {
	t.Helper()
	o.Config = Default()
	for _, f := range change {
		f(&o.Config)
	}
	if o.Notify == nil {
		o.Notify = func(string) {}
	}
	j, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.Config.Compile()
	if err != nil {
		t.Fatal(err)
	}
	p.Redactor = NewRedactor([]string{leaked})
	j.SetRedactor(p.Redactor)
	return j, &p
}

const leaked = "a-secret/of the provider"

func closed(t testing.TB, j *Room) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := j.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

var start = time.Date(2026, 10, 9, 8, 7, 6, 5_400_000, time.UTC)

// streamed is a successful stream; its stages take 1, 2, … 10 ms.
func streamed(id string) *Record {
	r := &Record{
		ID: id, Start: start, Method: "POST", Route: "/v1/chat/completions", Proto: "HTTP/1.1",
		Client: "127.0.0.1:5000", Agent: "test/1", Dialect: llm.OpenAI, Op: llm.Chat,
		Who:   llm.Principal{Key: "narrow", Tenant: "acme"},
		Asked: "gpt-4o-mini", Model: "gpt-*", Provider: "openai", Target: "openai/gpt-4o-mini",
		Attempts: 1, Reused: true, Stream: true, Status: 200, UpstreamRaw: 200,
		BytesIn: 100, BytesOut: 2000, Events: 12, FinishReason: "stop",
		Usage: llm.Usage{Input: 20, Cached: 4, Output: 11},
		Gaps:  Gaps{11, 5 * time.Millisecond, 9 * time.Millisecond, 20 * time.Millisecond},
	}
	for s := range Stages {
		r.Mark(s, start.Add(r.last+time.Duration(s+1)*time.Millisecond))
	}
	r.Elapsed = r.last
	return r
}

// refused is a request that the provider failed before it answered.
func refused(id string) *Record {
	r := streamed(id)
	r.Status, r.UpstreamRaw, r.Outcome, r.Events = 502, 500, Failed, 0
	r.StageTime[FirstToken], r.StageTime[Relay] = 0, 0
	r.Gaps = Gaps{}
	r.Fault = fault.Wrap(fault.UpstreamFailed, "upstream.Send", errors.New(`refused "`+leaked+"\" and Bearer abcdef0123 at http://x/y?key=AIzaSyExample12345&b=1"))
	return r
}

func parse(t testing.TB, line string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatalf("%v in %q", err, line)
	}
	for _, k := range []string{"trace_id", "span_id", "service_name", "request_id"} {
		if _, ok := m[k].(string); !ok {
			t.Errorf("no %s in %s", k, line)
		}
	}
	return m
}

func TestAccessLine(t *testing.T) {
	var out buffer
	j, p := open(t, Options{Output: &out})
	r := streamed("req-1")
	j.Begin(p, r, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	finish(j, p, r)
	finish(j, p, r)
	finish(j, p, refused("req-2"))
	closed(t, j)
	lines := out.lines()
	if len(lines) != 2 {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	m := parse(t, lines[0])
	for k, want := range map[string]any{
		"time": "2026-10-09T08:07:06.071Z", "level": "INFO", "msg": "request", "service_name": "headgate",
		"request_id": "req-1", "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "tenant": "acme", "key": "narrow",
		"model": "gpt-*", "target": "openai/gpt-4o-mini", "stream": true, "status": 200.0, "outcome": "ok",
		"input_tokens": 20.0, "output_tokens": 11.0, "gap_p95_us": 9000.0, "elapsed_us": 66000.0, "finish_reason": "stop",
	} {
		if m[k] != want {
			t.Errorf("%s = %v, want %v", k, m[k], want)
		}
	}
	if s := m["stages_us"].(map[string]any); s["relay"] != 10000.0 || len(s) != int(Stages) {
		t.Errorf("stages: %v", s)
	}
	m = parse(t, lines[1])
	if m["level"] != "ERROR" || m["fault"] != "upstream_failed" || m["blame"] != "upstream" || m["status"] != 502.0 {
		t.Errorf("%v", m)
	}
	e := m["error"].(string)
	if strings.Contains(e, leaked) || strings.Contains(e, "abcdef") || strings.Contains(e, "AIza") || !strings.Contains(e, "&b=1") {
		t.Errorf("error: %q", e)
	}
}

func TestTextFormat(t *testing.T) {
	var out buffer
	j, p := open(t, Options{Output: &out}, func(c *Config) { c.Log.Format = "text" })
	finish(j, p, streamed("req-1"))
	j.Logger().Info("two words", "a", "b c", "n", 1)
	closed(t, j)
	lines := out.lines()
	if len(lines) != 2 || !strings.Contains(lines[0], ` status=200 `) || !strings.Contains(lines[0], " stages_us.relay=10000 ") {
		t.Errorf("%q", lines)
	}
	if !strings.Contains(lines[1], `INFO "two words" service_name=headgate request_id=""`) || !strings.HasSuffix(lines[1], `a="b c" n=1`) {
		t.Errorf("%q", lines[1])
	}
}

func TestSampling(t *testing.T) {
	var out buffer
	j, p := open(t, Options{Output: &out}, func(c *Config) { c.Log.Sample = 0.25; c.Log.Buffer = 5000; c.Recent = 0 })
	for i := range 2000 {
		finish(j, p, streamed(fmt.Sprint(i)))
	}
	for range 20 {
		finish(j, p, refused("bad"))
	}
	closed(t, j)
	bad, ok := 0, 0
	for _, l := range out.lines() {
		if parse(t, l)["outcome"] == "ok" {
			ok++
		} else {
			bad++
		}
	}
	if bad != 20 || ok < 350 || ok > 650 {
		t.Errorf("%d ok and %d failed lines", ok, bad)
	}
	if n := j.Totals("", "", "").Requests; n != 2020 {
		t.Errorf("%d requests counted", n)
	}
	if len(j.Recent(0)) != 0 {
		t.Error("recent requests are off")
	}
}

func TestCloseCompletesTheRecord(t *testing.T) {
	j, _ := open(t, Options{Output: &buffer{}})
	defer closed(t, j)
	r := &Record{ID: "x", Start: time.Now().Add(-time.Second), Asked: strings.Repeat("é", 300) + "\n"}
	r.Mark(Decode, r.Start.Add(time.Millisecond))
	finish(j, nil, r)
	var sum time.Duration
	for _, d := range r.StageTime {
		sum += d
	}
	if r.Elapsed < time.Second || sum != r.Elapsed {
		t.Errorf("elapsed %v, sum of stages %v", r.Elapsed, sum)
	}
	if len(r.Asked) > maxAsked || !strings.HasPrefix(r.Asked, "éé") {
		t.Errorf("asked %q", r.Asked)
	}
}

func TestTotals(t *testing.T) {
	j, p := open(t, Options{Output: &buffer{}})
	defer closed(t, j)
	finish(j, p, streamed("1"))
	finish(j, p, refused("2"))
	cut := streamed("3") // broke off within the stream: what passed counts
	cut.Outcome, cut.Fault = Failed, fault.New(fault.UpstreamTruncated, "stream.Copy", "")
	finish(j, p, cut)
	gone := streamed("4")
	gone.Outcome, gone.Fault, gone.Status = Cancelled, fault.New(fault.Canceled, "stream.Copy", ""), 499
	gone.Who = llm.Principal{Key: "other-key", Tenant: "acme"}
	finish(j, p, gone)

	want := Totals{4, 60, 33, 12, 2, 1}
	for _, model := range []string{"", "gpt-4o-mini", "openai/gpt-4o-mini", "gpt-*"} {
		if got := j.Totals(model, "", "acme"); got != want {
			t.Errorf("%q: %+v, want %+v", model, got, want)
		}
	}
	if got := j.Totals("", "narrow", ""); got != (Totals{3, 40, 22, 8, 2, 0}) {
		t.Errorf("by key: %+v", got)
	}
	if got := j.Totals("gpt-5", "", ""); got != (Totals{}) {
		t.Errorf("another model: %+v", got)
	}
	b, _ := json.Marshal(want)
	if string(b) != `{"requests":4,"prompt_tokens":60,"completion_tokens":33,"cached_tokens":12,"errors":2,"cancelled":1}` {
		t.Errorf("%s", b)
	}
}

func TestTotalsAreBounded(t *testing.T) {
	j, p := open(t, Options{Output: &buffer{}}, func(c *Config) { c.Log.Enabled = false })
	defer closed(t, j)
	const n = maxTotals + 5000
	for i := range n {
		r := streamed("x")
		r.Asked = fmt.Sprint("made-up-", i)
		r.Target = "openai/" + r.Asked
		finish(j, p, r)
	}
	if len(j.totals.sum) > maxTotals+1 {
		t.Errorf("%d combinations are kept", len(j.totals.sum))
	}
	if got := j.Totals("", "narrow", "acme").Requests; got != n {
		t.Errorf("%d requests of the key, want %d", got, n)
	}
	if got := j.Totals("other", "", "").Requests; got != 5000 {
		t.Errorf("%d requests folded, want 5000", got)
	}
}

func TestRecent(t *testing.T) {
	j, p := open(t, Options{Output: &buffer{}}, func(c *Config) { c.Recent = 5 })
	defer closed(t, j)
	ids := func(limit int) (s string) {
		for _, v := range j.Recent(limit) {
			s += v.ID
		}
		return s
	}
	for i, want := range []string{"0", "10", "210", "3210", "43210", "54321", "65432"} {
		finish(j, p, streamed(fmt.Sprint(i)))
		if got := ids(0); got != want {
			t.Errorf("after %d: %s, want %s", i, got, want)
		}
	}
	if got := ids(2); got != "65" {
		t.Errorf("latest two: %s", got)
	}
	if _, ok := j.Find("1"); ok {
		t.Error("a record outlived the ring")
	}
	finish(j, p, refused("bad"))
	v, ok := j.Find("bad")
	if !ok || v.Fault == nil || v.Fault.Kind != "upstream_failed" || strings.Contains(v.Fault.Error, leaked) {
		t.Errorf("%+v", v.Fault)
	}
	b, err := json.Marshal(v)
	if err != nil || !bytes.Contains(b, []byte(`"stages_us":{"receive":1000,"decode":2000,`)) || bytes.Contains(b, []byte("abcdef0123")) {
		t.Errorf("%v %s", err, b)
	}
}

func TestConcurrentUse(t *testing.T) {
	var out buffer
	j, p := open(t, Options{Output: &out}, func(c *Config) { c.Log.Buffer = 10_000 })
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				r := streamed(fmt.Sprintf("%d-%d", g, i))
				r.Asked = fmt.Sprint("m", i%10)
				j.Begin(p, r, "")
				finish(j, p, r)
				if i%50 == 0 {
					j.Recent(10)
					j.Totals("m1", "", "")
					j.Logger().Warn("hello", "i", i)
					if _, err := j.Registry().Gather(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	closed(t, j)
	if n := len(out.lines()); n != 8*200+8*4 {
		t.Errorf("%d lines", n)
	}
	for _, l := range out.lines() {
		parse(t, l)
	}
}

// finish closes a record and has it entered at once.
func finish(j *Room, p *Plan, r *Record) {
	j.Close(p, r)
	j.digester.digest()
}
