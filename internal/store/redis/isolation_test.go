package redis

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/quota"
)

// tally is what one tenant has used, added up.
type tally struct{ requests, tokens int64 }

// The limits of a tenant: too slow to come back while a test runs.
const (
	mostRequests = 900
	mostTokens   = 60_000
	mostSpent    = 50_000 // tokens
)

// K12, where counts are shared: two tenants that send the same things, with the
// same names of keys and users, to a gateway with a Redis, where limits are kept by
// tenant, or only by key or user. Each is let through exactly what its own sums
// allow, and no key of the store is about both.
func TestTenantsAreApart(t *testing.T) {
	s := start(t)
	g := join(t, s.url(), patient(), quota.Config{
		Rules: []quota.RuleConfig{
			{Name: "requests", Per: []string{"key"}, Requests: quota.RateConfig{Rate: rate(t, fmt.Sprintf("%d/day", mostRequests)), Algorithm: "window"}},
			{Name: "tokens", Per: []string{"tenant"}, Tokens: quota.TokensConfig{RateConfig: quota.RateConfig{Rate: rate(t, fmt.Sprintf("%d/day", mostTokens)), Algorithm: "window"}}},
			{Name: "places", Per: []string{"user", "tenant"}, Concurrent: 1 << 20},
		},
		Budgets: []quota.BudgetConfig{{Name: "once", Per: []string{"user"}, Limit: quota.AmountConfig{Tokens: mostSpent}, Period: "none"}},
	})
	r := rand.New(rand.NewPCG(12, 2))
	users := []string{"ann", "bob|tenant=beta", "{t:alpha}"}
	totals := map[string]*tally{"alpha": {}, "beta": {}}
	spent := map[string]int64{} // by tenant and user
	ops, refused := 0, 0
	for range 2000 {
		n, user := int64(2+r.IntN(100)), users[r.IntN(len(users))]
		for tenant, sum := range totals {
			if r.IntN(5) == 0 {
				continue // this one does not send it
			}
			who := &quota.Subject{Principal: llm.Principal{Key: "sso", Tenant: tenant, User: user}, Model: "gpt-4", Provider: "openai", IP: "192.0.2.1"}
			h, err := g.reserve(who, quota.Demand{Input: n / 2, Output: n - n/2})
			of := tenant + "/" + user
			fits := sum.requests+1 <= mostRequests && sum.tokens+n <= mostTokens && spent[of]+n <= mostSpent
			if fits != (err == nil) {
				t.Fatalf("%d more of %s, who has used %+v and %d: %v", n, of, *sum, spent[of], err)
			}
			if ops++; err != nil {
				refused++
				continue
			}
			sum.requests, sum.tokens, spent[of] = sum.requests+1, sum.tokens+n, spent[of]+n
			charges := h.Settle(quota.Settlement{Usage: llm.Usage{Input: n / 2, Output: n - n/2}}, time.Now())
			if len(charges) != 1 || charges[0].Amount != n || !strings.HasSuffix(charges[0].Scope, "|tenant="+tenant) {
				t.Fatalf("%s is charged %+v", of, charges)
			}
		}
	}
	if ops < 3000 || refused < 100 {
		t.Errorf("%d calls, %d refused: nothing was tried", ops, refused)
	}
	g.leave() // what was leased goes back, what was used is told
	keysOfOneTenant(t, s)
}

// keysOfOneTenant looks at all that the store has: each key lies with one tenant
// and is about that one.
func keysOfOneTenant(t *testing.T, s *server) {
	t.Helper()
	found := map[string]int{}
	for key := range s.keys(t) {
		if key == gatewaysKey {
			continue
		}
		tenant, rest, ok := strings.Cut(strings.TrimPrefix(key, "hg:{t:"), "}")
		name, _, _ := strings.Cut(rest, "@") // behind it is a budget's period
		if !ok || strings.Count(key, "|tenant=") != 1 || !strings.HasSuffix(name, "|tenant="+tenant) {
			t.Errorf("the key %s is not of one tenant", key)
			continue
		}
		found[tenant]++
	}
	if len(found) != 2 || found["alpha"] != found["beta"] || found["alpha"] < 3 {
		t.Errorf("keys by tenant: %v", found)
	}
}
