package upstream

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
	"github.com/headgate-ai/headgate/internal/wire/allowance"
)

// answered is an answer to a call of a model, with so many requests left.
func answered(p *Provider, credential int, model, left string) {
	q := Request{Model: model, account: p.keyless}
	if credential > 0 {
		q.account = p.credentials[credential-1].account
	}
	r := Reply{Response: &http.Response{StatusCode: 200, Header: http.Header{"X-Ratelimit-Remaining-Requests": {left}}}}
	r.learn(&q)
}

// What providers tell is kept by credential and model, and outlasts a reload as
// long as the credential is used, wherever it then stands.
func TestAllowances(t *testing.T) {
	room := New()
	t.Cleanup(room.Close)
	load := func(secrets ...string) *Plan {
		var p setting.Problems
		plan, _ := room.Compile([]ProviderConfig{provider("o", llm.OpenAI, "https://host/v1", secrets...)}, &p)
		room.Keep(&plan)
		return &plan
	}
	told := func(p *Plan) (all string) {
		for _, a := range p.Provider("o").Allowances(time.Now()) {
			all += fmt.Sprint(a.Credential, " ", a.Model, " ", a.Limits[allowance.Requests].Remaining, "\n")
		}
		return all
	}
	first := load("one", "two").Provider("o")
	answered(first, 2, "b", "7")
	answered(first, 1, "b", "5")
	answered(first, 1, "a", "4")
	answered(first, 1, "a", "3")
	if got, want := told(load("one", "two")), "1 a 3\n1 b 5\n2 b 7\n"; got != want {
		t.Errorf("%s", got)
	}
	if got, want := told(load("two")), "1 b 7\n"; got != want {
		t.Errorf("%s", got)
	}
	if got := told(load("one")); got != "" || len(room.accounts) != 2 {
		t.Errorf("%s, %d accounts", got, len(room.accounts))
	}
	keyless := load()
	answered(keyless.Provider("o"), 0, "a", "1")
	if got, want := told(keyless), "0 a 1\n"; got != want {
		t.Errorf("%s", got)
	}
}

// A client that makes up names of models does not make the gateway keep them.
func TestAllowancesAreBounded(t *testing.T) {
	p := compile(t, provider("o", llm.OpenAI, "https://host/v1")).Provider("o")
	for i := range 3 * mostModels {
		answered(p, 0, fmt.Sprint("m", i), "1")
	}
	all := p.Allowances(time.Now())
	if len(all) != mostModels+1 || all[0].Model != otherModels {
		t.Errorf("%d models, the first %s", len(all), all[0].Model)
	}
}

// An answer that tells of limits costs no allocation but for the first.
func TestLearnAllocatesNothing(t *testing.T) {
	p := compile(t, provider("o", llm.OpenAI, "https://host/v1")).Provider("o")
	q := Request{Model: "m", account: p.keyless}
	r := Reply{Response: &http.Response{StatusCode: 200, Header: http.Header{
		"X-Ratelimit-Limit-Requests": {"60"}, "X-Ratelimit-Remaining-Requests": {"59"}, "X-Ratelimit-Reset-Requests": {"1s"}, "Content-Type": {"a"},
	}}}
	if n := testing.AllocsPerRun(100, func() { r.learn(&q) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLearn(b *testing.B) {
	room := New()
	a := room.account("o", "")
	q := Request{Model: "m", account: a}
	h := http.Header{"Content-Type": {"application/json"}, "Date": {"x"}, "Openai-Processing-Ms": {"5"}, "X-Request-Id": {"x"}, "Server": {"x"}, "Content-Length": {"5"}}
	for _, limits := range []bool{false, true} {
		b.Run(fmt.Sprint("limits=", limits), func(b *testing.B) {
			if limits {
				for _, unit := range []string{"Requests", "Tokens"} {
					h["X-Ratelimit-Limit-"+unit], h["X-Ratelimit-Remaining-"+unit], h["X-Ratelimit-Reset-"+unit] = []string{"60"}, []string{"59"}, []string{"1s"}
				}
			}
			r := Reply{Response: &http.Response{StatusCode: 200, Header: h}}
			for b.Loop() {
				r.learn(&q)
			}
		})
	}
}
