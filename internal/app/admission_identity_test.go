package app_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// B9, K5: a signed token is a credential; a bad one gets nowhere near a
// provider, and says nothing of why beyond what its holder may know.
func TestTokens(t *testing.T) {
	t.Parallel()
	g := start(t, setup{More: jwtYAML})
	good := jwtOf("HS256", nil)
	for i, where := range [][]string{{"Authorization", "Bearer " + good}, {"Authorization", "-", "X-Api-Key", good}} {
		if a := g.post([]string{chatPath, msgPath}[i], chatOf([]string{"chat", "haiku"}[i], `,"max_tokens":9`), where...); a.StatusCode != 200 {
			t.Fatalf("%v: %d %s", where[0], a.StatusCode, a.Bytes)
		} else if r := g.record(a.ID()); r["tenant"] != "acme" {
			t.Errorf("the record's tenant is %v", r["tenant"])
		}
	}
	calls := g.Fake.Stats().Requests
	parts := strings.Split(good, ".")
	other := strings.Split(jwtOf("HS256", map[string]any{"sub": "mallory"}), ".")
	past := time.Now().Add(-time.Minute).Unix()
	for what, bad := range map[string]string{
		"alg none":            jwtOf("none", nil),
		"alg None":            jwtOf("NoNe", nil),
		"alg none, signed":    jwtOf("none", nil) + parts[2],
		"another algorithm":   jwtOf("HS384", nil),
		"another audience":    jwtOf("HS256", map[string]any{"aud": "other"}),
		"no audience":         jwtOf("HS256", map[string]any{"aud": nil}),
		"another issuer":      jwtOf("HS256", map[string]any{"iss": "https://issuer.example.evil"}),
		"no issuer":           jwtOf("HS256", map[string]any{"iss": nil}),
		"expired":             jwtOf("HS256", map[string]any{"exp": past}),
		"without end":         jwtOf("HS256", map[string]any{"exp": nil}),
		"not yet valid":       jwtOf("HS256", map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}),
		"another payload":     parts[0] + "." + other[1] + "." + parts[2],
		"another signature":   parts[0] + "." + parts[1] + "." + other[2],
		"no signature":        parts[0] + "." + parts[1] + ".",
		"a cut signature":     good[:len(good)-4],
		"two parts":           parts[0] + "." + parts[1],
		"an end that is text": jwtOf("HS256", map[string]any{"exp": "2030-01-01"}),
	} {
		for _, path := range []string{chatPath, msgPath} {
			a := g.post(path, chatOf("chat", `,"max_tokens":9`), "Authorization", "Bearer "+bad)
			if a.StatusCode != 401 || strings.Contains(string(a.Bytes), jwtSecret) || strings.Contains(string(a.Bytes), bad) {
				t.Errorf("%s: %d %s", what, a.StatusCode, a.Bytes)
			}
		}
		if a := g.get("/v1/status/rate-limit", "Authorization", "Bearer "+bad); a.StatusCode != 401 {
			t.Errorf("%s: the status is shown: %d %s", what, a.StatusCode, a.Bytes)
		}
	}
	if n := g.Fake.Stats().Requests; n != calls {
		t.Errorf("%d calls with bad tokens have reached the provider", n-calls)
	}
}

// Roles and conditions: 403 with a code that tells which, and no call.
func TestAccess(t *testing.T) {
	t.Parallel()
	g := start(t, setup{More: jwtYAML + `tiers: {gold: {}, silver: {}}
access:
  roles: {user: [inference], reader: ["models:read"], default: ["*"]}
  conditions:
    - {name: big-for-gold, when: 'request.model.startsWith("gpt-4")', require: 'principal.tier == "gold"'}
    - {name: approved, when: 'request.model == "o1"', require: principal.claims.approved == true}
`})
	for _, c := range []struct {
		claims map[string]any
		model  string
		code   string
	}{
		{map[string]any{"tier": "gold", "roles": []string{"user"}}, "gpt-4o", ""},
		{map[string]any{"tier": "silver"}, "gpt-3.5", ""},
		{map[string]any{"tier": "silver", "roles": []string{"user"}}, "gpt-4o", "FORBIDDEN_ABAC"},
		{map[string]any{"tier": "platinum"}, "gpt-4o", "FORBIDDEN_ABAC"},
		{nil, "gpt-4o", "FORBIDDEN_ABAC"},
		{nil, "openai/gpt-4o", "FORBIDDEN_ABAC"},
		{nil, "gpt-4-no-such-model", "FORBIDDEN_ABAC"},
		{map[string]any{"approved": true}, "openai/o1", ""},
		{map[string]any{"approved": "true"}, "openai/o1", "FORBIDDEN_ABAC"},
		{nil, "openai/o1", "FORBIDDEN_ABAC"},
		{map[string]any{"roles": []string{"reader"}}, "gpt-3.5", "FORBIDDEN_RBAC"},
		{map[string]any{"tier": "gold", "roles": "reader"}, "gpt-4o", "FORBIDDEN_RBAC"},
	} {
		before := g.Fake.Stats().Requests
		a := g.post(chatPath, chatOf(c.model, ""), "Authorization", "Bearer "+jwtOf("HS256", c.claims))
		calls := g.Fake.Stats().Requests - before
		switch {
		case c.code == "" && (a.StatusCode != 200 || calls != 1):
			t.Errorf("%v of %s: %d %s", c.claims, c.model, a.StatusCode, a.Bytes)
		case c.code != "" && (a.StatusCode != 403 || calls != 0 || within(a.JSON(t), "error", "code") != c.code || within(a.JSON(t), "error", "details", "code") != c.code):
			t.Errorf("%v of %s: %d, %d calls, %s", c.claims, c.model, a.StatusCode, calls, a.Bytes)
		}
	}
}

// B9: a token's quota of 5 is 5 requests a second, which its tier bounds.
func TestQuotaClaim(t *testing.T) {
	t.Parallel()
	g := start(t, setup{More: jwtYAML + "tiers: {small: {max_rate: 2/s}}\n"})
	for _, c := range []struct {
		claims map[string]any
		rate   float64
	}{
		{map[string]any{"sub": "five", "quota": 5}, 5},
		{map[string]any{"sub": "bounded", "quota": 5000, "tier": "small"}, 2},
		{map[string]any{"sub": "tier", "tier": "small"}, 2},
		{map[string]any{"sub": "text", "quota": "5000", "tier": "small"}, 2},
	} {
		t.Run(c.claims["sub"].(string), func(t *testing.T) {
			t.Parallel()
			bearer := "Bearer " + jwtOf("HS256", c.claims)
			const seconds = 4
			var passed atomic.Int64
			began := time.Now()
			for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
				at := time.Since(began)
				if at > (1+seconds)*time.Second {
					tick.Stop()
					break
				}
				switch a := g.post(chatPath, chatBody, "Authorization", bearer); {
				case a.StatusCode == http.StatusOK && at > time.Second: // the burst is over
					passed.Add(1)
				case a.StatusCode != http.StatusOK:
					a.limited(t)
				}
			}
			if got := float64(passed.Load()) / seconds; got < c.rate-1 || got > c.rate+1 {
				t.Errorf("%.1f requests a second passed, want %v", got, c.rate)
			}
		})
	}
}
