package journal

import (
	"math"
	"slices"
	"testing"

	"github.com/headgate-ai/headgate/internal/setting"
)

func TestConfig(t *testing.T) {
	c := Default()
	var p setting.Problems
	if c.Validate("journal", &p); len(p) != 0 {
		t.Errorf("the default is wrong: %v", p)
	}
	c = Config{
		Log:    LogConfig{Path: "/no/such/folder/x", Format: "xml", Sample: 1.5, Buffer: 0},
		Recent: -1,
		Trace:  TraceConfig{Endpoint: "grpc://x:4317", Sample: math.NaN()},
	}
	c.Validate("journal", &p)
	var paths []string
	for _, q := range p {
		paths = append(paths, q.Path)
	}
	slices.Sort(paths)
	if want := []string{"journal.log.buffer", "journal.log.format", "journal.log.path", "journal.log.sample", "journal.recent", "journal.trace.endpoint", "journal.trace.sample"}; !slices.Equal(paths, want) {
		t.Errorf("got %v", p)
	}
	for e, ok := range map[string]bool{
		"http://127.0.0.1:4318": true, "https://otel.example/v1/traces": true,
		"127.0.0.1:4318": false, "http://": false, "http://u:p@h": false, "http://%zz": false,
	} {
		if err := checkEndpoint(e); (err == nil) != ok {
			t.Errorf("%s: %v", e, err)
		}
	}
}

func TestPending(t *testing.T) {
	j, p := open(t, Options{Output: &buffer{}})
	defer closed(t, j)
	if got := j.Pending(p); len(got) != 0 {
		t.Errorf("%v", got)
	}
	c := Default()
	c.Recent, c.Log.Sample, c.Trace.Endpoint = 5, 0.5, "http://h"
	changed, _ := c.Compile()
	if got := j.Pending(&changed); !slices.Equal(got, []string{"recent", "trace.endpoint"}) {
		t.Errorf("%v", got)
	}
}
