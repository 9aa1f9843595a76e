package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/gateway"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/setting"
)

// purse puts a budget of 1000 tokens on a gateway of which some are left.
func purse(t *testing.T, g *gateway.Gateway, left int64, exhausted string) {
	t.Helper()
	var p setting.Problems
	s := *g.Snapshot()
	g.Quota = quota.New()
	c := &quota.Config{
		TopUpURL: "https://billing.example/top-up",
		Budgets: []quota.BudgetConfig{{
			Name: "purse", Limit: quota.AmountConfig{Tokens: 1000}, Soft: quota.AmountConfig{Tokens: 500}, Period: "none", Exhausted: exhausted,
		}},
	}
	c.Validate("quota", &p)
	if s.Quota = g.Quota.Compile(c, &p); len(p) > 0 {
		t.Fatal(p)
	}
	g.Quota.Restore(&s.Quota, "purse/tokens", 0, 1000-left, time.Now())
	g.Adopt(&s)
}

// ask asks for an answer of so many tokens and is told as net/http's clients are.
func ask(g *gateway.Gateway, output int64) *httptest.ResponseRecorder {
	e := newExchange(g, strings.Replace(askUnary, "{", fmt.Sprintf(`{"max_tokens":%d,`, output), 1))
	e.req.Body, e.req.ContentLength = io.NopCloser(strings.NewReader(e.text)), int64(len(e.text))
	w := httptest.NewRecorder()
	g.ServeHTTP(w, e.req)
	return w
}

// refusal is what a client reads in the details of one.
type refusal struct {
	Error struct {
		Code    string
		Details struct {
			Estimated, Remaining int64
			Suggestion           string
			TopUp                string `json:"topup_url"`
		}
	}
}

func refusalOf(t *testing.T, w *httptest.ResponseRecorder) (r refusal) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return r
}

// B15: a call that may need 100 tokens, with a balance above the soft limit,
// below it, and below the call.
func TestBillingPolicy(t *testing.T) {
	g := build(t, provider(t, unary()))
	for _, c := range []struct {
		balance            int64
		exhausted          string
		status             int
		remaining, warning string
		degraded           string
	}{
		{501, "reject", 200, "", "", ""},
		{499, "reject", 200, "399", "low-balance", ""},
		{10, "reject", 429, "10", "low-balance", ""},
		{60, "trim", 200, "0", "low-balance", "max_tokens"},
	} {
		// The estimates learn from the answers; what is refused teaches nothing.
		purse(t, g, 1, "reject")
		prompt := refusalOf(t, ask(g, 900)).Error.Details.Estimated - 900
		purse(t, g, c.balance, c.exhausted)
		w := ask(g, 100-prompt)
		h := w.Header()
		if w.Code != c.status || h.Get("X-Ratelimit-Remaining") != c.remaining || h.Get("X-Billing-Warning") != c.warning || h.Get("X-Degraded") != c.degraded {
			t.Errorf("balance %d: %d %v %s", c.balance, w.Code, h, w.Body)
		}
		if c.remaining != "" && (h.Get("X-Ratelimit-Limit") != "1000" || h.Get("X-Ratelimit-Reset") == "" || h.Get("Ratelimit-Policy") != `"purse/tokens";q=1000;qu="tokens"`) {
			t.Errorf("balance %d: %v", c.balance, h)
		}
		if w.Code == 200 {
			continue
		}
		e := refusalOf(t, w).Error
		if d := e.Details; e.Code != "insufficient_quota" || d.Estimated != 100 || d.Remaining != 10 || d.TopUp != "https://billing.example/top-up" || !strings.Contains(d.Suggestion, d.TopUp) {
			t.Errorf("balance %d: %s", c.balance, w.Body)
		}
	}
}
