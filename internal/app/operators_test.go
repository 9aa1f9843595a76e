package app_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/app"
	"github.com/headgate-ai/headgate/lab/fake"
)

// A confirmation works once, for the same operator, operation and body.
func TestOperatorsConfirm(t *testing.T) {
	t.Parallel()
	g := start(t, setup{More: limited})
	const path, body = "/admin/v1/limits/each", `{"rate":"9/s","reason":"r"}`
	token := func() string { return g.operate("PUT", path, body).JSON(t)["confirm"].(string) }
	for name, c := range map[string]struct{ method, path, body string }{
		"another body":  {"PUT", path, `{"rate":"10/s","reason":"r"}`},
		"another path":  {"PUT", "/admin/v1/limits/all", `{"dimension":"requests","rate":"9/s","reason":"r"}`},
		"another query": {"PUT", path + "?x=1", body},
	} {
		a := g.operate(c.method, c.path, c.body, "X-Confirm-Token", token())
		if a.StatusCode != 403 || within(a.JSON(t), "error", "code") != "CONFIRMATION_INVALID" {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.Bytes)
		}
	}
	one := token()
	if a := g.operate("PUT", path+"?confirm="+one, body); a.StatusCode != 200 {
		t.Errorf("in the query: %d %s", a.StatusCode, a.Bytes)
	}
	if a := g.operate("PUT", path+"?confirm="+one, body); a.StatusCode != 403 {
		t.Errorf("twice: %d %s", a.StatusCode, a.Bytes)
	}
	record := string(g.operate("GET", "/admin/v1/audit", "").Bytes)
	if strings.Contains(record, one) || strings.Contains(g.Log.String(), one) {
		t.Error("a confirmation is on record")
	}
	for _, step := range []string{`"asked"`, `"refused"`, `"done"`} {
		if !strings.Contains(record, step) {
			t.Errorf("no %s in %s", step, record)
		}
	}
	// It is bound to the token that it was asked with.
	file := filepath.Join(t.TempDir(), "token")
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first-token")
	g = start(t, setup{YAML: strings.Replace(setup{More: limited}.document("%s"), `admin: {listen: "127.0.0.1:0"}`, `admin: {listen: "127.0.0.1:0", token: "file:`+file+`"}`, 1)})
	one = g.operate("PUT", path, body, "Authorization", "Bearer first-token").JSON(t)["confirm"].(string)
	write("second-token")
	if err := g.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := g.operate("PUT", path, body, "Authorization", "Bearer second-token", "X-Confirm-Token", one); a.StatusCode != 403 {
		t.Errorf("another operator: %d %s", a.StatusCode, a.Bytes)
	}
	if record := string(g.operate("GET", "/admin/v1/audit", "", "Authorization", "Bearer second-token").Bytes); strings.Contains(record, "-token\"") || !strings.Contains(record, "holder of the admin token, 127.0.0.1") {
		t.Error(record)
	}
}

// The record is a file that outlasts the process, and takes up after a line that
// was broken off. Secrets are taken out of what operators write.
func TestOperatorsAudit(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	s := setup{YAML: strings.Replace(setup{More: limited}.document("%s"), `admin: {listen: "127.0.0.1:0"}`, `admin: {listen: "127.0.0.1:0", audit: `+file+`}`, 1)}
	g := start(t, s)
	g.confirmed("PUT", "/admin/v1/limits/each", `{"rate":"9/s","reason":"for `+upstreamKey+` and gk_abcdefghijklmnop_`+strings.Repeat("a", 52)+`"}`)
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"seq":3,"ti`); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	g = start(t, s)
	g.confirmed("PUT", "/admin/v1/limits/each", `{"rate":"10/s","reason":"again"}`)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(data); strings.Contains(text, upstreamKey) || strings.Contains(text, "aaaaaaaa") || strings.Count(text, "[redacted]") < 2 {
		t.Error(text)
	}
	var seqs []string
	for _, e := range g.operate("GET", "/admin/v1/audit?limit=1000", "").JSON(t)["entries"].([]any) {
		seqs = append(seqs, fmt.Sprint(within(e, "seq"), within(e, "step")))
	}
	if got := strings.Join(seqs, " "); got != "4done 3asked 2done 1asked" {
		t.Errorf("%s", got)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) != 5 || !json.Valid([]byte(lines[3])) || json.Valid([]byte(lines[2])) {
		t.Errorf("%q", lines)
	}
	for _, limit := range []string{"0", "1001", "x"} {
		if a := g.operate("GET", "/admin/v1/audit?limit="+limit, ""); a.StatusCode != 400 {
			t.Errorf("%s: %d", limit, a.StatusCode)
		}
	}
}

