package fake

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

func TestEveryFault(t *testing.T) {
	for _, f := range Faults {
		for path, flow := range flows {
			t.Run(f.Name+path, func(t *testing.T) {
				s, url := start(t, func(c *Config) { c.StallFor = 30e6 })
				good := send(t, url+path, flow)
				r := send(t, url+path, flow, "x-sim-fault", f.Name)
				check, ok := faultChecks[f.Name]
				if !ok {
					t.Fatal("no test")
				}
				check(t, r, good)
				if err := s.WaitIdle(t.Context()); err != nil {
					t.Fatal(err)
				}
				all := s.Requests()
				if o := all[len(all)-1].Outcome; broken[f.Name] != (o == Broken) || o == Cancelled {
					t.Errorf("outcome %q", o)
				}
			})
		}
	}
}

var broken = map[string]bool{faultHalf: true, faultErrorEvent: true, faultCutUTF8: true, faultCutJSON: true, faultReset: true, faultAbort: true}

// same checks that normalising what came gives a faultless stream.
func same(normal func([]byte) []byte) func(*testing.T, answered, answered) {
	return func(t *testing.T, r, good answered) {
		if got := normal(r.body); r.err != nil || !bytes.Equal(got, good.body) {
			t.Errorf("%v\n%q\n%q", r.err, got, good.body)
		}
	}
}

func replace(old, to string) func([]byte) []byte {
	return func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(old), []byte(to)) }
}

// cut checks that the connection broke with a true beginning of the stream.
func cut(wholeRunes bool) func(*testing.T, answered, answered) {
	return func(t *testing.T, r, good answered) {
		if r.err == nil || len(r.body) == 0 || bytes.HasSuffix(r.body, []byte("\n")) || utf8.Valid(r.body) != wholeRunes {
			t.Errorf("%v %q", r.err, r.body)
		}
		if text, n := content(parse(r.body)); n > 3 {
			t.Errorf("%d tokens came: %q", n, text)
		}
	}
}

func gives(want int, kind, body string) func(*testing.T, answered, answered) {
	return func(t *testing.T, r, _ answered) {
		if r.err != nil || r.StatusCode != want || !strings.HasPrefix(r.Header.Get("Content-Type"), kind) || !bytes.Contains(r.body, []byte(body)) {
			t.Errorf("%v %v %q", r.err, r.Response, r.body)
		}
	}
}

