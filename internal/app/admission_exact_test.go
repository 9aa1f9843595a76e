package app_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/lab/race"
)

// exactYAML prices tokens by whole nano-dollars, so that no sum is rounded. %d
// tokens and %g dollars for each tenant are enough for some of them, while others
// come to the end of the one or of the other.
const exactYAML = `%sjournal: {log: {enabled: false}}
prices:
  - {model: gpt-4o-mini, input: 10, cached_input: 5, output: 20, reasoning: 30}
  - {model: "*", input: 1, cached_input: 0.5, output: 2, reasoning: 3}
quota:
  rules: [{name: together, per: [tenant], concurrent: 100000}]
  budgets:
    - {name: tokens, per: [tenant], limit: {tokens: %d}, period: none}
    - {name: money, per: [tenant], limit: {usd: %g}, period: none}
`

// charge is what a call must be charged: the usage of which no field is less
// than in the one or more than in the other, or nothing if it may be free.
func (c *exactCall) charge() (least, most llm.Usage, free bool) {
	delivered := func(n int64) llm.Usage { return llm.Usage{Input: c.usage.Input, Output: n} }
	switch {
	case c.stopped:
		return delivered(int64(c.got)), delivered(int64(c.got)), false
	case c.ending == refusal || c.ending == noAnswer || c.ending == leftUnheard:
		return llm.Usage{}, llm.Usage{}, true
	case c.ending == brokenStream || c.ending == failedStream || c.ending == leftStream:
		return delivered(int64(c.sends)), delivered(int64(c.sends)), false
	case c.ending == leftFlowing: // no one knows better than the gateway
		return delivered(int64(c.got)), delivered(c.sent.Load()), false
	}
	return c.usage, c.usage, c.ending == leftAnyTime && !c.whole
}

// check compares a call with its entry in the ledger, which is nil if there is
// none.
func (c *exactCall) check(t *testing.T, i int, e *ledger.Entry) {
	t.Helper()
	arrivals := c.arrivals.Load()
	switch {
	case arrivals > 1:
		t.Errorf("call %d, %s: the provider got it %d times", i, c.ending, arrivals)
	case e == nil && arrivals == 0:
		if c.status != http.StatusTooManyRequests && c.ending != leftAnyTime {
			t.Errorf("call %d, %s: it came to nothing with %d", i, c.ending, c.status)
		}
		return
	case e == nil || arrivals == 0 && c.ending != leftAnyTime:
		t.Errorf("call %d, %s: the provider got it %d times, the ledger has %+v", i, c.ending, arrivals, e)
		return
	}
	u := e.Usage
	u.Estimated = false
	least, most, free := c.charge()
	within := u.Input == least.Input && u.Cached == least.Cached && u.Reasoning == least.Reasoning && u.CacheWrite == 0 && u.Output >= least.Output && u.Output <= most.Output
	if !within && !(free && u == llm.Usage{}) {
		t.Errorf("call %d, %s, stopped %t: charged is %+v, it used %+v to %+v", i, c.ending, c.stopped, u, least, most)
	}
	if cost := c.cost(u); e.Cost != cost || e.Tenant != c.tenant {
		t.Errorf("call %d: %+v, want %d nano-dollars of %s", i, e, cost, c.tenant)
	}
}

// cost is the price of exactYAML, in nano-dollars.
func (c *exactCall) cost(u llm.Usage) llm.Money {
	halves := (u.Input-u.Cached)*2 + u.Cached + (u.Output-u.Reasoning)*4 + u.Reasoning*6
	return llm.Money(halves * 500 * map[string]int64{"gpt-4o": 1, "gpt-4o-mini": 10}[c.model])
}