func TestOperatorsDegrade(t *testing.T) {
	t.Parallel()
	g := start(t, setup{
		More: "tiers: {batch: {class: P2}, gold: {class: P0}}",
		Keys: `- {name: batch, secret: "literal:sk-batch-key-123", tier: batch}
- {name: gold, secret: "literal:sk-gold-key-1234", tier: gold}`,
	})
	for _, body := range []string{`{"level":4,"ttl":"1m","reason":"r"}`, `{"ttl":"1m","reason":"r"}`, `{"level":2,"reason":"r"}`, `{"level":2,"ttl":"1m"}`, `{"level":2,"ttl":"999h","reason":"r"}`} {
		if a := g.operate("POST", "/admin/v1/degrade", body); a.StatusCode != 422 {
			t.Errorf("%s: %d %s", body, a.StatusCode, a.Bytes)
		}
	}
	if a := g.operate("POST", "/admin/v1/degrade", `{"level":2,"ttl":"1m","reason":"r"}`); a.StatusCode != 200 || a.JSON(t)["level"] != 2.0 {
		t.Errorf("%d %s", a.StatusCode, a.Bytes)
	}
	if g.as("sk-batch-key-123") != 200 || g.metric("headgate_degradation_level") != 2 {
		t.Error("the level 2 refuses")
	}
	if a := g.confirmed("POST", "/admin/v1/degrade", `{"level":3,"ttl":"1500ms","reason":"overload"}`); a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.Bytes)
	}
	a := g.post(chatPath, chatBody, "Authorization", "Bearer sk-batch-key-123")
	if a.StatusCode != 503 || within(a.JSON(t), "error", "code") != "OVERLOADED" || a.Header.Get("Retry-After") == "" {
		t.Errorf("P2 at level 3: %d %s", a.StatusCode, a.Bytes)
	}
	if a := g.get("/v1/models", "Authorization", "Bearer sk-batch-key-123"); a.StatusCode != 200 {
		t.Errorf("the list of models: %d", a.StatusCode)
	}
	if g.as("sk-gold-key-1234") != 200 || g.as(key) != 200 || g.metric("headgate_degradation_level") != 3 {
		t.Error("others are refused at level 3")
	}
	wait(t, "the end", func() bool { return g.as("sk-batch-key-123") == 200 })
	wait(t, "the end on record", func() bool {
		return strings.Contains(string(g.operate("GET", "/admin/v1/audit?limit=1", "").Bytes), "degrade.expire")
	})
	if m := g.operate("GET", "/admin/v1/degrade", "").JSON(t); m["level"] != 0.0 || g.metric("headgate_degradation_level") != 0 {
		t.Errorf("%v", m)
	}
	if a := g.operate("POST", "/admin/v1/degrade", `{"level":0,"reason":"over"}`); a.StatusCode != 200 {
		t.Errorf("%d %s", a.StatusCode, a.Bytes)
	}
}

// A model has a level of its own: others stay as they are, the level of all and
// its own hold beside each other, and each ends at its own time, on record.
func TestOperatorsDegradeModel(t *testing.T) {
	t.Parallel()
	g := start(t, setup{
		More: "tiers: {batch: {class: P2}, gold: {class: P0}}",
		Keys: `- {name: batch, secret: "literal:sk-batch-key-123", tier: batch}
- {name: gold, secret: "literal:sk-gold-key-1234", tier: gold}`,
	})
	status := func(secret, model string) int {
		return g.post(chatPath, chatOf(model, ""), "Authorization", "Bearer "+secret).StatusCode
	}
	const batch, gold = "sk-batch-key-123", "sk-gold-key-1234"
	if a := g.operate("POST", "/admin/v1/degrade", `{"level":1,"ttl":"1m","reason":"r","model":"none"}`); a.StatusCode != 422 || !strings.Contains(string(a.Bytes), "models are chat, haiku") {
		t.Errorf("%d %s", a.StatusCode, a.Bytes)
	}
	if a := g.operate("POST", "/admin/v1/degrade", `{"level":3,"reason":"r","model":"gpt-*"}`); a.StatusCode != 422 || !strings.Contains(string(a.Bytes), "ttl is how long") {
		t.Errorf("%d %s", a.StatusCode, a.Bytes)
	}
	g.operate("POST", "/admin/v1/degrade", `{"level":1,"ttl":"1h","reason":"r"}`)
	a := g.confirmed("POST", "/admin/v1/degrade", `{"level":3,"ttl":"2s","reason":"overload","model":"gpt-*"}`)
	if a.StatusCode != 200 || within(a.JSON(t), "model") != "gpt-*" || within(a.JSON(t), "level") != 3.0 {
		t.Fatalf("%d %s", a.StatusCode, a.Bytes)
	}
	calls := g.Fake.Stats().Requests
	refused := g.post(chatPath, chatOf("gpt-4", ""), "Authorization", "Bearer "+batch)
	if refused.StatusCode != 503 || refused.Header.Get("Retry-After") == "" || !strings.Contains(string(refused.Bytes), "The model is turned down") || g.Fake.Stats().Requests != calls {
		t.Errorf("P2 at level 3: %d %s", refused.StatusCode, refused.Bytes)
	}
	if status(gold, "gpt-4") != 200 || status(batch, "chat") != 200 {
		t.Error("P0, or another model, is refused")
	}
	if m := g.operate("GET", "/admin/v1/degrade", "").JSON(t); m["level"] != 1.0 || within(m, "models", 0, "level") != 3.0 {
		t.Errorf("%v", m)
	}
	if own, all := g.metric("headgate_degradation_level", `model="gpt-*"`), g.metric("headgate_degradation_level"); own != 3 || all != 4 {
		t.Errorf("the metric is %v, and %v together with that of all", own, all)
	}
	wait(t, "the end", func() bool { return status(batch, "gpt-4") == 200 })
	wait(t, "the end on record", func() bool {
		e := within(g.operate("GET", "/admin/v1/audit?limit=1", "").JSON(t), "entries", 0)
		return within(e, "operation") == "degrade.expire" && within(e, "target") == "gpt-*"
	})
	if m := g.operate("GET", "/admin/v1/degrade", "").JSON(t); m["level"] != 1.0 || within(m, "models", 0) != nil {
		t.Errorf("%v", m)
	}
}

