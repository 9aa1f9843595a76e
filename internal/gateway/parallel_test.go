package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/gateway"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/quota/limittest"
	"github.com/headgate-ai/headgate/internal/route"
	"github.com/headgate-ai/headgate/internal/setting"
)

// What a provider reports of each call in the test below, but that prompts differ
// from it by as much as a tenth. The vocabulary of its model is not public, so
// that the gateway has to estimate them.
const (
	toldModel  = "claude-sonnet-4-5"
	toldInput  = 900
	toldOutput = 100
)

// telling is a provider that reports that. While hold is not nil, answers wait
// for it to be closed.
type telling struct {
	hold          chan struct{}
	arrived, told atomic.Int64 // calls and their tokens
}

func (p *telling) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	input := toldInput*9/10 + p.arrived.Add(1)*37%(toldInput/5+1)
	p.told.Add(input + toldOutput)
	if p.hold != nil {
		<-p.hold
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`,
		input, toldOutput, input+toldOutput)
}

// adopt gives a gateway other limits.
func adopt(t testing.TB, g *gateway.Gateway, c quota.Config) {
	t.Helper()
	var p setting.Problems
	s := *g.Snapshot()
	c.Validate("quota", &p)
	s.Quota = g.Quota.Compile(&c, &p)
	s.Route = (&route.Config{Providers: []string{"up"}, Models: []route.ModelConfig{{Name: "chat", Targets: []route.TargetConfig{{Provider: "up", Model: toldModel, Weight: 1}}}}}).Compile()
	if len(p) > 0 {
		t.Fatal(p)
	}
	g.Adopt(&s)
}

// A thousand calls at once without max_tokens, and a budget for a hundred: as
// many get in as the estimates allow. The prompts' are off by what the gateway
// itself publishes as headgate_token_count_error_ratio; the answers', whose
// lengths have been learnt, by the twentieth that the learning moves by.
func TestParallelWithoutABound(t *testing.T) {
	const calls, room, learning = 1000, 100, 900
	provider := new(telling)
	server := httptest.NewServer(provider)
	t.Cleanup(server.Close)
	g := build(t, server.URL+"/v1")
	ask := fmt.Sprintf(`{"model":"chat","messages":[{"role":"user","content":%q}]}`, strings.Repeat("How much water goes through the gate of the canal in a day? ", 50))
	adopt(t, g, quota.Config{Rules: []quota.RuleConfig{{Name: "wide", Tokens: quota.TokensConfig{RateConfig: quota.RateConfig{Rate: limittest.Rate(t, "1000000000/s")}}}}})
	for e := range learning {
		x := newExchange(g, ask)
		if x.serve(); x.w.status != http.StatusOK {
			t.Fatalf("call %d: status %d", e, x.w.status)
		}
	}
	off := 0.05
	for family, e := range g.CountErrors() {
		t.Logf("counts of prompts of %s are off by %.1f %%", family, 100*e)
		off += e
	}
	if off > 0.25 {
		t.Fatalf("the estimates are off by %v", off)
	}

	const limit = room * (toldInput + toldOutput)
	adopt(t, g, quota.Config{Budgets: []quota.BudgetConfig{{Name: "b", Per: []string{"key"}, Limit: quota.AmountConfig{Tokens: limit}, Period: "none"}}})
	provider.hold = make(chan struct{})
	provider.arrived.Store(0)
	provider.told.Store(0)
	var decided, passed, others atomic.Int64
	answer := sync.OnceFunc(func() { close(provider.hold) })
	defer answer()
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			x := newExchange(g, ask)
			x.serve()
			switch x.w.status {
			case http.StatusOK:
				passed.Add(1)
			case http.StatusTooManyRequests:
				decided.Add(1)
			default:
				others.Add(1)
			}
		})
	}
	// Nobody is answered before all have been decided on.
	await(t, func() bool { return decided.Load()+others.Load()+provider.arrived.Load() >= calls })
	answer()
	wg.Wait()
	n := float64(passed.Load())
	if t.Logf("%v of %d were let in", n, calls); n > room*(1+off)+1 || n < room*(1-off)-1 || others.Load() > 0 {
		t.Errorf("%v were let in and %d failed; the budget is for %d, the estimates are off by %.3f", n, others.Load(), room, off)
	}
	used := int64(0)
	for _, top := range g.Quota.Top(&g.Snapshot().Quota, 1, time.Now()) {
		used = top.Used
	}
	if want := min(limit, provider.told.Load()); used != want {
		t.Errorf("%d tokens of the budget are used, want %d", used, want)
	}
}

// await waits for something that other goroutines bring about.
func await(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come about")
		}
	}
}
