package journal

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/slogtest"
	"time"
)

func TestLoggerIsASlogHandler(t *testing.T) {
	var out *buffer
	var j *Room
	slogtest.Run(t, func(t *testing.T) slog.Handler {
		out = &buffer{}
		j, _ = open(t, Options{Output: out})
		return j.Logger().Handler()
	}, func(t *testing.T) map[string]any {
		closed(t, j)
		return parse(t, out.lines()[0])
	})
}

type password string

func (p password) LogValue() slog.Value { return slog.StringValue("token=" + string(p)) }

func TestLoggerValues(t *testing.T) {
	var out buffer
	j, _ := open(t, Options{Output: &out, Level: slog.LevelWarn})
	log := j.Logger().With("request_id", "r-1", "secret", leaked)
	log.Info("not loud enough")
	log.Error("it said "+leaked, "trace_id", "t-1", "err", errors.New("Bearer abcdefgh12"), "nan", math.NaN(), "took", time.Second,
		"a \"key\"", true, "p", password("hunter22"), "any", []string{"x", leaked}, slog.Group("g", "span_id", "mine", "f", 1.5))
	closed(t, j)
	log.Error("after the end")
	lines := out.lines()
	if len(lines) != 2 {
		t.Fatalf("%q", lines)
	}
	if m := parse(t, lines[1]); m["msg"] != "after the end" {
		t.Errorf("%v", m)
	}
	got := parse(t, lines[0])
	delete(got, "time")
	b, _ := json.Marshal(got)
	want := `{"a \"key\"":true,"any":"[x [redacted]]","err":"Bearer [redacted]","g":{"f":1.5,"span_id":"mine"},"level":"ERROR",` +
		`"msg":"it said [redacted]","nan":"NaN","p":"token=[redacted]","request_id":"r-1","secret":"[redacted]","service_name":"headgate","span_id":"","took":"1s","trace_id":"t-1"}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}

func TestRedactor(t *testing.T) {
	r := NewRedactor([]string{"", "abc", "s3cr3t", "s3cr3t-longer", "with space&amp"})
	for in, want := range map[string]string{
		"": "", "abc is too short to hide": "abc is too short to hide",
		"a s3cr3t-longer b s3cr3t":                           "a [redacted] b [redacted]",
		"?x=with+space%26amp!":                               "?x=[redacted]!",
		"Incorrect API key provided: sk-proj-abc_DEF-12345.": "Incorrect API key provided: [redacted].",
		"risk-free task-oriented":                            "risk-free task-oriented",
		"Authorization: Bearer eyJhbGciOi.J9.x_-":            "Authorization: Bearer [redacted]",
		"authorization=abcdef":                               "authorization=[redacted]",
		"BEARER abcdef1":                                     "BEARER [redacted]",
		`Get "http://h/p?alt=sse&key=AbC123&x=1": EOF`:       `Get "http://h/p?alt=sse&key=[redacted]&x=1": EOF`,
		`{"api_key": "hunter2222"}`:                          `{"api_key": "[redacted]"}`,
		"x-api-key: hunter2222":                              "x-api-key: [redacted]",
		"AIzaSyD-1234567890":                                 "[redacted]",
		"first_token: 60s passed":                            "first_token: 60s passed",
		"upstream.Send: upstream_timeout: no answer in 2.5s": "upstream.Send: upstream_timeout: no answer in 2.5s",
	} {
		if got := r.Redact(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := (*Redactor)(nil).Redact("Bearer abcdef1"); got != "Bearer [redacted]" {
		t.Errorf("nil redactor: %q", got)
	}
	if got := r.text(strings.Repeat("é", maxError) + "s3cr3t"); len(got) > maxError || strings.Contains(got, "s3c") {
		t.Errorf("%d bytes", len(got))
	}
	if !mayHoldSecret("xai-12345678") || mayHoldSecret("upstream.Send: dial: refused") {
		t.Error("the quick look is wrong")
	}
}
