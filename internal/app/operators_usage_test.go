package app_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const priced = `
prices: [{model: "*", input: 1, output: 2}]
ledger: {kind: sqlite, path: %q}`

func TestOperatorsUsage(t *testing.T) {
	t.Parallel()
	more := fmt.Sprintf(priced, filepath.Join(t.TempDir(), "ledger.db"))
	g := start(t, setup{More: more, Keys: `- {name: other, secret: "literal:sk-other-key-123", tenant: acme}`})
	for range 3 {
		g.post(chatPath, chatBody)
	}
	g.post(chatPath, chatBody, "Authorization", "Bearer sk-other-key-123")
	g.post(msgPath, msgBody)
	usage := func(query string) map[string]any {
		t.Helper()
		a := g.operate("GET", "/admin/v1/usage"+query, "")
		if a.StatusCode != 200 {
			t.Fatalf("%s: %d %s", query, a.StatusCode, a.Bytes)
		}
		return a.JSON(t)
	}
	all, chat := usage(""), usage("?model=chat")
	if all["requests"] != 5.0 || chat["requests"] != 4.0 || chat["completion_tokens"] != 64.0 || chat["errors"] != 0.0 {
		t.Errorf("%v\n%v", all, chat)
	}
	prompt := chat["prompt_tokens"].(float64)
	if cost, want := chat["cost_usd"].(float64), (prompt+2*64)/1e6; prompt == 0 || cost < want*0.999999 || cost > want*1.000001 {
		t.Errorf("%v dollars, want %v", cost, want)
	}
	for query, want := range map[string]float64{
		"?model=sim-small": 5, "?model=openai/sim-small": 4, "?model=none": 0, "?key=other": 1, "?tenant=tests": 4, "?tenant=tests&key=other": 0,
		"?provider=anthropic": 1, "?user=ann": 0, "?from=2020-01-01": 5, "?until=2020-01-01": 0, "?from=" + time.Now().Add(time.Hour).UTC().Format(time.RFC3339): 0,
	} {
		if n := usage(query)["requests"]; n != want {
			t.Errorf("%s: %v requests, want %v", query, n, want)
		}
	}
	rows := usage("?by=key,model&model=chat")["rows"].([]any)
	if len(rows) != 2 || within(rows[0], "key") != "other" || within(rows[0], "requests") != 1.0 || within(rows[1], "model") != "chat" || within(rows[1], "output_tokens") != 48.0 || within(rows[1], "cost_usd") == nil {
		t.Errorf("%v", rows)
	}
	if rows := usage("?by=day")["rows"].([]any); len(rows) < 1 || len(rows) > 2 {
		t.Errorf("%v", rows)
	}
	csv := g.operate("GET", "/admin/v1/usage?by=tenant&format=csv", "")
	if lines := strings.Split(strings.TrimSpace(string(csv.Bytes)), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "tenant,requests,") || !strings.HasPrefix(lines[1], "acme,1,") || !strings.HasPrefix(csv.Header.Get("Content-Type"), "text/csv") {
		t.Errorf("%q", lines)
	}
	for query, want := range map[string]string{
		"?color=red": "unknown parameter", "?from=now": "write a date", "?until=now": "write a date", "?by=color": "cannot be grouped", "?by=key,key": "stands twice", "?format=xml": "json or csv",
	} {
		if a := g.operate("GET", "/admin/v1/usage"+query, ""); a.StatusCode != 400 || !strings.Contains(string(a.Bytes), want) {
			t.Errorf("%s: %d %s", query, a.StatusCode, a.Bytes)
		}
	}
	entries := g.operate("GET", "/admin/v1/usage/entries?model=openai/sim-small&tenant=tests", "")
	var lines []map[string]any
	if err := json.Unmarshal(entries.Bytes, &lines); err != nil || len(lines) != 3 || lines[0]["key"] != "test" || lines[0]["output_tokens"] != 16.0 {
		t.Errorf("%d %s, %v", entries.StatusCode, entries.Bytes, err)
	}
	csv = g.operate("GET", "/admin/v1/usage/entries?format=csv", "")
	if lines := strings.Split(strings.TrimSpace(string(csv.Bytes)), "\n"); len(lines) != 6 || !strings.HasPrefix(lines[0], "id,at,") || !strings.HasPrefix(csv.Header.Get("Content-Type"), "text/csv") {
		t.Errorf("%q", lines)
	}
	for query, want := range map[string]string{"?by=key": "unknown parameter", "?from=now": "write a date"} {
		if a := g.operate("GET", "/admin/v1/usage/entries"+query, ""); a.StatusCode != 400 || !strings.Contains(string(a.Bytes), want) {
			t.Errorf("%s: %d %s", query, a.StatusCode, a.Bytes)
		}
	}
	// What was used outlasts the process.
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	g = start(t, setup{More: more})
	if again := usage("?model=chat"); again["requests"] != 4.0 || again["prompt_tokens"] != prompt || again["cost_usd"] != chat["cost_usd"] {
		t.Errorf("after a restart: %v, before %v", again, chat)
	}
}

// Without a ledger the totals are the process's own, and what only a ledger
// could answer is refused.
func TestOperatorsUsageWithoutLedger(t *testing.T) {
	t.Parallel()
	g := start(t, setup{})
	g.post(chatPath, chatBody)
	m := g.operate("GET", "/admin/v1/usage?model=chat", "").JSON(t)
	if m["requests"] != 1.0 || m["completion_tokens"] != 16.0 || m["cost_usd"] != nil || len(m) != 6 {
		t.Errorf("%v", m)
	}
	for _, path := range []string{"?by=key", "/entries"} {
		if a := g.operate("GET", "/admin/v1/usage"+path, ""); a.StatusCode != 400 || !strings.Contains(string(a.Bytes), "ledger.kind") {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.Bytes)
		}
	}
}
