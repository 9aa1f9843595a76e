package journal

import (
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/headgate-ai/headgate/internal/fault"
)

// families gathers the registry by name.
func families(t *testing.T, j *Room) map[string]*dto.MetricFamily {
	t.Helper()
	all, err := j.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]*dto.MetricFamily{}
	for _, f := range all {
		m[f.GetName()] = f
	}
	return m
}

// exercise makes every metric have a child.
func exercise(j *Room, p *Plan) {
	ok := streamed("1")
	ok.BackPressure = 2 * time.Second
	for _, r := range []*Record{ok, refused("2")} {
		j.Begin(p, r, "")
		finish(j, p, r)
	}
	j.StreamOpened()
	j.Panicked()
	j.Reloaded(true, "abc")
	j.TLSResumed()
}

func TestMetricsAreTheTable(t *testing.T) {
	j, p := open(t, Options{Output: &buffer{}, Version: "v1", Commit: "c"})
	defer closed(t, j)
	exercise(j, p)
	got := families(t, j)
	page := string(MetricsMarkdown())
	for _, m := range Metrics {
		f := got[m.Name]
		if f == nil {
			t.Errorf("%s is in the table only", m.Name)
			continue
		}
		if strings.ToLower(f.GetType().String()) != string(m.Type) || f.GetHelp() != m.Help {
			t.Errorf("%s: %v %q", m.Name, f.GetType(), f.GetHelp())
		}
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		want := slices.Sorted(slices.Values(m.Labels))
		if !slices.Equal(labels, want) {
			t.Errorf("%s: labels %v, want %v", m.Name, labels, want)
		}
		if m.Type == Histogram && (f.Metric[0].Histogram.Schema == nil || len(f.Metric[0].Histogram.Bucket) != len(m.Buckets)) {
			t.Errorf("%s is not both classic and native", m.Name)
		}
		if !strings.Contains(page, "| `"+m.Name+"` | "+string(m.Type)+" |") {
			t.Errorf("%s is not on the page", m.Name)
		}
		delete(got, m.Name)
	}
	for name := range got {
		if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("%s is not in the table", name)
		}
	}
}

func TestLint(t *testing.T) {
	j, p := open(t, Options{Output: &buffer{}})
	defer closed(t, j)
	exercise(j, p)
	// What promtool would say, go_* and process_* left to their makers.
	var names []string
	for _, m := range Metrics {
		names = append(names, m.Name)
	}
	problems, err := testutil.GatherAndLint(j.Registry(), names...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if p.Metric == "headgate_window_p99_ms" {
			continue // named as the member of MetricsWindow is
		}
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestMetricValues(t *testing.T) {
	j, p := open(t, Options{Output: &buffer{}})
	defer closed(t, j)
	pending := &Record{Start: start}
	j.Begin(p, pending, "")
	for range 3 {
		r := streamed("x")
		j.Begin(p, r, "")
		finish(j, p, r)
	}
	finish(j, p, refused("x"))
	client := &Record{Start: start, Elapsed: time.Millisecond, Status: 404, Outcome: Failed, Asked: "made up", Fault: fault.New(fault.ModelNotFound, "route.Order", "")}
	finish(j, p, client)

	got := families(t, j)
	value := func(name, labels string) float64 {
		for _, m := range got[name].GetMetric() {
			s := ""
			for _, l := range m.Label {
				s += l.GetName() + "=" + l.GetValue() + " "
			}
			if strings.TrimSpace(s) != labels {
				continue
			}
			switch {
			case m.Histogram != nil:
				return float64(m.Histogram.GetSampleCount())*1000 + m.Histogram.GetSampleSum()
			case m.Gauge != nil:
				return m.Gauge.GetValue()
			}
			return m.Counter.GetValue()
		}
		return -1
	}
	gen := "gen_ai_operation_name=chat gen_ai_provider_name=openai gen_ai_request_model=gpt-*"
	for _, c := range []struct {
		name, labels string
		want         float64 // histograms: 1000 × count + sum
	}{
		{"llm_request_duration_seconds", "model=gpt-* operation=chat status_code=200", 3000.198},
		{"llm_request_duration_seconds", "model=none operation=none status_code=404", 1000.001},
		{"llm_token_total", "direction=input model=gpt-*", 60},
		{"llm_token_total", "direction=output model=gpt-*", 33},
		{"gen_ai_client_operation_duration_seconds", "error_type= " + gen, 3000.12},
		{"gen_ai_server_request_duration_seconds", "error_type=upstream_failed " + gen, 1000.066},
		{"gen_ai_server_time_to_first_token_seconds", gen, 3000.135},
		{"gen_ai_server_time_per_output_token_seconds", gen, 3000.003},
		{"gen_ai_client_token_usage", strings.Replace(gen, "gen_ai_request_model=gpt-*", "gen_ai_request_model=gpt-* gen_ai_token_type=output", 1), 3033},
		{"headgate_requests_total", "dialect=openai model=gpt-* operation=chat outcome=ok provider=openai status_class=2xx", 3},
		{"headgate_requests_total", "dialect=none model=none operation=none outcome=error provider=none status_class=4xx", 1},
		{"headgate_stage_seconds", "stage=relay", 3000.03},
		{"headgate_faults_total", "blame=upstream kind=upstream_failed", 1},
		{"headgate_faults_total", "blame=gateway kind=internal", 0},
		{"headgate_upstream_connections_total", "provider=openai reused=true", 4},
		{"headgate_stream_gap_seconds", "stat=max", 3000.06},
		{"headgate_inflight_requests", "", 1},
	} {
		if got := value(c.name, c.labels); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("%s{%s} = %v, want %v", c.name, c.labels, got, c.want)
		}
	}
}

func TestLabelsAreBounded(t *testing.T) {
	j, p := open(t, Options{Output: &buffer{}}, func(c *Config) { c.Log.Enabled = false })
	defer closed(t, j)
	for i := range maxModels + 500 {
		r := streamed("x")
		r.Model = fmt.Sprint("model-", i)
		r.Op, r.Dialect, r.Status = "made-up", "made-up", 299
		finish(j, p, r)
	}
	f := families(t, j)
	if n := len(f["headgate_requests_total"].Metric); n != maxModels+1 {
		t.Errorf("%d series", n)
	}
	for _, m := range f["llm_request_duration_seconds"].Metric {
		for _, l := range m.Label {
			if (l.GetName() == "operation" || l.GetName() == "status_code") && l.GetValue() != "other" {
				t.Fatalf("%v", m.Label)
			}
		}
	}
	if n := testutil.CollectAndCount(j.m.counters["llm_token_total"]); n != 2*(maxModels+1) {
		t.Errorf("%d token series", n)
	}
}

func TestHandler(t *testing.T) {
	j, p := open(t, Options{Output: &buffer{}, Version: "v1.2.3"})
	defer closed(t, j)
	exercise(j, p)
	for accept, want := range map[string]string{
		"": "text/plain", "application/openmetrics-text; version=1.0.0": "application/openmetrics-text",
	} {
		q := httptest.NewRequest("GET", "/metrics", nil)
		q.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		j.Handler().ServeHTTP(w, q)
		b, _ := io.ReadAll(w.Body)
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), want) {
			t.Errorf("%d %s", w.Code, w.Header().Get("Content-Type"))
		}
		for _, s := range []string{`le="0.187"`, `version="v1.2.3"`, "go_goroutines", "llm_token_total", `headgate_config_info{hash="abc"} 1`} {
			if !strings.Contains(string(b), s) {
				t.Errorf("%q: no %s", accept, s)
			}
		}
	}
}
