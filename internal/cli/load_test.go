package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/alecthomas/kong"

	"github.com/headgate-ai/headgate/lab/experiment"
	"github.com/headgate-ai/headgate/lab/fake"
	"github.com/headgate-ai/headgate/lab/load"
)

// labCommands are the commands of lab by themselves.
type labCommands struct {
	Load       loadCmd       `cmd:""`
	Experiment experimentCmd `cmd:""`
}

// lab runs one of them and returns what it printed.
func lab(t *testing.T, env map[string]string, args ...string) (out, errs string, parse, run error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	e := &Env{Stdout: &stdout, Stderr: &stderr, Getenv: func(n string) string { return env[n] }}
	var c labCommands
	parser, err := kong.New(&c, kong.Bind(e), kong.BindTo(t.Context(), (*context.Context)(nil)))
	if err != nil {
		t.Fatal(err)
	}
	k, parse := parser.Parse(args)
	if parse == nil {
		run = k.Run()
	}
	return stdout.String(), stderr.String(), parse, run
}

func TestLoad(t *testing.T) {
	cfg := fake.Default()
	cfg.Keys = []string{"sk-from-env"}
	server := httptest.NewServer(fake.New(cfg))
	defer server.Close()
	svg := filepath.Join(t.TempDir(), "load.svg")
	out, errs, parse, run := lab(t, map[string]string{"K": "sk-from-env"}, "load", server.URL, "--key-env", "K", "-n", "20", "--rate", "200", "--stream",
		"--model", "sim-small+stamp=true", "-H", "x-sim-token-gap: 1ms", "--sessions", "5", "--json", "--svg", svg)
	if parse != nil || run != nil || errs != "" {
		t.Fatal(parse, run, errs)
	}
	var r load.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.OK != 20 || r.Tokens.Received != 320 || r.Tokens.Lost != 0 || r.Gap.Count != 300 || r.Sessions != 5 {
		t.Errorf("%d ok, %+v, %v gaps, %v", r.OK, r.Tokens, r.Gap.Count, r.Examples)
	}
	b, err := os.ReadFile(svg)
	if err != nil || xml.Unmarshal(b, new(struct{ XMLName xml.Name })) != nil {
		t.Errorf("the plot: %v", err)
	}
	if out, _, _, run := lab(t, nil, "load", server.URL, "-n", "3"); run == nil || !strings.Contains(out, "3  status, such as: 401") {
		t.Errorf("%v, %s", run, out)
	}
}

func TestLoadRefusesWrongUsage(t *testing.T) {
	for want, args := range map[string]string{
		"url:": "load nonsense", "pattern:": "load http://h --pattern burst", "header:": "load http://h -H nonsense", "rate:": "load http://h --rate=-1",
		"unknown experiment": "experiment run nonsense", "has curves: knee": "experiment run sync-log --plot x.png", "csv, plot": "experiment run all --csv x.csv",
		"rounds:": "experiment run sync-log --rounds=-1",
	} {
		if _, _, parse, _ := lab(t, nil, strings.Fields(args)...); parse == nil || !strings.Contains(parse.Error(), want) {
			t.Errorf("%s: %v", args, parse)
		}
	}
	if _, _, _, run := lab(t, nil, "load", "http://127.0.0.1:1", "--key-env", "NONE"); run == nil || !strings.Contains(run.Error(), "NONE") {
		t.Error(run)
	}
}

func TestExperimentWritesCurves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := experiment.Find("knee"), experimentRunCmd{CSV: filepath.Join(t.TempDir(), "knee.csv"), Plot: filepath.Join(t.TempDir(), "knee.png")}
		res, err := experiment.Run(t.Context(), e, experiment.Options{Quick: true})
		if err == nil {
			err = c.writeCurves(e, res)
		}
		if err != nil {
			t.Fatal(err)
		}
		for file, begin := range map[string]string{c.CSV: "arm,burst,connections,conns_per_burst,", c.Plot: "\x89PNG"} {
			if b, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(b), begin) {
				t.Errorf("%s: %v", file, err)
			}
		}
		c.Plot = filepath.Join(t.TempDir(), "none", "knee.png")
		if err := c.writeCurves(e, res); err == nil {
			t.Error("a file in no folder")
		}
	})
}

func TestExperiment(t *testing.T) {
	out, _, parse, run := lab(t, nil, "experiment", "list")
	if parse != nil || run != nil || !strings.Contains(out, "window-credit") {
		t.Fatal(out, parse, run)
	}
	out, _, _, run = lab(t, nil, "experiment", "list", "--json")
	var list []map[string]string
	if err := json.Unmarshal([]byte(out), &list); err != nil || run != nil || len(list) < 6 || list[0]["claim"] == "" {
		t.Fatal(out, err, run)
	}
	out, errs, _, run := lab(t, nil, "experiment", "run", "event-cut", "--quick", "--rounds", "1", "--json")
	var one struct {
		Experiment string
		Arms       []any
	}
	// A busy machine may spoil so small a run; what is printed must be there in any case.
	if run != nil && strings.Contains(run.Error(), "the shape does not hold: event-cut") {
		run = nil
	}
	if err := json.Unmarshal([]byte(out), &one); err != nil || run != nil || errs != "" || one.Experiment != "event-cut" || len(one.Arms) != 3 {
		t.Fatal(out, err, run, errs)
	}
}
