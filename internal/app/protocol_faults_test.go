package app_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/lab/fake"
)

// D15: what a broken provider sends never looks like a good answer, and is
// counted by what it was.
func TestProviderFaults(t *testing.T) {
	t.Parallel()
	g := start(t, setup{})
	for _, c := range []struct {
		fault  string
		status int
		code   string // OpenAI's error.code
		kind   string // in the record and the counter
	}{
		{"empty", 502, "UPSTREAM_MALFORMED", "upstream_malformed"},
		{"half-json", 502, "UPSTREAM_MALFORMED", "upstream_malformed"},
		{"malformed", 502, "UPSTREAM_MALFORMED", "upstream_malformed"},
		{"html", 502, "UPSTREAM_FAILED", "upstream_failed"},
		{"error-body", 502, "UPSTREAM_FAILED", "upstream_failed"},
		{"cut-json", 502, "UPSTREAM_TRUNCATED", "upstream_truncated"},
		{"cut-utf8", 502, "UPSTREAM_TRUNCATED", "upstream_truncated"},
		{"short-length", 502, "UPSTREAM_TRUNCATED", "upstream_truncated"},
		{"reset", 502, "UPSTREAM_FAILED", "upstream_failed"},
		{"abort", 502, "UPSTREAM_FAILED", "upstream_failed"},
		{"gzip", 200, "", ""},
		{"no-usage", 200, "", ""},
	} {
		for path, body := range map[string]string{chatPath: chatBody, msgPath: msgBody} {
			t.Run(c.fault+path, func(t *testing.T) {
				count := func() float64 {
					return g.metric("headgate_faults_total", `kind="`+c.kind+`"`, `blame="upstream"`)
				}
				before := count()
				model := "sim-x+fault=" + c.fault
				d := llm.OpenAI
				if path == msgPath {
					model, d = "claude-x+fault="+c.fault, llm.Anthropic
				}
				body := strings.NewReplacer(`"chat"`, `"`+model+`"`, `"haiku"`, `"`+model+`"`).Replace(body)
				a := g.post(path, body)
				if a.StatusCode != c.status {
					t.Errorf("%d, want %d: %s", a.StatusCode, c.status, a.Bytes)
				}
				rec := g.record(a.ID())
				if c.status == 200 {
					if a.JSON(t); rec["outcome"] != "ok" {
						t.Errorf("%v", rec)
					}
					return
				}
				code, _ := envelope(t, a, d)
				if d == llm.OpenAI && code != c.code {
					t.Errorf("code %s, want %s", code, c.code)
				}
				if within(rec, "fault", "kind") != c.kind || within(rec, "fault", "blame") != "upstream" || rec["outcome"] != "error" || rec["status"] != float64(c.status) {
					t.Errorf("record: %v", rec["fault"])
				}
				if n := count() - before; n != 1 {
					t.Errorf("counted %v times", n)
				}
				if c.fault == "short-length" {
					return // streams have no length
				}
				// A stream that breaks says so, too: by status, or by its last event.
				s := g.post(path, strings.Replace(body, "{", `{"stream":true,`, 1))
				text := string(s.Bytes)
				if s.StatusCode == 200 && !strings.Contains(text[max(0, strings.LastIndex(strings.TrimSpace(text), "\n\n")):], `"error"`) || strings.Contains(text, "[DONE]") || strings.Contains(text, "message_stop") {
					t.Errorf("a stream: %d, ends in %q", s.StatusCode, text[max(0, len(text)-200):])
				}
			})
		}
	}
}

// The providers' own refusals pass with their status and their words.
func TestProviderRefusals(t *testing.T) {
	t.Parallel()
	g := start(t, setup{})
	for _, status := range []int{400, 404, 409, 413, 422, 429, 500, 503, 529} {
		for path, body := range map[string]string{chatPath: chatBody, msgPath: msgBody} {
			suffix := fmt.Sprintf("+status=%d+retry-after=1500ms", status)
			body = strings.NewReplacer(`"chat"`, `"sim-x`+suffix+`"`, `"haiku"`, `"claude-x`+suffix+`"`).Replace(body)
			a := g.post(path, body)
			m := a.JSON(t)
			if a.StatusCode != status || within(m, "error", "message") == nil || within(m, "error", "type") == nil || a.Header.Get("Retry-After") != "2" || a.Header.Get("Retry-After-Ms") != "1500" {
				t.Errorf("%s %d: %d %v %s", path, status, a.StatusCode, a.Header, a.Bytes)
			}
			if rec := g.record(a.ID()); rec["upstream_status"] != float64(status) || rec["status"] != float64(status) {
				t.Errorf("%v", rec)
			}
		}
	}
	a := g.post(chatPath, strings.Replace(chatBody, "chat", "sim-x+fault=bad-limits", 1))
	if a.StatusCode != 429 || a.Header.Get("Retry-After") != "" || a.Header.Get("Retry-After-Ms") != "" {
		t.Errorf("senseless limits: %d %v", a.StatusCode, a.Header)
	}
}

