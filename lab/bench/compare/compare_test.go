package compare

import (
	"bytes"
	"context"
	"math"
	"net"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/headgate-ai/headgate/lab/bench/mock"
	"github.com/headgate-ai/headgate/lab/load"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   spread
	}{
		{nil, spread{}},
		{[]float64{3}, spread{3, 3, 3, 1}},
		{[]float64{3, 1, 2}, spread{2, 1, 3, 3}},
		{[]float64{4, 1, 2, 3}, spread{2.5, 1, 4, 4}},
		{[]float64{math.NaN(), 5, math.Inf(1)}, spread{5, 5, 5, 1}},
	} {
		if got := spreadOf(c.values); got != c.want {
			t.Errorf("%v: %+v", c.values, got)
		}
	}
	if !math.IsNaN(ratio(1, 0)) || !math.IsNaN(ratio(1, -1)) || ratio(1, 4) != .25 {
		t.Error("ratios are wrong")
	}
	for s, want := range map[spread]string{
		{}:                         "–",
		{.5, .5, .5, 1}:            "0.50 ×",
		{.456, .4, .52, 3}:         "0.46 × (0.40–0.52)",
		{1234.5, 1000.4, 2000, 3}:  "1234 × (1000–2000)",
		{12.34, 12.341, 12.339, 3}: "12.3 ×",
		{0, 0, 2, 3}:               "0 × (0–2)",
	} {
		if got := s.text(" ×"); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}

// made is a report of two rounds, in which everything takes what it should take
// for the figures below.
func made() *report {
	r := &report{Date: "2026-11-29", Rounds: 2, Streams: 500, quiet: .3, targets: targets, scenarios: scenarios(true, 500), Machine: []string{"a machine"}}
	for round := 1; round <= 2; round++ {
		drift := float64(round) // the machine is half as fast in the second round
		for _, s := range r.scenarios {
			for _, target := range targets {
				if slices.Contains(s.without, target.name) {
					continue
				}
				cost := map[string]float64{direct: 0, baseline: 400, headgate: 180, admission: 190, ownClient: 250, standard: 360}[target.name]
				r.Results = append(r.Results, &Result{
					Scenario: s.name, Target: target.name, Round: round, OK: 10, Tries: 1, OtherCores: .5,
					CPUPerRequest: drift * cost, CPUPerToken: drift * cost / 10, RequestsPerSecond: 1e6 / (drift * (cost + 100)),
					P50: drift * (300 + cost), TokenP99: 500 + cost, PerStream: 20 << 10, Resident: 18 << 20, Ready: 150,
				})
			}
		}
	}
	return r
}

func TestFigures(t *testing.T) {
	r := made()
	want := map[string]float64{
		"CPU per unary request (unary)":             .45,
		"throughput, 64 connections (closed)":       500. / 280,
		"added p50 (unary)":                         .45,
		"CPU per 64 KiB request (big)":              .45,
		"CPU per streamed token (stream)":           .45,
		"added chunk p99 (stream)":                  .18,
		"private memory per open stream (hold 500)": 20,
		"truncated or lost streams":                 0,
		"other errors":                              0,
		"idle RSS with 1000 keys":                   18,
		"start to ready":                            150,
	}
	for _, f := range figures(r.Streams) {
		got, verdictIs := r.judge(f, headgate)
		if f.only != "" {
			if got.Rounds != 0 || verdictIs != "" {
				t.Errorf("%s is of %s only, and headgate has %+v, %q", f.name, f.only, got, verdictIs)
			}
			continue
		}
		if math.Abs(got.Median-want[f.name]) > 1e-9 || math.Abs(got.Low-got.High) > 1e-9 || got.Rounds != 2 {
			t.Errorf("%s: %+v, want %v", f.name, got, want[f.name])
		}
		verdict := "aim"
		if f.more {
			verdict = "must"
		}
		if verdictIs != verdict {
			t.Errorf("%s: %q", f.name, verdictIs)
		}
	}
	if got := r.Results.saved(halves[0], unary, cpuRequest).Median; math.Abs(got-100*110./360) > 1e-9 {
		t.Errorf("our own client saves %v %%", got)
	}
}

func TestGate(t *testing.T) {
	r := made()
	if _, missing := r.promises(); missing != 0 {
		t.Errorf("%d musts are missed", missing)
	}
	// One lost stream in one round is one too many, and a slow round is not.
	r.Results.find(1, stream, headgate).Failed = 1
	r.Results.find(1, stream, headgate).CPUPerToken = 60
	g, missing := r.promises()
	if text := g.text(); missing != 1 || strings.Count(text, missed) != 1 || !strings.Contains(text, "0.50 (0–1)") {
		t.Errorf("%d missed\n%s", missing, text)
	}
	// A figure that noise has made impossible is not met.
	r = made()
	for round := 1; round <= 2; round++ {
		r.Results.find(round, unary, headgate).P50 = 1
	}
	if g, missing := r.promises(); missing != 1 || strings.Count(g.text(), unknown) != 1 {
		t.Errorf("%d missed\n%s", missing, g.text())
	}
	// There is no verdict on what was not measured.
	r.Results = nil
	if g, missing := r.promises(); missing != 0 || strings.Contains(g.text(), missed) || strings.Contains(g.text(), unknown) {
		t.Errorf("%d missed\n%s", missing, g.text())
	}
}