// Random calls beside each other, of several tenants: whole ones, such that a
// client leaves at any moment, such that the provider refuses, breaks off or
// ends in an error, and such that a budget refuses or stops. Each is charged
// exactly what the provider says of it or, where it could not say anything, the
// tokens that it delivered; the budgets are the sums of that; none is ever
// overdrawn; and in the end nothing is reserved.
func TestSumOfCharges(t *testing.T) {
	t.Parallel()
	calls := 10_000
	if race.Enabled {
		calls = 1000
	}
	// The limits go with the calls.
	tokens, dollars := int64(calls)*14, float64(calls)*2.2e-4
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	all, keys := make(exactProvider, calls), map[string]string{}
	for i := range all {
		all[i] = randomCall(r)
		keys[all[i].tenant] = fmt.Sprintf("- {name: %[1]s, secret: \"literal:sk-exact-%[1]s\", tenant: %[1]s}\n", all[i].tenant)
	}
	ledgerYAML, path := ledgerAt(t)
	g := start(t, setup{
		Upstream: all, Keys: strings.Join(slices.Sorted(maps.Values(keys)), ""),
		More: fmt.Sprintf(exactYAML, ledgerYAML, tokens, dollars),
	})
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(calls); i = next.Add(1) - 1 {
				all[i].call(g, int(i))
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for again := true; again; {
		select {
		case <-done:
			again = false
		case <-time.After(50 * time.Millisecond):
		}
		for tenant := range keys {
			g.neverOverdrawn(tenant, float64(tokens), dollars)
		}
	}
	left := map[string]map[string]stand{}
	wait(t, "every call to be settled", func() bool {
		for tenant := range keys {
			left[tenant] = g.stands("gpt-4o", "Authorization", "Bearer sk-exact-"+tenant)
			if s := left[tenant]["together/concurrent"]; s.Remaining != s.Limit {
				return false
			}
		}
		return true
	})
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	all.checkAll(t, path, left)
}

// neverOverdrawn looks at a tenant's budgets in the middle of the load: what the
// ledger charges is never more than there is, and what is shown as left never
// more than the ledger leaves.
func (g *Gateway) neverOverdrawn(tenant string, tokens, dollars float64) {
	t := g.t
	t.Helper()
	m := g.operate("GET", "/admin/v1/usage?tenant="+tenant, "").JSON(t)
	used, cost := m["prompt_tokens"].(float64)+m["completion_tokens"].(float64), m["cost_usd"].(float64)
	all := g.stands("gpt-4o", "Authorization", "Bearer sk-exact-"+tenant)
	for name, c := range map[string][2]float64{"tokens/tokens": {tokens, used}, "money/money": {dollars, cost}} {
		limit, charged := c[0], c[1]
		if s := all[name]; s.Limit != limit || charged > limit+1e-9 || s.Remaining < 0 || s.Remaining > limit-charged+1e-9 {
			t.Errorf("%s, %s: %v of %v are charged, and it stands at %+v", tenant, name, charged, limit, s)
		}
	}
}

// checkAll compares every call with the ledger, and the sums of the ledger with
// its balances and with how the budgets stood at last.
func (p exactProvider) checkAll(t *testing.T, path string, left map[string]map[string]stand) {
	t.Helper()
	found, balances := entries(t, path)
	byID := map[string]*ledger.Entry{}
	sums := map[string]int64{}
	for i := range found {
		e := &found[i]
		if byID[e.RequestID] != nil {
			t.Errorf("%s is in the ledger twice", e.RequestID)
		}
		byID[e.RequestID] = e
		sums["tokens/tokens|tenant="+e.Tenant] += e.Usage.Input + e.Usage.Output
		sums["money/money|tenant="+e.Tenant] += int64(e.Cost)
	}
	const noBudget = "no budget for it"
	counts := map[string]int{}
	for i, c := range p {
		id := fmt.Sprint("exact-", i)
		c.check(t, i, byID[id])
		delete(byID, id)
		switch {
		case c.status == http.StatusTooManyRequests && c.arrivals.Load() == 0:
			counts[noBudget]++
		case c.stopped:
			counts["stopped by a budget"]++
		default:
			counts[c.ending.String()]++
		}
	}
	if len(byID) > 0 {
		t.Errorf("the ledger has %d entries of calls that nobody made", len(byID))
	}
	for _, b := range balances {
		rule, tenant, _ := strings.Cut(b.Scope, "|tenant=")
		s, unit := left[tenant][rule], map[string]float64{"tokens/tokens": 1, "money/money": 1e-9}[rule]
		if charged := float64(b.Used) * unit; b.Used != sums[b.Scope] || charged > s.Limit+1e-9 || !same(s.Limit-s.Remaining, charged) {
			t.Errorf("%s: charged is %d, the entries' sum is %d, and it stood at %+v", b.Scope, b.Used, sums[b.Scope], s)
		}
	}
	if len(balances) != 2*len(left) {
		t.Errorf("%d balances of %d tenants: %v", len(balances), len(left), balances)
	}
	t.Logf("%d entries, %v", len(found), counts)
	for e := range endings {
		if counts[e.String()] == 0 {
			t.Errorf("there was no %s", e)
		}
	}
	if counts[noBudget] == 0 || len(found) < len(p)/2 {
		t.Error("the budgets were too large or too small to tell anything")
	}
}
