package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/llm"
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

// ending is how a call of the random load goes.
type ending int

const (
	wholeAnswer  ending = iota
	wholeStream         // with the usage at its end
	refusal             // the provider answers with an error status
	noAnswer            // the provider breaks the connection
	brokenStream        // the provider breaks the connection after some tokens
	failedStream        // the provider sends an error event after some tokens
	leftUnheard         // the client leaves before the provider answers
	leftStream          // the client leaves once it has read some tokens; no more came
	leftAnyTime         // the client leaves a whole answer whenever it likes
	leftFlowing         // the client leaves while tokens come
	endings
)

func (e ending) String() string {
	return []string{"a whole answer", "a whole stream", "a refusal", "no answer", "a broken stream", "a failed stream",
		"a client that left unheard", "a client that left a stream", "a client that left at any moment", "a client that left while tokens came"}[e]
}

func (e ending) streams() bool {
	return e == wholeStream || e == brokenStream || e == failedStream || e == leftStream || e == leftFlowing
}

// exactCall is one call: what is to happen, and what the provider and the client
// saw of it.
type exactCall struct {
	tenant string
	model  string
	ending ending
	usage  llm.Usage // what the provider says of a whole answer
	sends  int       // tokens of a stream that does not end as it should
	bound  bool      // max_tokens is set

	arrived  chan struct{} // closed when the provider has it
	arrivals atomic.Int64
	sent     atomic.Int64 // tokens that the provider has begun to write
	status   int          // that the client got, 0 if it got none
	got      int          // tokens that the client has read
	stopped  bool         // the gateway ended the stream because of a budget
	whole    bool         // the client has all of it
}

// exactPrompt is the tokens of a prompt of n words by the published rules: the
// words, the role, a message's frame of three, and three for the answer's begin.
func exactPrompt(words int) int64 { return int64(words) + 7 }

func randomCall(r *rand.Rand) *exactCall {
	// The first tenants call most, and every second one calls the dear model.
	tenant := min(r.IntN(6), r.IntN(6))
	c := &exactCall{
		tenant: fmt.Sprint("t", tenant), model: []string{"gpt-4o", "gpt-4o-mini"}[tenant%2],
		ending: ending(r.IntN(int(endings))), sends: 1 + r.IntN(30), arrived: make(chan struct{}),
	}
	if r.IntN(2) == 0 {
		c.ending = ending(r.IntN(2)) // as most calls go
	}
	u := llm.Usage{Input: exactPrompt(1 + r.IntN(40)), Output: 1 + r.Int64N(60)}
	u.Cached, u.Reasoning = r.Int64N(u.Input+1), r.Int64N(u.Output+1)
	c.bound = !c.ending.streams() || r.IntN(4) > 0
	if !c.bound && r.IntN(8) == 0 {
		u.Output = 800 // far beyond what is expected, so that it is this one that a budget ends in
	}
	c.usage = u
	return c
}

func (c *exactCall) body(i int) string {
	words := "hello" + strings.Repeat(" hello", int(c.usage.Input-exactPrompt(1)))
	more := ""
	if c.bound {
		more = fmt.Sprintf(`,"max_tokens":%d`, max(c.usage.Output, int64(c.sends)))
	}
	if c.ending.streams() {
		more += `,"stream":true,"stream_options":{"include_usage":true}`
	}
	return fmt.Sprintf(`{"model":%q,"user":"%d","messages":[{"role":"user","content":%q}]%s}`, c.model, i, words, more)
}

// exactProvider is a provider that does what the calls say.
type exactProvider []*exactCall

func (p exactProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask struct{ User string }
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		return // the client has left
	}
	_, _ = io.Copy(io.Discard, r.Body) // net/http then notices when the client leaves
	i, _ := strconv.Atoi(ask.User)
	c := p[i]
	if c.arrivals.Add(1) == 1 {
		close(c.arrived)
	}
	if !c.ending.streams() {
		c.answer(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	n := c.sends
	if c.ending == wholeStream {
		n = int(c.usage.Output)
	} else if c.ending == leftFlowing {
		n = 1000
	}
	for range n {
		c.sent.Add(1)
		if _, err := io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":" hi"},"finish_reason":null}]}`+"\n\n"); err != nil || r.Context().Err() != nil {
			return
		}
		if c.ending == leftFlowing {
			_ = http.NewResponseController(w).Flush()
		}
	}
	_ = http.NewResponseController(w).Flush()
	switch c.ending {
	case wholeStream:
		_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":%s}\n\ndata: [DONE]\n\n", exactUsage(c.usage))
	case brokenStream:
		panic(http.ErrAbortHandler)
	case failedStream:
		_, _ = io.WriteString(w, `data: {"error":{"message":"Oh.","type":"server_error","code":null}}`+"\n\n")
	default:
		<-r.Context().Done()
	}
}

// answer answers in one piece, if at all.
func (c *exactCall) answer(w http.ResponseWriter, r *http.Request) {
	switch c.ending {
	case refusal:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader([]int{400, 429, 500, 503}[c.sends%4])
		_, _ = io.WriteString(w, `{"error":{"message":"No.","type":"server_error","code":null}}`)
		return
	case noAnswer:
		panic(http.ErrAbortHandler)
	case leftUnheard:
		<-r.Context().Done()
		return
	case leftAnyTime:
		time.Sleep(time.Duration(c.sends) * 50 * time.Microsecond)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":%s}`, exactUsage(c.usage))
}

func exactUsage(u llm.Usage) string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d},"completion_tokens_details":{"reasoning_tokens":%d}}`,
		u.Input, u.Output, u.Input+u.Output, u.Cached, u.Reasoning)
}

// call makes the call as its client.
func (c *exactCall) call(g *Gateway, i int) {
	ctx, leave := context.WithCancel(g.t.Context())
	defer leave()
	switch c.ending {
	case leftUnheard:
		go func() {
			select {
			case <-c.arrived:
				leave()
			case <-ctx.Done(): // it was refused
			}
		}()
	case leftAnyTime:
		defer time.AfterFunc(time.Duration(c.usage.Output)*50*time.Microsecond, leave).Stop()
	}
	r := g.request("POST", chatPath, strings.NewReader(c.body(i)), "Authorization", "Bearer sk-exact-"+c.tenant, "X-Request-Id", fmt.Sprint("exact-", i))
	res, err := g.Client.Do(r.WithContext(ctx))
	if err != nil {
		return
	}
	defer res.Body.Close()
	c.status = res.StatusCode
	if !c.ending.streams() || c.status != http.StatusOK {
		_, err = io.Copy(io.Discard, res.Body)
		c.whole = err == nil
		return
	}
	c.read(&live{Response: res, r: bufio.NewReader(res.Body)})
}

// read reads a stream, or as much of it as the client wants.
func (c *exactCall) read(l *live) {
	for c.ending != leftStream && c.ending != leftFlowing || c.got < c.sends {
		data, err := l.next()
		switch {
		case err != nil:
			return
		case data == "[DONE]":
			c.whole = true
		case strings.Contains(data, `"content":" hi"`):
			c.got++
		case strings.Contains(data, `"finish_reason":"length"`):
			c.stopped = true
		}
	}
}

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
	if raced {
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
