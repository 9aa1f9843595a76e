package fake

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/setting"
)

const (
	chatPath  = "/v1/chat/completions"
	chatAsk   = `{"model":"sim-small","messages":[{"role":"user","content":"hello there"}]}`
	chatFlow  = `{"model":"sim-small","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`
	msgPath   = "/v1/messages"
	msgAsk    = `{"model":"sim-small","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}`
	msgFlow   = `{"model":"sim-small","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
	respFlow  = `{"model":"sim-small","stream":true,"input":"hi"}`
	respPath  = "/v1/responses"
	textPath  = "/v1/completions"
	textFlow  = `{"model":"sim-small","stream":true,"stream_options":{"include_usage":true},"prompt":"hi"}`
	embedPath = "/v1/embeddings"
)

// flows are the endpoints that stream.
var flows = map[string]string{chatPath: chatFlow, msgPath: msgFlow, respPath: respFlow, textPath: textFlow}

func start(t testing.TB, change func(*Config)) (*Server, string) {
	t.Helper()
	c := Default()
	if change != nil {
		change(&c)
	}
	var p setting.Problems
	if c.Validate("", &p); len(p) > 0 {
		t.Fatal(p)
	}
	s := New(c)
	ts := httptest.NewServer(s)
	t.Cleanup(ts.Close)
	return s, ts.URL
}

// answered is a response read to its end; err is how the reading ended.
type answered struct {
	*http.Response
	body []byte
	err  error
}

func send(t testing.TB, url, body string, headers ...string) answered {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := (&http.Transport{DisableKeepAlives: true, DisableCompression: true}).RoundTrip(req)
	if err != nil {
		return answered{err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return answered{res, b, err}
}

func (a answered) json(t testing.TB) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(a.body, &m); err != nil {
		t.Fatalf("%v in %q", err, a.body)
	}
	return m
}

// at walks into decoded JSON by keys and indexes.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

type event struct {
	name, data string
	m          map[string]any
}

// parse reads events whose lines end in LF; data that is JSON is decoded.
func parse(body []byte) (out []event) {
	for part := range strings.SplitSeq(strings.TrimSuffix(string(body), "\n\n"), "\n\n") {
		var e event
		for line := range strings.SplitSeq(part, "\n") {
			if v, ok := strings.CutPrefix(line, "event: "); ok {
				e.name = v
			}
			if v, ok := strings.CutPrefix(line, "data: "); ok {
				e.data += v
			}
		}
		json.Unmarshal([]byte(e.data), &e.m)
		if e.data != "" {
			out = append(out, e)
		}
	}
	return out
}

// content joins the text of a stream in any dialect, and counts its tokens.
func content(events []event) (text string, tokens int) {
	for _, e := range events {
		for _, v := range []any{
			at(e.m, "choices", 0, "delta", "content"), at(e.m, "choices", 0, "text"), at(e.m, "delta", "text"), at(e.m, "delta"),
		} {
			if s, _ := v.(string); s != "" {
				text += s
				tokens++
			}
		}
	}
	return text, tokens
}

func TestSameSeedAndBodySameBytes(t *testing.T) {
	_, one := start(t, nil)
	_, two := start(t, nil)
	_, other := start(t, func(c *Config) { c.Seed = 7 })
	asks := map[string]string{
		embedPath: `{"model":"e","input":["a b","c"]}`, "/v1/moderations": `{"input":"x"}`,
		"/v1/images/generations": `{"prompt":"x"}`, "/v1/audio/speech": `{"model":"a","input":"x","voice":"v"}`,
	}
	maps.Copy(asks, flows)
	for path, ask := range asks {
		send(t, two+path, strings.Replace(ask, "{", `{"other":1,`, 1)) // what came before does not matter
		a, b, c := send(t, one+path, ask), send(t, two+path, ask), send(t, other+path, ask)
		if a.StatusCode != 200 || !bytes.Equal(a.body, b.body) {
			t.Errorf("%s: %d, %q and %q", path, a.StatusCode, a.body, b.body)
		}
		if bytes.Equal(a.body, c.body) {
			t.Errorf("%s: another seed gave the same", path)
		}
		if a.Header.Get("X-Request-Id") == "" || a.Header.Get("Server-Timing") == "" {
			t.Errorf("%s: headers %v", path, a.Header)
		}
	}
}

func TestOverridesInHeaderAndModel(t *testing.T) {
	s, url := start(t, nil)
	byHeader := send(t, url+chatPath, chatAsk, "x-sim-tokens", "5", "x-sim-bytes-per-token", "9").json(t)
	byModel := send(t, url+chatPath, strings.Replace(chatAsk, "sim-small", "sim-small+tokens=5+bytes-per-token=9", 1)).json(t)
	for _, m := range []map[string]any{byHeader, byModel} {
		text, _ := at(m, "choices", 0, "message", "content").(string)
		if len(text) != 45 || at(m, "usage", "completion_tokens") != 5.0 {
			t.Errorf("%v", m)
		}
	}
	if at(byModel, "model") != "sim-small+tokens=5+bytes-per-token=9" {
		t.Error(at(byModel, "model"))
	}
	both := send(t, url+chatPath, strings.Replace(chatAsk, "sim-small", "m+tokens=5", 1), "x-sim-tokens", "6").json(t)
	if at(both, "usage", "completion_tokens") != 6.0 {
		t.Error("a header does not win over the model")
	}
	if got := BaseModel("a/b+c+tokens=5+d"); got != "a/b+c+d" {
		t.Error(got)
	}
	for _, bad := range [][]string{{"x-sim-tokens", "many"}, {"x-sim-tokns", "5"}, {"x-sim-fault", "html5"}, {"x-sim-first-token", "5"}, {"x-sim-status", "200"}} {
		for _, path := range []string{chatPath, msgPath} {
			r := send(t, url+path, flows[path], bad...)
			message, _ := at(r.json(t), "error", "message").(string)
			if r.StatusCode != 400 || !strings.Contains(message, strings.TrimPrefix(bad[0], "x-sim-")) {
				t.Errorf("%v: %d %s", bad, r.StatusCode, r.body)
			}
		}
	}
	last := s.Requests()[len(s.Requests())-1]
	if last.Outcome != Refused || last.Status != 400 || string(last.Body) != flows[last.Path] {
		t.Errorf("%+v", last)
	}
}

func TestEveryOverrideIsUsable(t *testing.T) {
	values := map[string]string{
		"first-token": "uniform(1ms,2ms)", "token-gap": "lognormal(1ms,0.5)", "prompt-gap": "1us", "early-headers": "true",
		"tokens": "uniform(2,4)", "bytes-per-token": "8", "reasoning": "3", "cached-share": "0.5", "tool-calls": "2", "stamp": "1", "seed": "9",
		"status": "503", "error-rate": "1", "error-status": "500", "fail-first": "1", "retry-after": "1.5", "reset-rate": "0",
		"reset-after": "100", "fault": "none", "fault-rate": "0.5", "fault-after": "2", "stall-after": "1", "stall-for": "1ms", "event-size": "64KiB",
	}
	for _, o := range Overrides {
		c := Default()
		v, ok := values[o.Name]
		if !ok || o.Doc == "" {
			t.Errorf("%s is not in this test, or has no doc", o.Name)
		}
		if err := c.Set(o.Name, v); err != nil {
			t.Error(err)
		}
		var p setting.Problems
		if c.Validate("", &p); len(p) > 0 {
			t.Errorf("%s: %v", o.Name, p)
		}
		if err := c.Set(o.Name, "☂"); err == nil {
			t.Errorf("%s takes anything", o.Name)
		}
	}
}

func TestValidateNamesEveryMistake(t *testing.T) {
	c := Config{FirstToken: Count(5), Tokens: Wait(time.Second), ErrorRate: 2, Status: 200, Fault: "x", Slots: -1, Keys: []string{""}}
	var p setting.Problems
	c.Validate("providers[0].simulator", &p)
	got := map[string]bool{}
	for _, x := range p {
		got[strings.TrimPrefix(x.Path, "providers[0].simulator.")] = true
	}
	for _, want := range []string{"first_token", "tokens", "error_rate", "error_status", "status", "fault", "slots", "keys"} {
		if !got[want] {
			t.Errorf("%s is missing in %v", want, p)
		}
	}
	d := Default()
	p = nil
	if d.Validate("", &p); len(p) > 0 {
		t.Error(p)
	}
}

func TestControl(t *testing.T) {
	s, url := start(t, nil)
	if r := send(t, url+"/_sim/config?status=503", "{}"); r.StatusCode != 200 {
		t.Fatalf("%s", r.body)
	}
	if r := send(t, url+"/_sim/config?staus=503", "{}"); r.StatusCode != 400 {
		t.Fatalf("%s", r.body)
	}
	if r := send(t, url+chatPath, chatAsk); r.StatusCode != 503 {
		t.Fatalf("%d", r.StatusCode)
	}
	if m := send(t, url+"/_sim/stats", "").json(t); at(m, "refused") != 1.0 || at(m, "paths", chatPath) != 1.0 {
		t.Error(m)
	}
	s.Configure(Default())
	if r := send(t, url+chatPath, chatAsk); r.StatusCode != 200 {
		t.Error(r.StatusCode)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := s.WaitIdle(ctx); err != nil {
		t.Error(err)
	}
}