func TestOperatorsWindow(t *testing.T) {
	t.Parallel()
	g := start(t, setup{})
	for range 20 {
		g.post(chatPath, chatBody)
	}
	time.Sleep(100 * time.Millisecond)
	for _, path := range []string{"/admin/v1/metrics-window", "/admin/metrics-window"} {
		m := g.operate("GET", path, "").JSON(t)
		if len(m) != 3 || m["rps"].(float64) <= 0 || m["p99_ms"].(float64) <= 0 || m["token_tps"].(float64) < 15.9*m["rps"].(float64) {
			t.Errorf("%v", m)
		}
	}
	if g.metric("headgate_window_rps") <= 0 || g.metric("headgate_window_p99_ms") <= 0 || g.metric("headgate_window_token_tps") <= 0 {
		t.Error("the gauges are empty")
	}
}

// Every metric of the table is there but those of a shared store, which
// TestSharedLimits has, and of limits that move, which TestAdaptShown has, and
// subjects add no series.
func TestOperatorsMetrics(t *testing.T) {
	t.Parallel()
	shadow := strings.Replace(limited, "  budgets:", "    - {name: eyes, per: [\"ip\"], requests: {rate: 1/h}, shadow: true}\n  budgets:", 1)
	g := start(t, setup{
		More: strings.Replace(shadow, "kind: memory", "kind: sqlite, path: "+filepath.Join(t.TempDir(), "l.db"), 1),
		Fake: func(c *fake.Config) { c.RateLimit.Requests = 100 },
	})
	for range 3 {
		g.post(chatPath, chatBody)
	}
	text := string(g.admin("GET", "/metrics").Bytes)
	for _, m := range app.Metrics {
		switch m.Name {
		case "headgate_limiter_factor", "headgate_limiter_profile", "headgate_provider_version_changes_total":
			continue
		}
		if strings.HasPrefix(m.Name, "headgate_limiter_sync_") {
			continue
		}
		if !strings.Contains(text, "# TYPE "+m.Name+" "+string(m.Type)+"\n") || !strings.Contains(text, "\n"+m.Name) {
			t.Errorf("no %s %s", m.Type, m.Name)
		}
	}
	each := func(name string) float64 { return g.metric(name, `rule="each"`, `dimension="requests"`) }
	if each("headgate_limiter_capacity") != 2 || each("headgate_limiter_tokens") != 0 || each("headgate_limiter_fill_ratio") != 0 || each("headgate_limiter_fill_rate") <= 0 {
		t.Error("the figures of the limit are wrong")
	}
	for decision, want := range map[string]float64{"admitted": 2, "refused": 1} {
		if n := g.metric("headgate_limiter_decisions_total", `rule="each"`, decision); n != want {
			t.Errorf("%v %s", n, decision)
		}
	}
	if n := g.metric("headgate_limiter_decisions_total", `rule="eyes"`, "shadow_refused"); n != 2 {
		t.Errorf("%v refused in the shadow", n)
	}
	if left := g.metric("headgate_budget_remaining_ratio", `budget="purse"`); left <= 0.9 || left >= 1 {
		t.Errorf("%v of the budget are left", left)
	}
	if n := g.metric("headgate_limiter_cells"); n < 4 {
		t.Errorf("%v cells", n)
	}
}
