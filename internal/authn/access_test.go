package authn

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/headgate-ai/headgate/internal/condition"
	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
	"github.com/headgate-ai/headgate/lab/race"
)

func grantOf(name string, roles ...string) *Grant {
	return &Grant{Principal: llm.Principal{Key: name, Tenant: name, Tier: "gold", User: "u1"}, roles: roles}
}

// Access is allowed only where roles and conditions both say so; what cannot be
// decided is not allowed; roles are asked first.
func TestTruthTable(t *testing.T) {
	roles := map[string][]string{"writer": {"chat.write"}, "reader": {"models.read"}}
	conditions := map[string]string{"allow": "true", "deny": "false", "error": "principal.claims.none == 1"}
	for _, c := range []struct{ role, condition, code, rule string }{
		{"writer", "allow", "", ""},
		{"writer", "deny", ForbiddenABAC, "c"},
		{"writer", "error", ForbiddenABAC, "c"},
		{"reader", "allow", ForbiddenRBAC, "reader"},
		{"reader", "deny", ForbiddenRBAC, "reader"},
		{"reader", "error", ForbiddenRBAC, "reader"},
		{"unknown", "allow", ForbiddenRBAC, "unknown"},
	} {
		p := compilePlan(t, Config{Auth: "none", Access: AccessConfig{Roles: roles, Conditions: []ConditionConfig{{Name: "c", Require: conditions[c.condition]}}}})
		d, err := p.Authorize(grantOf("k", c.role), &condition.Input{Op: "chat", Now: now})
		if d.Allowed != (c.code == "") || d.Code != c.code || (err == nil) != d.Allowed || c.rule != "" && d.Rule != c.rule || (d.Err != nil) != (c.condition == "error" && c.code == ForbiddenABAC) {
			t.Errorf("%+v: %+v %v", c, d, err)
		}
		if f := fault.Of(err); f != nil && (f.Kind != fault.Forbidden || f.Code != c.code || f.Details["code"] != c.code || f.Details["rule"] != c.rule || f.Public == "") {
			t.Errorf("%+v: %+v", c, f)
		}
	}
}

func TestRoles(t *testing.T) {
	config := func(roles map[string][]string) *Plan {
		return compilePlan(t, Config{Auth: "keys", Access: AccessConfig{Roles: roles}, Keys: []KeyConfig{{Name: "k", Secret: setting.NewSecret("literal:1111")}}})
	}
	two := map[string][]string{"user": {"inference"}, "lister": {"models.read"}, "operator": {"*"}, "nobody": {}}
	withDefault := map[string][]string{"default": {"models:read"}, "user": {"chat:write"}}
	for _, c := range []struct {
		roles map[string][]string
		has   []string
		op    llm.Operation
		ok    bool
	}{
		{two, []string{"user"}, llm.Chat, true},
		{two, []string{"user"}, llm.ListModels, false},
		{two, []string{"user", "lister"}, llm.ListModels, true}, // the permissions of all
		{two, []string{"operator"}, llm.ListModels, true},
		{two, []string{"nobody"}, llm.Chat, false},
		{two, nil, llm.Chat, true},
		{withDefault, nil, llm.Chat, false},
		{withDefault, nil, llm.ListModels, true},
		{withDefault, []string{"user"}, llm.Chat, true},
		{withDefault, []string{"user"}, llm.ListModels, false},
		{nil, []string{"whatever"}, llm.Chat, true}, // only names
	} {
		d, err := config(c.roles).Authorize(grantOf("k", c.has...), &condition.Input{Op: string(c.op)})
		if d.Allowed != c.ok || (err == nil) != c.ok {
			t.Errorf("%+v: %+v %v", c, d, err)
		}
	}
}