var faultChecks = map[string]func(t *testing.T, r, good answered){
	faultHTML:      gives(502, "text/html", "Bad Gateway"),
	faultEmpty:     gives(200, "text/event-stream", ""),
	faultErrorBody: gives(200, "application/json", `"error"`),
	faultBadLimits: gives(429, "application/json", `"error"`),
	faultUnary:     gives(200, "application/json", `"usage"`),
	faultHalf: func(t *testing.T, r, _ answered) {
		if r.err != nil || bytes.HasSuffix(r.body, []byte("\n")) {
			t.Errorf("%v %q", r.err, r.body)
		}
	},
	faultCutJSON: cut(true),
	faultCutUTF8: cut(false),
	faultErrorEvent: func(t *testing.T, r, _ answered) {
		events := parse(r.body)
		last := events[len(events)-1]
		if _, n := content(events); r.err != nil || n != 3 || last.m["error"] == nil && last.m["type"] != "error" {
			t.Errorf("%v %q", r.err, r.body)
		}
	},
	faultMalformed: func(t *testing.T, r, _ answered) {
		bad := 0
		events := parse(r.body)
		for _, e := range events {
			if e.data != "[DONE]" && !json.Valid([]byte(e.data)) {
				bad++
			}
		}
		if _, n := content(events); r.err != nil || bad != 1 || n != 15 {
			t.Errorf("%v, %d bad, %d good\n%q", r.err, bad, n, r.body)
		}
	},
	faultReset: func(t *testing.T, r, _ answered) {
		if !errors.Is(r.err, syscall.ECONNRESET) {
			t.Errorf("%v %q", r.err, r.body)
		}
	},
	faultAbort: func(t *testing.T, r, _ answered) {
		if _, n := content(parse(r.body)); r.err == nil || n != 3 || !bytes.HasSuffix(r.body, []byte("\n\n")) {
			t.Errorf("%v %q", r.err, r.body)
		}
	},
	faultNoDone: func(t *testing.T, r, good answered) {
		events, whole := parse(r.body), parse(good.body)
		if r.err != nil || len(events) != len(whole)-1 || !bytes.HasPrefix(good.body, r.body) {
			t.Errorf("%v %q", r.err, r.body)
		}
	},
	faultNoBlank:   same(func(b []byte) []byte { return append(b, '\n') }),
	faultCRLF:      same(replace("\r\n", "\n")),
	faultCR:        same(replace("\r", "\n")),
	faultBOM:       same(func(b []byte) []byte { return bytes.TrimPrefix(b, []byte("\ufeff")) }),
	faultComments:  same(replace(": keep-alive\n:\n", "")),
	faultMultiline: same(replace("{\ndata: ", "{")),
	faultDrip:      same(bytes.Clone),
	faultStall:     same(bytes.Clone),
	faultShort:     same(bytes.Clone),
	faultSplit: func(t *testing.T, r, good answered) {
		text, n := content(parse(r.body))
		if r.err != nil || n != 16 || strings.Count(text, "é") < 16 || !utf8.Valid(r.body) {
			t.Errorf("%v %q", r.err, r.body)
		}
	},
	faultGzip: func(t *testing.T, r, good answered) {
		z, err := gzip.NewReader(bytes.NewReader(r.body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(z)
		if err != nil || !bytes.Equal(got, good.body) || r.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%v %q", err, got)
		}
	},
	faultGiant: func(t *testing.T, r, _ answered) {
		text, n := content(parse(r.body))
		if r.err != nil || n != 16 || len(text) < 1<<20 {
			t.Errorf("%v %d tokens, %d bytes", r.err, n, len(text))
		}
	},
	faultNoUsage: func(t *testing.T, r, _ answered) {
		if r.err != nil || bytes.Contains(r.body, []byte(`usage":{`)) {
			t.Errorf("%v %q", r.err, r.body)
		}
	},
	faultWrongUsage: func(t *testing.T, r, _ answered) {
		if r.err != nil || !bytes.Contains(r.body, []byte(`tokens":160`)) {
			t.Errorf("%v %q", r.err, r.body)
		}
	},
}

func TestFaultsOfOnePiece(t *testing.T) {
	_, url := start(t, func(c *Config) { c.StallFor = 20e6 })
	good := send(t, url+chatPath, chatAsk)
	ask := func(fault string) answered { return send(t, url+chatPath, chatAsk, "x-sim-fault", fault) }
	if r := ask(faultHalf); r.err != nil || r.StatusCode != 200 || !bytes.Equal(r.body, good.body[:len(good.body)/2]) {
		t.Errorf("%v %q", r.err, r.body)
	}
	for _, f := range []string{faultCutJSON, faultCutUTF8, faultShort} {
		if r := ask(f); r.err == nil || len(r.body) == 0 || !bytes.HasPrefix(good.body, r.body) {
			t.Errorf("%s: %v %q", f, r.err, r.body)
		}
	}
	for _, f := range []string{faultReset, faultAbort} {
		if r := ask(f); r.err == nil || r.Response != nil {
			t.Errorf("%s: %v %q", f, r.err, r.body)
		}
	}
	if r := ask(faultMalformed); r.err != nil || json.Valid(r.body) {
		t.Errorf("%v %q", r.err, r.body)
	}
	if r := ask(faultWrongUsage).json(t); at(r, "usage", "completion_tokens") != 160.0 {
		t.Error(r)
	}
	if r := ask(faultNoUsage).json(t); r["usage"] != nil {
		t.Error(r)
	}
	if r := ask(faultEmpty); r.StatusCode != 200 || len(r.body) != 0 {
		t.Error(r.StatusCode, r.body)
	}
	for _, f := range []string{faultStall, faultNoDone, faultCRLF, faultDrip} {
		if r := ask(f); !bytes.Equal(r.body, good.body) {
			t.Errorf("%s: %q", f, r.body)
		}
	}
}

func TestScriptedFailures(t *testing.T) {
	_, url := start(t, nil)
	for _, path := range []string{chatPath, msgPath} {
		for _, st := range []string{"400", "409", "429", "500", "503", "529", "599"} {
			r := send(t, url+path, flows[path], "x-sim-status", st, "x-sim-retry-after", "1500ms")
			if r.Status[:3] != st || r.Header.Get("Retry-After") != "2" || r.Header.Get("Retry-After-Ms") != "1500" || at(r.json(t), "error", "message") == nil {
				t.Errorf("%s: %v %s", st, r.Header, r.body)
			}
		}
	}
	if r := send(t, url+chatPath, chatAsk, "x-sim-status", "429"); r.Header.Get("x-ratelimit-remaining-requests") != "0" {
		t.Error(r.Header)
	}
	if r := send(t, url+msgPath, msgAsk, "x-sim-status", "429"); r.Header.Get("anthropic-ratelimit-requests-remaining") != "0" || at(r.json(t), "error", "type") != "rate_limit_error" {
		t.Error(r.Header)
	}
	var got []int
	for range 3 {
		got = append(got, send(t, url+chatPath, chatAsk, "x-sim-fail-first", "2").StatusCode)
	}
	if got[0] != 503 || got[1] != 503 || got[2] != 200 {
		t.Error(got)
	}
	failed := 0
	for range 200 {
		if send(t, url+chatPath, chatAsk, "x-sim-error-rate", "0.3", "x-sim-error-status", "500").StatusCode == 500 {
			failed++
		}
	}
	if failed < 30 || failed > 90 {
		t.Errorf("%d of 200 failed", failed)
	}
	first := send(t, url+chatPath, chatAsk, "x-sim-error-rate", "0.5", "x-sim-seed", "1").StatusCode
	for range 10 {
		if send(t, url+chatPath, chatAsk, "x-sim-error-rate", "0.5", "x-sim-seed", "1").StatusCode != first {
			t.Fatal("a chosen seed does not decide")
		}
	}
	if r := send(t, url+chatPath, chatAsk, "x-sim-reset-rate", "1"); !errors.Is(r.err, syscall.ECONNRESET) {
		t.Error(r.err)
	}
	if r := send(t, url+chatPath, chatFlow, "x-sim-reset-after", "0"); !errors.Is(r.err, syscall.ECONNRESET) || r.Response != nil {
		t.Error(r.err)
	}
}

func TestStallLasts(t *testing.T) {
	_, url := start(t, nil)
	for _, k := range []string{"0", "2", "100"} {
		began := time.Now()
		r := send(t, url+chatPath, chatFlow, "x-sim-stall-after", k, "x-sim-stall-for", "60ms")
		if d := time.Since(began); r.err != nil || d < 60*time.Millisecond {
			t.Errorf("after %s: %v %v", k, r.err, d)
		}
	}
}
