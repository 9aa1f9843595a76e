package experiment_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/headgate-ai/headgate/internal/app"
	"github.com/headgate-ai/headgate/internal/config/source/static"
	"github.com/headgate-ai/headgate/lab/experiment"
	"github.com/headgate-ai/headgate/lab/race"
)

// No experiment may leave anything running.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gateway runs the real one in this process.
func gateway(ctx context.Context, yaml string) (string, func() error, error) {
	a, err := app.New(ctx, app.Options{Source: static.New("test.yaml", []byte(yaml)), LogOutput: io.Discard, Level: slog.LevelError})
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	return "http://" + a.API(), func() error { cancel(); return <-ended }, nil
}

// Every experiment shows its direction in seconds. A machine that is busy with
// other tests may spoil one run, and hardly three in a row.
func TestEveryExperimentHasItsShape(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	if race.Enabled {
		t.Skip("the race detector takes its time; make test-bare runs this")
	}
	const tries, bound = 3, 30 * time.Second // 15 s at most, and room for a busy machine
	for _, e := range experiment.All {
		if e.Name == "knee" {
			continue // TestKnee has it
		}
		t.Run(e.Name, func(t *testing.T) {
			if _, err := exec.LookPath("redis-server"); err != nil && e.Name == "redis-latency" {
				t.Skip("there is no redis-server; install the Debian package redis-server")
			}
			var res *experiment.Result
			for range tries {
				var err error
				begun := time.Now()
				if res, err = experiment.Run(t.Context(), e, experiment.Options{Quick: true, Gateway: gateway}); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took > bound {
					t.Errorf("took %v", took)
				}
				if res.Holds {
					break
				}
			}
			var table bytes.Buffer
			if err := res.WriteTable(&table); err != nil {
				t.Fatal(err)
			}
			if !res.Holds {
				t.Errorf("the shape does not hold:\n%s", table.String())
			}
			checkTable(t, e, table.String())
			checkJSON(t, e, res)
		})
	}
}

func checkTable(t *testing.T, e *experiment.Experiment, table string) {
	t.Helper()
	want := []string{e.Name, e.Row, e.Title, "Claimed: " + e.Claim, "Wrong in the claim: " + e.Wrong, "Shape:"}
	for _, m := range e.Metrics {
		want = append(want, m.Title)
	}
	for _, w := range want {
		if !strings.Contains(table, w) {
			t.Errorf("the table lacks %q:\n%s", w, table)
		}
	}
}

func checkJSON(t *testing.T, e *experiment.Experiment, res *experiment.Result) {
	t.Helper()
	b, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Experiment, Claim, Wrong string
		Holds                    *bool
		Environment              map[string]string
		Arms                     []struct {
			Name    string
			Values  map[string]struct{ Median, Low, High float64 }
			Ratios  map[string]struct{ Median float64 }
			Samples []map[string]float64
		}
	}
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if back.Experiment != e.Name || back.Claim == "" || back.Wrong == "" || back.Holds == nil || len(back.Arms) != len(e.Arms) || back.Environment["go"] == "" {
		t.Errorf("%s", b)
	}
	for i, a := range back.Arms {
		if len(a.Values) == 0 || len(a.Samples) != res.Rounds || (i > 0) == (len(a.Ratios) == 0) {
			t.Errorf("arm %s: %+v", a.Name, a)
		}
	}
}

func TestNamesAndArms(t *testing.T) {
	for _, e := range experiment.All {
		if experiment.Find(e.Name) != e || len(e.Arms) < 2 || len(e.Expect) == 0 || e.Rounds < 3 || e.QuickRounds < 1 {
			t.Errorf("%s is not complete", e.Name)
		}
	}
	if experiment.Find("nonsense") != nil {
		t.Error("there is an experiment named nonsense")
	}
}

// toy counts what is run; arm a measures 2 and 4, b the half of it.
func toy(log *[]string) *experiment.Experiment {
	return &experiment.Experiment{
		Name: "toy", Arms: []experiment.Arm{{Name: "a"}, {Name: "b"}}, Metrics: []experiment.Metric{{Name: "v", Title: "value"}, {Name: "gone", Title: "missing"}},
		Rounds: 3, QuickRounds: 2,
		Expect: []experiment.Expectation{{Text: "b is less", Holds: func(m map[string]experiment.Sample) bool { return m["b"]["v"] < m["a"]["v"] }}},
		Run: func(_ context.Context, arm string, r experiment.Round) (experiment.Sample, error) {
			*log = append(*log, arm)
			v := float64(2 + 2*(r.Number%2))
			if arm == "b" {
				v /= 2
			}
			return experiment.Sample{"v": v}, nil
		},
	}
}

func TestRunInterleavesAndSumsUp(t *testing.T) {
	var log []string
	res, err := experiment.Run(t.Context(), toy(&log), experiment.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "b", "a", "a", "b"}; !slices.Equal(log, want) {
		t.Errorf("the arms ran as %q", log)
	}
	a, b := res.Arms[0].Values["v"], res.Arms[1].Values["v"]
	if a.Median != 2 || a.Low != 2 || a.High != 4 || a.N != 3 || b.Median != 1 || !res.Holds {
		t.Errorf("%+v, %+v", a, b)
	}
	if r := res.Arms[1].Ratios["v"]; r.Median != .5 || r.Low != .5 || r.High != .5 {
		t.Errorf("the ratio is not that of the rounds: %+v", r)
	}
	if _, ok := res.Arms[0].Values["gone"]; ok {
		t.Error("what was not measured has a value")
	}
	log = nil
	if _, err := experiment.Run(t.Context(), toy(&log), experiment.Options{Quick: true}); err != nil || len(log) != 4 {
		t.Errorf("quick: %q, %v", log, err)
	}
	if _, err := experiment.Run(t.Context(), toy(&log), experiment.Options{Rounds: 101}); err == nil {
		t.Error("101 rounds are not refused")
	}
}

// Arms that run side by side wait for each other; none comes from another round.
func TestRunSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := toy(nil)
		e.SideBySide = true
		e.Run = func(_ context.Context, arm string, r experiment.Round) (experiment.Sample, error) {
			time.Sleep(time.Second)
			return experiment.Sample{"v": float64(10*r.Number + int(arm[0]-'a'))}, nil
		}
		res, err := experiment.Run(t.Context(), e, experiment.Options{})
		if err != nil || res.Elapsed != 3 {
			t.Fatalf("%v, %v s", err, res.Elapsed)
		}
		for i, a := range res.Arms {
			for round, s := range a.Samples {
				if s["v"] != float64(10*round+i) {
					t.Errorf("arm %s, round %d: %v", a.Name, round, s)
				}
			}
		}
	})
}

func TestRunStops(t *testing.T) {
	var log []string
	e := toy(&log)
	ctx, cancel := context.WithCancel(t.Context())
	e.Run = func(context.Context, string, experiment.Round) (experiment.Sample, error) { cancel(); return nil, nil }
	if _, err := experiment.Run(ctx, e, experiment.Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := experiment.Run(t.Context(), experiment.Find("stream-layer"), experiment.Options{Quick: true}); err == nil && t.Context().Err() == nil {
		t.Error("the streaming layer was measured without a gateway")
	}
}