func TestPage(t *testing.T) {
	r := made()
	r.Notes = []string{"A note."}
	page := r.page()
	for _, want := range []string{
		"Measured on 2026-11-29, 2 rounds.", "- a machine\n", "| figure | must | aim | headgate | meets | admission | meets |", "|---|---:|",
		"| CPU per unary request (unary) | ≤ 0.75 × | ≤ 0.50 × | 0.45 × | aim | 0.47 × | aim | 0.62 × | 0.90 × | 600 µs (400–800) |",
		"| own client | net/http | 30.6 % |", "≥ 20 %, unary | yes |", "### hold: 500 streams", "- A note.\n", "In 68 of the 68 runs other",
		"| closed | 15 µs a request (10–20) | 15 µs (10–20) | 0 MiB |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	var out bytes.Buffer
	if missing, err := r.writeText(&out); missing != 0 || err != nil || !strings.Contains(out.String(), "a machine") {
		t.Errorf("%d, %v\n%s", missing, err, out.String())
	}
	if t.Failed() {
		t.Log(page)
	}
}

func TestInside(t *testing.T) {
	series := []load.Point{{At: 0, OK: 1, Tokens: 10}, {At: 1, OK: 2, Tokens: 20}, {At: 2, OK: 3, Failed: 1, Tokens: 30}, {At: 3, OK: 100, Tokens: 100}}
	for _, c := range []struct {
		elapsed          float64
		from, to         time.Duration
		requests, tokens float64
	}{
		{5, time.Second, 3 * time.Second, 6, 50},
		{5, 0, 3 * time.Second, 7, 60},
		{3.5, 2 * time.Second, 4 * time.Second, 54, 80}, // the load ended within its last slot
	} {
		if r, n := inside(series, c.elapsed, c.from, c.to); math.Abs(r-c.requests) > 1e-9 || math.Abs(n-c.tokens) > 1e-9 {
			t.Errorf("%+v: %v requests, %v tokens", c, r, n)
		}
	}
}

func TestChosen(t *testing.T) {
	if got, err := chosen("", names); err != nil || len(got) != len(names) {
		t.Error(got, err)
	}
	if got, err := chosen("unary,hold", names); err != nil || !slices.Equal(got, []string{unary, hold}) {
		t.Error(got, err)
	}
	if _, err := chosen("unary,hold,", names); err == nil {
		t.Error("an empty name is accepted")
	}
	for limit, want := range map[uint64]int{100: 1, 1024: 412, 20_000: 5000, math.MaxUint64: 5000} {
		if got := boundedStreams(5000, limit); got != want {
			t.Errorf("%d descriptors: %d streams", limit, got)
		}
	}
}

// listen serves the mock until the test ends.
func listen(t *testing.T, c mock.Config) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() { _ = mock.New(c).Serve(l) }()
	return l.Addr().String()
}

// The bare proxy carries what the clients of both kinds check.
func TestThroughTheBareProxy(t *testing.T) {
	ctx := context.Background()
	for _, c := range []mock.Config{{Tokens: 100, TokenBytes: 5}, {Stream: true, Tokens: 20, TokenBytes: 40, Gap: time.Millisecond}} {
		upstream := listen(t, c)
		s := httptest.NewServer(bareProxy(&url.URL{Scheme: "http", Host: upstream}))
		t.Cleanup(s.Close)
		for _, address := range []string{upstream, strings.TrimPrefix(s.URL, "http://")} {
			if c.Stream {
				l := load.Default()
				l.URL, l.Stream, l.Connections, l.Requests = "http://"+address, true, 8, 64
				if rep, err := load.Run(ctx, l); err != nil || rep.OK != 64 || rep.Tokens.Received != 64*20 {
					t.Errorf("%+v, %v", rep, err)
				}
				continue
			}
			request := chatRequest(address, clientModel, "k", 64<<10)
			if n, err := probe(ctx, address, request, c.Text()); err != nil || n < 700 {
				t.Errorf("%d, %v", n, err)
			}
			if _, err := probe(ctx, address, request, c.Text()+"?"); err == nil {
				t.Error("another text is accepted")
			}
			var h hammer
			now := time.Now()
			h.run(ctx, address, 4, request, c.Text(), now, now.Add(150*time.Millisecond))
			if h.ok.Load() == 0 || h.failed != 0 || h.latency.Count() == 0 {
				t.Errorf("%d ok, %d failed: %s", h.ok.Load(), h.failed, h.example)
			}
		}
	}
}

