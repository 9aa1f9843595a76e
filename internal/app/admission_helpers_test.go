package app_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/store/sqlite"
)

// stand is one limit as GET /v1/status/rate-limit shows it.
type stand struct {
	Rule, Dimension  string
	Limit, Remaining float64
	Reset, Window    int64
	Budget           bool
}

// stands is how a caller stands against the limits of a model's calls, by rule
// and dimension.
func (g *Gateway) stands(model string, headers ...string) map[string]stand {
	g.t.Helper()
	a := g.get("/v1/status/rate-limit?model="+url.QueryEscape(model), headers...)
	var status struct{ Limits []stand }
	if err := json.Unmarshal(a.Bytes, &status); a.StatusCode != 200 || err != nil {
		g.t.Fatalf("%d %s %v", a.StatusCode, a.Bytes, err)
	}
	all := map[string]stand{}
	for _, s := range status.Limits {
		all[s.Rule+"/"+s.Dimension] = s
	}
	return all
}

// used is how much of a limit has been used.
func (g *Gateway) used(model, limit string) float64 {
	g.t.Helper()
	s, ok := g.stands(model)[limit]
	if !ok {
		g.t.Fatalf("the status of %s does not show %s", model, limit)
	}
	return s.Limit - s.Remaining
}

// settled waits until so much of a limit has been used: a call is settled
// before its last byte, but a client that left does not see when.
func (g *Gateway) settled(model, limit string, want float64) {
	g.t.Helper()
	var got float64
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if got = g.used(model, limit); got == want {
			return
		}
		if time.Now().After(end) {
			g.t.Fatalf("%v of %s have been used, want %v", got, limit, want)
		}
	}
}

// number is a header that must be a whole number.
func (a answer) number(t testing.TB, header string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(a.Header.Get(header), 10, 64)
	if err != nil {
		t.Errorf("%d has the header %s: %q", a.StatusCode, header, a.Header.Get(header))
	}
	return n
}

// limited is a refusal's code; it fails the test if the answer is none.
func (a answer) limited(t testing.TB) string {
	t.Helper()
	if a.StatusCode != 429 {
		t.Fatalf("%d %.300s, want 429", a.StatusCode, a.Bytes)
	}
	code, _ := within(a.JSON(t), "error", "code").(string)
	return code
}

// tokensOf is what an answer's usage says, in all.
func tokensOf(t testing.TB, a answer) float64 {
	t.Helper()
	m := a.JSON(t)
	if n, ok := within(m, "usage", "total_tokens").(float64); ok {
		return n
	}
	in, ok := within(m, "usage", "input_tokens").(float64)
	out, ok2 := within(m, "usage", "output_tokens").(float64)
	if a.StatusCode != 200 || !ok || !ok2 {
		t.Fatalf("%d without usage: %.300s", a.StatusCode, a.Bytes)
	}
	return in + out
}

// chatOf is the body of a call of a model with more fields, each with a comma
// before it.
func chatOf(model, more string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}]%s}`, model, more)
}

// entries are what a ledger holds whose gateway has ended.
func entries(t testing.TB, path string) (all []ledger.Entry, balances []ledger.Balance) {
	t.Helper()
	store, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err = store.Each(ctx, ledger.Query{}, func(e ledger.Entry) error { all = append(all, e); return nil }); err != nil {
		t.Fatal(err)
	}
	if balances, err = store.Balances(ctx, 0); err != nil {
		t.Fatal(err)
	}
	return all, balances
}

// ledgerAt is the setting of a ledger in the test's own folder, and its path.
func ledgerAt(t testing.TB) (yaml, path string) {
	path = filepath.Join(t.TempDir(), "ledger.db")
	return "ledger: {kind: sqlite, path: " + strconv.Quote(path) + "}\n", path
}

// The issuer of the tests' tokens.
const (
	jwtSecret = "caserunner-hs256-secret-for-tests-only"
	jwtYAML   = `jwt:
  - {name: sso, issuer: "https://issuer.example", audience: llm-gateway, secret: "literal:` + jwtSecret + `", algorithms: [HS256], leeway: 1s}
`
)

// jwtOf is a signed token; claims replace the good ones, nil takes one out.
func jwtOf(alg string, claims map[string]any) string {
	all := map[string]any{
		"iss": "https://issuer.example", "aud": "llm-gateway", "sub": "alice", "tenant": "acme",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	for name, v := range claims {
		if all[name] = v; v == nil {
			delete(all, name)
		}
	}
	payload, _ := json.Marshal(all)
	enc := base64.RawURLEncoding
	text := enc.EncodeToString([]byte(`{"alg":"`+alg+`","typ":"JWT"}`)) + "." + enc.EncodeToString(payload)
	if strings.EqualFold(alg, "none") {
		return text + "."
	}
	mac := hmac.New(sha256.New, []byte(jwtSecret))
	mac.Write([]byte(text))
	return text + "." + enc.EncodeToString(mac.Sum(nil))
}
