package app_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// K5: the record of a request says who decided what about it: the role, the
// conditions, the limit, what was reserved, what it cost. The log does, too, and
// neither holds a secret.
func TestDecisionsAreOnRecord(t *testing.T) {
	t.Parallel()
	g := start(t, setup{
		Keys: `- {name: worker, secret: "literal:sk-worker-0123456", tenant: acme, user: ann, tier: gold, roles: [user]}`,
		More: `tiers: {gold: {concurrent: 8}}
prices: [{model: "*", input: 1000, output: 1000}]
ledger: {kind: memory}
access:
  roles: {user: [inference]}
  conditions:
    - {name: elsewhere, when: 'request.model == "gpt-other"', require: 'tier == "silver"'}
    - {name: short, require: 'request.max_tokens < 100'}
quota: {rules: [{name: calls, per: [key], requests: {rate: 1/day, algorithm: window}, tokens: {rate: 100000/day}}]}
`})
	const secret = "sk-worker-0123456"
	call := func(model, more string) map[string]any {
		a := g.post(chatPath, chatOf(model, more), "Authorization", "Bearer "+secret)
		r := g.record(a.ID())
		if r["user"] != "ann" || r["tier"] != "gold" || r["status"] != float64(a.StatusCode) || strings.Contains(fmt.Sprint(r), secret) {
			t.Errorf("%v", r)
		}
		return r
	}
	admission := func(r map[string]any) map[string]any { m, _ := r["admission"].(map[string]any); return m }
	short := []any{"short"}
	r := call("gpt-4", `,"max_tokens":50`)
	if m := admission(r); m["role"] != "user" || !reflect.DeepEqual(m["conditions"], short) || m["denied_by"] != nil || m["limit"] != "calls" ||
		m["reserved_output_tokens"] != 50.0 || number(m["reserved_input_tokens"]) < 5 {
		t.Errorf("let through: %v", m)
	}
	used := number(within(r, "usage", "input_tokens")) + number(within(r, "usage", "output_tokens"))
	if cost := number(r["cost_usd"]); cost <= 0 || cost-used/1000 > 1e-9 || used/1000-cost > 1e-9 {
		t.Errorf("%v tokens cost %v", used, cost)
	}
	if m := admission(call("gpt-4", `,"max_tokens":50`)); m["limit"] != "calls" || m["role"] != "user" {
		t.Errorf("refused by a limit: %v", m)
	}
	if m := admission(call("gpt-other", `,"max_tokens":50`)); m["denied_by"] != "elsewhere" || m["role"] != "user" || m["limit"] != nil {
		t.Errorf("refused by a condition: %v", m)
	}
	wait(t, "the log", func() bool { return strings.Contains(g.Log.String(), `"denied_by":"elsewhere"`) })
	if log := g.Log.String(); !strings.Contains(log, `"role":"user","conditions":"short","limit":"calls"`) || strings.Contains(log, secret) {
		t.Errorf("%s", log)
	}
}

// P6: what answers say of limits is what the API's description declares.
func TestLimitHeadersAreDescribed(t *testing.T) {
	t.Parallel()
	g := start(t, setup{More: "ledger: {kind: memory}\nquota: {rules: [{name: calls, per: [key], requests: {rate: 1/day, algorithm: window}, tokens: {rate: 100000/day}}], budgets: [{name: purse, limit: {tokens: 5000}, soft: {tokens: 5000}, period: none}]}\n"})
	doc := g.get("/openapi.json").JSON(t)
	for path, body := range map[string]string{chatPath: chatOf("chat", `,"max_tokens":50`), msgPath: chatOf("haiku", `,"max_tokens":50`)} {
		a := g.post(path, body)
		declared := map[string]bool{}
		headers, _ := within(doc, "paths", path, "post", "responses", fmt.Sprint(a.StatusCode), "headers").(map[string]any)
		for name := range headers {
			declared[strings.ToLower(name)] = true
		}
		seen := 0
		for name := range a.Header {
			switch name = strings.ToLower(name); {
			case strings.Contains(name, "ratelimit"), strings.HasPrefix(name, "x-billing"), name == "x-headgate-budget", strings.HasPrefix(name, "retry-after"), name == "x-should-retry":
				if seen++; !declared[name] {
					t.Errorf("%s %d: %s is not declared", path, a.StatusCode, name)
				}
			}
		}
		if seen < 11 {
			t.Errorf("%s %d: only %d headers about limits: %v", path, a.StatusCode, seen, a.Header)
		}
	}
}