// A role is refused before the body is read, and a key's scopes hold it back.
func TestIdentifyAsksRoles(t *testing.T) {
	p := compilePlan(t, Config{
		Access: AccessConfig{Roles: map[string][]string{"user": {"inference"}, "operator": {"*"}}},
		Keys: []KeyConfig{
			{Name: "user", Secret: setting.NewSecret("literal:user"), Roles: []string{"user"}},
			{Name: "held", Secret: setting.NewSecret("literal:held"), Roles: []string{"operator"}, Scopes: []string{"models:read"}},
		},
	})
	r := New()
	for _, c := range []struct {
		key  string
		op   llm.Operation
		code string
	}{{"user", llm.Chat, "-"}, {"user", llm.ListModels, ForbiddenRBAC}, {"held", llm.ListModels, "-"}, {"held", llm.Chat, ""}} {
		g, err := r.Identify(p, c.key, false, c.op, now)
		if g == nil || (err == nil) != (c.code == "-") || err != nil && fault.Of(err).Code != c.code {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestConditions(t *testing.T) {
	config := Config{Auth: "none", Access: AccessConfig{Conditions: []ConditionConfig{
		{Name: "big-models-for-gold", When: `request.model.startsWith("gpt-4")`, Require: `principal.tier == "gold"`},
		{Name: "own-region", When: `request.region != ""`, Require: `request.region == principal.user`},
		{Name: "office", When: `request.model == "internal"`, Require: `cidr("10.0.0.0/8").containsIP(request.ip)`},
		{Name: "hours", When: `request.model == "daytime"`, Require: `time.hour >= 9 && time.hour < 17`},
		{Name: "when-fails", When: `request.model == "x" && principal.claims.n > 1`, Require: `true`},
	}}}
	config.Access.TimeZone = "Asia/Tokyo" // UTC+9
	p := compilePlan(t, config)
	if p.Uses() != condition.Model|condition.Tier|condition.Region|condition.User|condition.IP|condition.Time|condition.Claims {
		t.Errorf("%b", p.Uses())
	}
	for _, c := range []struct {
		tier, rule string
		in         condition.Input
	}{
		{"gold", "", condition.Input{Model: "gpt-4"}},
		{"silver", "big-models-for-gold", condition.Input{Model: "gpt-4-turbo"}},
		{"silver", "", condition.Input{Model: "small"}},
		{"silver", "big-models-for-gold", condition.Input{Model: "gpt-4", Tier: "gold"}}, // the principal's tier is not the input's to say
		{"silver", "", condition.Input{Region: "u1"}},
		{"silver", "own-region", condition.Input{Region: "u2"}},
		{"silver", "", condition.Input{Model: "internal", IP: "10.9.8.7"}},
		{"silver", "office", condition.Input{Model: "internal", IP: "192.0.2.1"}},
		{"silver", "office", condition.Input{Model: "internal", IP: "not an address"}},
		{"silver", "", condition.Input{Model: "daytime", Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}}, // 9:00
		{"silver", "hours", condition.Input{Model: "daytime", Now: time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC)}},
		{"silver", "when-fails", condition.Input{Model: "x"}},
	} {
		g := grantOf("k")
		g.Tier = c.tier
		d, err := p.Authorize(g, &c.in)
		if d.Rule != c.rule || d.Allowed != (c.rule == "") || (err == nil) != d.Allowed {
			t.Errorf("%+v: %+v %v", c, d, err)
		}
	}
}

func authorizeExample(t testing.TB) (*Plan, *Grant, condition.Input) {
	p := compilePlan(t, Config{Auth: "none", Access: AccessConfig{
		Roles: map[string][]string{"user": {"inference", "models.read"}, "operator": {"*"}},
		Conditions: []ConditionConfig{
			{Name: "a", When: `request.model.startsWith("gpt-4")`, Require: `principal.tier == "gold"`},
			{Name: "b", When: `request.tokens > 100000`, Require: `"operator" in principal.roles`},
			{Name: "c", Require: `time.hour >= 0 && request.method == "POST"`},
		},
	}})
	return p, grantOf("k", "user"), condition.Input{Op: "chat", Model: "gpt-4", Method: "POST", Tokens: 100, Now: now}
}

func TestAuthorizeBudget(t *testing.T) {
	p, g, in := authorizeExample(t)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := p.Authorize(g, &in); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAuthorize(b *testing.B) {
	p, g, in := authorizeExample(b)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = p.Authorize(g, &in)
	}
}

// best is the time of one call, in the best of many rounds, as a busy machine
// is not the code's fault.
func best(call func()) time.Duration {
	const rounds = 200
	least := time.Hour
	for range 20 {
		began := time.Now()
		for range rounds {
			call()
		}
		least = min(least, time.Since(began)/rounds)
	}
	return least
}

func TestTime(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector is on")
	}
	p, g, in := authorizeExample(t)
	if d := best(func() { _, _ = p.Authorize(g, &in) }); d > 20*time.Microsecond {
		t.Errorf("%v for a decision; at most 20µs", d)
	}
	trust, r := trusting(t), New()
	token := sign(t, jwt.SigningMethodRS256, "r", rsaKey(), claimsWith(nil))
	if d := best(func() { _ = r.try(trust, token) }); d > 5*time.Microsecond {
		t.Errorf("%v for a token that is known; at most 5µs", d)
	}
}

// The decision tells which role permitted the request and which conditions held,
// for the record.
func TestDecisionNamesItsRules(t *testing.T) {
	p := compilePlan(t, Config{Auth: "none", Access: AccessConfig{
		Roles: map[string][]string{"user": {"inference"}},
		Conditions: []ConditionConfig{
			{Name: "elsewhere", When: `request.model == "other"`, Require: `false`},
			{Name: "short", Require: `request.max_tokens < 100`},
			{Name: "eu", Require: `request.region == "eu"`},
		},
	}})
	g := grantOf("k")
	g.roles = []string{"user"}
	d, err := p.Authorize(g, &condition.Input{Op: "chat", Region: "eu"})
	if err != nil || d.Role != "user" || d.Held != 0b110 || (*p.Conditions())[2] != "eu" {
		t.Errorf("%+v %v", d, err)
	}
	d, err = p.Authorize(g, &condition.Input{Op: "chat", Region: "us"})
	if err == nil || d.Role != "user" || d.Held != 0b010 || d.Rule != "eu" {
		t.Errorf("%+v %v", d, err)
	}
}

// What would do nothing is refused, with what would.
func TestVoidAccessIsRefused(t *testing.T) {
	c := Config{
		Auth: "keys", Keys: []KeyConfig{{Name: "k", Secret: setting.NewSecret("literal:sk-1234"), Scopes: []string{"admin:*", "chat.write"}}},
		Access: AccessConfig{
			Roles:      map[string][]string{"operator": {"admin.read"}},
			Conditions: []ConditionConfig{{Name: "own", When: `intent == "code"`, Require: `resource.owner_id == principal.user`}},
		},
	}
	var p setting.Problems
	c.Validate(&p)
	want := []string{
		`keys[0].scopes[0]`, "server.admin.token", `access.roles.operator[0]`, "server.admin.token",
		`access.conditions[0].when`, `is empty for every request`, `access.conditions[0].require`, "resource.owner_id is empty",
	}
	if got := fmt.Sprint(p); len(p) != len(want)/2 || !inOrder(got, want) {
		t.Errorf("%s", got)
	}
}

func inOrder(text string, parts []string) bool {
	for _, part := range parts {
		_, rest, ok := strings.Cut(text, part)
		if text = rest; !ok {
			return false
		}
	}
	return true
}