// What is not there, or not an answer, is a failure and no result.
func TestClientFails(t *testing.T) {
	ctx := context.Background()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for _, answer := range []string{"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "HTTP/1.1 200 OK\r\n\r\nzz\r\n"} {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4<<10))
			_, _ = c.Write([]byte(answer))
			_ = c.Close()
		}
	}()
	address := l.Addr().String()
	for _, want := range []string{"503", "unexpected EOF", "zz"} {
		if _, err := probe(ctx, address, chatRequest(address, "m", "k", 10), "x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	_ = l.Close()
	var h hammer
	now := time.Now()
	h.run(ctx, address, 1, nil, "x", now, now.Add(30*time.Millisecond))
	if h.failed == 0 || h.example == "" {
		t.Error("a server that is not there is no failure")
	}
}

func TestUse(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--help"}, 0, "-rounds"},
		{[]string{"--nonsense"}, 2, "nonsense"},
		{[]string{"--rounds", "0"}, 2, "at least 1"},
		{[]string{"what"}, 2, "what"},
		{[]string{"--binary", "/no/such/file"}, 1, "make build"},
		{[]string{"--binary", "/bin/true", "--scenarios", "x"}, 1, "there is no \"x\""},
		{[]string{"mock", "-gap", "x"}, 2, "gap"},
		{[]string{"proxy", "-h"}, 0, "upstream"},
	} {
		var out, errs bytes.Buffer
		if code := Main(context.Background(), c.args, &out, &errs); code != c.code || !strings.Contains(errs.String(), c.says) {
			t.Errorf("%v: %d, %s", c.args, code, errs.String())
		}
	}
	b := bench{options: options{short: true, rounds: 3, streams: 77, tries: 3}}
	b.shorten(map[string]bool{"streams": true})
	if b.rounds != 1 || b.streams != 77 || b.tries != 1 {
		t.Errorf("%+v", b.options)
	}
}

// What admission adds is a difference within the round, and its must is judged;
// the musts of the core are admission's, too.
func TestAdmission(t *testing.T) {
	r := made()
	find := func(name string) figure {
		for _, f := range figures(r.Streams) {
			if f.name == name {
				return f
			}
		}
		t.Fatalf("there is no figure %q", name)
		return figure{}
	}
	adds := find("CPU that admission adds to a request (closed)")
	// 10 µs in the first round, 20 in the second.
	if got, verdict := r.judge(adds, admission); got != (spread{15, 10, 20, 2}) || verdict != "must" {
		t.Errorf("%+v, %q", got, verdict)
	}
	r.Results.find(2, closed, admission).CPUPerRequest += .5
	if g, missing := r.promises(); missing != 1 || strings.Count(g.text(), missed) != 1 {
		t.Errorf("%d missed\n%s", missing, g.text())
	}
	// A refusal is an error that counts.
	r.Results.find(1, unary, admission).Failed = 1
	if _, verdict := r.judge(find("other errors"), admission); verdict != missed {
		t.Errorf("a failed request is %q", verdict)
	}
	if _, verdict := r.judge(find("private memory per open stream (hold 500)"), admission); verdict != "aim" {
		t.Errorf("20 KiB a stream are %q", verdict)
	}
	// Without the run that it is compared with there is no figure.
	r.Results = slices.DeleteFunc(r.Results, func(r *Result) bool { return r.Target == headgate })
	if got, verdict := r.judge(adds, admission); got.Rounds != 0 || verdict != unknown {
		t.Errorf("%+v, %q", got, verdict)
	}
}

// A gateway's configuration has every key, and its settings.
func TestConfiguration(t *testing.T) {
	at := slices.IndexFunc(targets, func(t target) bool { return t.name == standard })
	c := targets[at].configuration("127.0.0.1:1", "127.0.0.1:2", "http://127.0.0.1:3", t.TempDir())
	if strings.Count(c, "literal:sk-bench-") != keyCount || !strings.Contains(c, `fast_path: "off"`) || !strings.Contains(c, "transport: std") ||
		!strings.Contains(c, keySecret(usedKey)) {
		t.Error(c[:600])
	}
}

// Admission has five rules, a budget, prices and a ledger in the run's own
// folder, and its load comes with a token that the issuer has signed.
func TestAdmissionConfiguration(t *testing.T) {
	at := slices.IndexFunc(targets, func(t target) bool { return t.name == admission })
	c := targets[at].configuration("127.0.0.1:1", "127.0.0.1:2", "http://127.0.0.1:3", "/tmp/run")
	for what, n := range map[string]int{"literal:sk-bench-": keyCount, "rate: ": 4, "concurrent: ": 1, "when: ": 1, "limit: {usd": 1, "algorithm: gcra": 1, "algorithm: bucket": 1, "algorithm: window": 1,
		`path: "/tmp/run/ledger.db"`: 1, jwtSecret: 1} {
		if got := strings.Count(c, what); got != n {
			t.Errorf("%q stands there %d times, not %d", what, got, n)
		}
	}
	now := time.Now()
	signed, err := targets[at].credential(now)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Parse(signed, func(*jwt.Token) (any, error) { return []byte(jwtSecret), nil },
		jwt.WithValidMethods([]string{"HS256"}), jwt.WithIssuer(jwtIssuer), jwt.WithAudience("headgate"), jwt.WithExpirationRequired())
	if err != nil || !token.Valid {
		t.Error(err)
	}
	if key, err := targets[0].credential(now); key != keySecret(usedKey) || err != nil {
		t.Error(key, err)
	}
}