// Error pages of things that stand between are told as errors, never passed.
func TestErrorPages(t *testing.T) {
	t.Parallel()
	s := &scripted{}
	g := start(t, setup{Upstream: s})
	for _, c := range []struct {
		status     int
		kind, body string
		want       int
	}{
		{200, "text/html", "<html>Please log in</html>", 502},
		{200, "application/json", "<html>Please log in</html>", 502},
		{200, "", "<html>Please log in</html>", 502},
		{500, "text/html", "<html>boom</html>", 500},
		{404, "text/plain", "404 page not found", 404},
		{400, "application/json", `{"detail":"the field x is wrong"}`, 400},
		{503, "application/json", ``, 503},
		{502, "application/json", `{"error":`, 502},
		{400, "application/json", `[1]`, 400},
		{500, "application/json", `{"error":"just words"}`, 500},
		{418, "text/html", strings.Repeat("<p>", 1<<20), 418},
		{200, "application/json", `{"error":{"message":"slow down","type":"rate_limit_error","code":"rate_limit_exceeded"}}`, 429},
		{200, "application/json", `{"error":{"message":"teapot","code":418}}`, 418},
	} {
		s.mu.Lock()
		s.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			if c.kind != "" {
				w.Header().Set("Content-Type", c.kind)
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}
		s.mu.Unlock()
		for path, body := range map[string]string{chatPath: chatBody, msgPath: msgBody} {
			if path == msgPath && c.want == 418 && c.status == 200 {
				continue // codes are a member of the other dialect
			}
			a := g.post(path, body)
			if a.StatusCode != c.want || bytes.Contains(a.Bytes, []byte("<")) {
				t.Errorf("%d %s %.40q: %d %.200s", c.status, c.kind, c.body, a.StatusCode, a.Bytes)
			}
			d := llm.OpenAI
			if path == msgPath {
				d = llm.Anthropic
			}
			envelope(t, a, d)
		}
	}
}

func TestUnreachableProvider(t *testing.T) {
	t.Parallel()
	g := start(t, setup{YAML: `
server: {api: {listen: "127.0.0.1:0"}, admin: {listen: "127.0.0.1:0"}}
auth: none
providers:
  - {name: gone, dialect: openai, base_url: "http://127.0.0.1:1/v1", timeouts: {connect: 1s}}
  - {name: slow, dialect: openai, base_url: "%s/v1", timeouts: {total: 150ms, first_token: 150ms}}
models:
  - {name: gone, targets: [{provider: gone}]}
  - {name: slow, targets: [{provider: slow}]}
`, Fake: func(c *fake.Config) { c.Fault, c.FaultAfter = "stall", 0 }})
	for model, want := range map[string]string{"gone": "502 UPSTREAM_UNREACHABLE", "slow": "504 UPSTREAM_TIMEOUT"} {
		for _, stream := range []string{"false", "true"} {
			a := g.post(chatPath, `{"model":"`+model+`","stream":`+stream+`,"messages":[{"role":"user","content":"x"}]}`)
			code, message := envelope(t, a, llm.OpenAI)
			if got := fmt.Sprint(a.StatusCode, " ", code); got != want || strings.Contains(message, "127.0.0.1") {
				t.Errorf("%s, stream %s: %s %s", model, stream, got, message)
			}
		}
	}
	if a := g.get("/v1/models", "Authorization", "-"); a.StatusCode != 200 || !slices.Contains(a.Header.Values("Vary"), "Accept") {
		t.Errorf("%d", a.StatusCode)
	}
}
