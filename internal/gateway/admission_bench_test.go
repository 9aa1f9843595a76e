package gateway

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/headgate-ai/headgate/internal/authn"
	"github.com/headgate-ai/headgate/internal/edge"
	"github.com/headgate-ai/headgate/internal/fleet"
	"github.com/headgate-ai/headgate/internal/journal"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/quota/limittest"
	"github.com/headgate-ai/headgate/internal/route"
	"github.com/headgate-ai/headgate/internal/setting"
)

// BenchmarkAdmission is all that admission does for a request, of a caller that
// has been seen before: who it is, what it may take, the headers that tell it,
// and the settlement. The prompt is counted and the ledger kept elsewhere.
func BenchmarkAdmission(b *testing.B) {
	for _, callers := range []int{1, 1000} {
		b.Run(fmt.Sprint(callers, " callers"), func(b *testing.B) {
			d := newDesk(b)
			secrets := make([]string, callers)
			for i := range secrets {
				secrets[i] = d.token(b, i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				d.admit(b, secrets[i%callers])
			}
		})
	}
}

// desk is a gateway's admission without the gateway around it.
type desk struct {
	g      *Gateway
	x      *edge.Exchange
	call   *llm.Call
	choice *route.Choice
	head   head
}

// head takes lines as the loop for inference calls does: into a buffer.
type head []byte

func (h *head) PutLines(lines []byte, _ int) { *h = append(*h, lines...) }
func (*head) Put(string, string)             {}
func (*head) PutBytes(string, []byte)        {}

const (
	deskSecret = "a-secret-of-more-than-thirty-two-bytes"
	deskIssuer = "https://issuer.example"
)

func newDesk(b *testing.B) *desk {
	var p setting.Problems
	d := &desk{
		g:      &Gateway{Authn: authn.New(), Quota: quota.New()},
		call:   &llm.Call{Dialect: llm.OpenAI, Op: llm.Chat, Length: 1200, Envelope: llm.Envelope{Model: "gpt-4", MaxTokens: 200}},
		choice: &route.Choice{Model: "gpt-4", Legs: []fleet.Leg{{Provider: "openai", Model: "gpt-4", Weight: 1}}},
	}
	s := &Snapshot{Edge: new(edge.Default()).Compile(), Prices: limittest.Prices(b, "2.5")}
	s.Authn, _ = (&authn.Config{JWT: []authn.JWTConfig{{Issuer: deskIssuer, Audience: "headgate", Secret: setting.NewSecret("literal:" + deskSecret)}}}).Compile(&p)
	wide := quota.RateConfig{Rate: limittest.Rate(b, "1000000000/s")}
	with := func(algorithm string) quota.RateConfig {
		return quota.RateConfig{Rate: wide.Rate, Algorithm: algorithm}
	}
	c := &quota.Config{
		Rules: []quota.RuleConfig{
			{Name: "key-rate", Per: []string{"key"}, Requests: with("gcra")},
			{Name: "tenant-tokens", Per: []string{"tenant"}, Tokens: quota.TokensConfig{RateConfig: with("bucket")}},
			{Name: "key-window", Per: []string{"key"}, Requests: with("window")},
			{Name: "key-places", Per: []string{"key"}, Concurrent: 1000},
			{Name: "gpt-4", When: `request.model.startsWith("gpt-4")`, Per: []string{"tenant", "model"}, Tokens: quota.TokensConfig{RateConfig: wide}},
		},
		Budgets: []quota.BudgetConfig{{Name: "month", Per: []string{"tenant"}, Limit: quota.AmountConfig{USD: 1e9 * llm.USD}, Period: "month"}},
	}
	c.Validate("quota", &p)
	s.Quota = d.g.Quota.Compile(c, &p)
	if len(p) > 0 {
		b.Fatal(p)
	}
	d.g.Adopt(s)
	r, _ := http.NewRequest(http.MethodPost, "http://gateway/v1/chat/completions", nil)
	r.RemoteAddr = "192.0.2.1:4711"
	var err error
	if d.x, err = edge.Open(&s.Edge, quiet{}, r); err != nil {
		b.Fatal(err)
	}
	return d
}

// quiet takes no answer.
type quiet struct{ http.ResponseWriter }

func (quiet) Header() http.Header { return nil }

// token is that of one of many callers, each of a tenant of its own.
func (d *desk) token(b *testing.B, i int) string {
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": deskIssuer, "aud": "headgate", "sub": fmt.Sprintf("user-%04d", i), "tenant": fmt.Sprintf("tenant-%04d", i),
		"roles": []string{"developer", "reader"}, "exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString([]byte(deskSecret))
	if err != nil {
		b.Fatal(err)
	}
	return signed
}

// admit does for one call what serve does, in the same order.
func (d *desk) admit(b *testing.B, secret string) {
	snap, rec := d.g.Snapshot(), &journal.Record{Start: time.Now(), Client: "192.0.2.1"}
	who, err := d.g.Authn.Identify(&snap.Authn, secret, false, llm.Chat, rec.Start)
	if err != nil {
		b.Fatal(err)
	}
	asked := passages.Get().(*passage)
	facts := d.g.facts(&asked.facts, snap, d.x, who, d.call, d.call.Model, rec.Start)
	a := &asked.account
	*a = account{g: d.g, snap: snap, x: d.x, rec: rec, who: who, call: d.call, choice: d.choice, asked: asked, facts: facts}
	if err := a.reserve(); err != nil {
		b.Fatal(err)
	}
	a.tried(d.choice.Legs[0], true)
	d.head = d.head[:0]
	d.x.Values().PutInto(&d.head)
	a.close(llm.Usage{Input: 300, Output: 100}, nil)
	asked.forget()
	d.x.Close()
}
