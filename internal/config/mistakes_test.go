package config_test

import (
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/config"
	"github.com/headgate-ai/headgate/internal/config/source"
)

// What does not decode and what decodes but makes no sense are reported
// together, in the order of the document, and nothing twice.
func TestEveryMistakeAtOnce(t *testing.T) {
	const doc = `server:
  api: {listen: 8080, max_boddy: 3}
providers:
  - {name: a, dialect: opnai, base_url: "http://127.0.0.1:1"}
models:
  - name: chat
    targets: [{provider: b}]
keys:
  - {name: k, secret: sk-live-123456}
`
	_, mistakes := config.Load(source.NewDocument("f.yaml", []byte(doc)))
	want := []string{
		`f.yaml:2:17: server.api.listen: "8080" is not an address`,
		`f.yaml:2:23: server.api.max_boddy: unknown field "max_boddy"; did you mean "max_body"?`,
		`f.yaml:4:24: providers[0].dialect: unknown dialect "opnai"`,
		`f.yaml:7:26: models[0].targets[0].provider: unknown provider "b"`,
		`f.yaml:9:23: keys[0].secret: not a reference to a secret`,
	}
	if len(mistakes) != len(want) {
		t.Fatalf("%d mistakes, want %d:\n%v", len(mistakes), len(want), mistakes)
	}
	for i, m := range mistakes {
		if !strings.HasPrefix(m.String(), want[i]) {
			t.Errorf("mistake %d is\n%s\nwant\n%s", i, m, want[i])
		}
		if strings.Contains(m.String(), "sk-live") {
			t.Errorf("a secret is repeated: %s", m)
		}
	}
}

// What a budget would never do, or do all the time, is a mistake; the contract's
// soft limit of tokens on a budget of money is none.
func TestMistakesOfBudgets(t *testing.T) {
	const doc = `providers: [{name: sim, dialect: simulator}]
models: [{name: chat, targets: [{provider: sim, model: sim-small}]}]
keys: [{name: k, secret: "literal:sk-1234"}]
prices: [{model: "*", input: 1, output: 2}]
quota:
  topup_url: billing
  budgets:
  - {name: a, limit: {usd: 5}, soft: {usd: 6}, period: day, exhausted: "degrade: model:chta"}
  - {name: b, limit: {tokens: 5}, soft: {tokens: 6}, period: day, exhausted: "degrade: model:sim/sim-small"}
  - {name: c, limit: {tokens: 5}, soft: {usd: 1}, period: day, exhausted: "degrade: model:chat"}
  - {name: d, limit: {usd: 500}, soft: {tokens: 500}, period: month, topup_url: "https://billing.example/d"}
  - {name: e, limit: {usd: 5}, soft: {tokens: -500}, period: month}
`
	_, mistakes := config.Load(source.NewDocument("f.yaml", []byte(doc)))
	want := []string{
		`quota.topup_url: "billing" is not the address of a page; write one`,
		`quota.budgets[0].soft.usd: 6 USD is more than the limit of 5 USD`,
		`quota.budgets[0].exhausted: there is no model "chta" to call instead; write one`,
		`quota.budgets[1].soft.tokens: 6 is more than the limit of 5`,
		`quota.budgets[2].soft.usd: the budget has no limit in dollars`,
		`quota.budgets[4].soft.tokens: -500 is less than nothing; write`,
	}
	if len(mistakes) != len(want) {
		t.Fatalf("%d mistakes, want %d:\n%v", len(mistakes), len(want), mistakes)
	}
	for i, m := range mistakes {
		if !strings.Contains(m.String(), want[i]) {
			t.Errorf("mistake %d is\n%s\nwant\n%s", i, m, want[i])
		}
	}
}
