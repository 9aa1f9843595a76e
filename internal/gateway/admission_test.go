package gateway_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/headgate-ai/headgate/internal/authn"
	"github.com/headgate-ai/headgate/internal/gateway"
	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/quota/limittest"
	"github.com/headgate-ai/headgate/internal/setting"
	"github.com/headgate-ai/headgate/internal/store/sqlite"
	"github.com/headgate-ai/headgate/lab/race"
)

const (
	jwtSecret = "a-secret-of-more-than-thirty-two-bytes"
	issuer    = "https://issuer.example"
)

// limited puts five rules and a budget on a gateway, and lets tokens in.
func limited(t testing.TB, g *gateway.Gateway) {
	t.Helper()
	var p setting.Problems
	s := *g.Snapshot()
	keys := &authn.Config{JWT: []authn.JWTConfig{{Issuer: issuer, Audience: "headgate", Secret: setting.NewSecret("literal:" + jwtSecret)}}}
	keys.Validate(&p)
	s.Authn, _ = keys.Compile(&p)
	wide := quota.RateConfig{Rate: limittest.Rate(t, "1000000000/s")}
	c := &quota.Config{
		Rules: []quota.RuleConfig{
			{Name: "model-tokens", When: `request.path == "/v1/chat/completions" && request.model == "chat"`, Per: []string{"tenant"}, Tokens: quota.TokensConfig{RateConfig: wide}},
			{Name: "key-requests", Per: []string{"key"}, Requests: quota.RateConfig{Rate: wide.Rate, Algorithm: "window"}},
			{Name: "key-concurrency", Per: []string{"key"}, Concurrent: 1000},
			{Name: "user-output", When: `principal.tenant in ["acme", "other"]`, Per: []string{"user"}, OutputTokens: wide},
			{Name: "trial", Per: []string{"ip"}, Requests: quota.RateConfig{Rate: limittest.Rate(t, "1/h")}, Shadow: true},
		},
		Budgets: []quota.BudgetConfig{{Name: "month", When: `principal.tenant == "acme"`, Per: []string{"tenant"}, Limit: quota.AmountConfig{USD: 1e9 * llm.USD}, Period: "month"}},
	}
	c.Validate("quota", &p)
	s.Quota = g.Quota.Compile(c, &p)
	if len(p) > 0 {
		t.Fatal(p)
	}
	s.Prices = limittest.Prices(t, "2.5")
	g.Adopt(&s)
}

// token is one that the limited gateway takes.
func token(t testing.TB) string {
	t.Helper()
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": issuer, "aud": "headgate", "sub": "ann", "tenant": "acme", "exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString([]byte(jwtSecret))
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func newLimited(t testing.TB) *exchange {
	g := build(t, provider(t, unary()))
	limited(t, g)
	e := newExchange(g, askUnary)
	e.req.Header.Set("Authorization", "Bearer "+token(t))
	e.serve()
	if e.w.status != http.StatusOK || !e.w.limited {
		t.Fatalf("status %d, %v", e.w.status, e.w.header)
	}
	return e
}

// Five rules, a budget and a token may add so much to what a request allocates,
// and its entry in the ledger so much on top.
func TestAdmissionAllocates(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	objects, bytes := perRequest(newExchange(build(t, provider(t, unary())), askUnary))
	more := func(what string, e *exchange, mostObjects, mostBytes uint64) {
		withObjects, withBytes := perRequest(e)
		t.Logf("%s: %d objects and %d bytes more, on top of %d and %d", what, withObjects-objects, withBytes-bytes, objects, bytes)
		if withObjects > objects+mostObjects || withBytes > bytes+mostBytes {
			t.Errorf("%s: %d objects and %d bytes a request, the budget is %d and %d more than %d and %d", what, withObjects, withBytes, mostObjects, mostBytes, objects, bytes)
		}
	}
	limited := newLimited(t)
	more("limits", limited, 2, 640)
	store, err := sqlite.Open(filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	c := ledger.Default()
	c.Kind, c.Path = ledger.KindSQLite, filepath.Join(t.TempDir(), "ledger.db")
	if limited.g.Ledger, err = ledger.Open(t.Context(), ledger.Options{Config: c, Store: store}); err != nil {
		t.Fatal(err)
	}
	limited.serve()
	more("limits and a ledger", limited, 4, 704)
	sum, err := limited.g.Ledger.Sum(t.Context(), ledger.Query{})
	if err != nil || sum.Requests < 1000 {
		t.Errorf("the ledger has %d requests, %v", sum.Requests, err)
	}
	if err := limited.g.Ledger.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func BenchmarkServeLimited(b *testing.B) {
	e := newLimited(b)
	b.ReportAllocs()
	for b.Loop() {
		e.serve()
	}
}

// A budget at its end that says so shortens the prompt: the latest turns stay.
func TestBudgetShortensThePrompt(t *testing.T) {
	g := build(t, provider(t, unary()))
	var p setting.Problems
	s := *g.Snapshot()
	c := &quota.Config{Budgets: []quota.BudgetConfig{{Name: "b", Per: []string{"key"}, Limit: quota.AmountConfig{Tokens: 600}, Period: "day", Exhausted: "trim"}}}
	c.Validate("quota", &p)
	s.Quota = g.Quota.Compile(c, &p)
	if len(p) > 0 {
		t.Fatal(p)
	}
	g.Adopt(&s)
	var b strings.Builder
	b.WriteString(`{"model":"chat","max_tokens":100,"messages":[{"role":"system","content":"be brief"}`)
	for i := range 20 {
		fmt.Fprintf(&b, `,{"role":"user","content":"question %d about %s"},{"role":"assistant","content":"answer %d"}`, i, strings.Repeat("the weather of today and tomorrow ", 8), i)
	}
	b.WriteString(`,{"role":"user","content":"and the last one?"}]}`)
	e := newExchange(g, b.String())
	e.serve()
	if e.w.status != http.StatusOK || e.w.header.Get("X-Degraded") != "prompt" || !strings.HasPrefix(e.w.header.Get("X-Trimmed"), "from=") {
		t.Errorf("status %d, %v", e.w.status, e.w.header)
	}
}
