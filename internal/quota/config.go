package quota

import (
	"net/url"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/condition"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
)

// Config is how much calls may use.
type Config struct {
	// Rules are limits on rates and on what is under way at once.
	Rules []RuleConfig `yaml:"rules"`
	// Budgets are amounts of tokens or money for a period of the calendar.
	Budgets []BudgetConfig `yaml:"budgets"`
	// TopUpURL is the page where clients can raise a budget; a refusal for a
	// budget names it.
	TopUpURL string `yaml:"topup_url"`
	// Store is where the counts are kept.
	Store StoreConfig `yaml:"store"`
	// Tiers are how many calls a principal of each tier may have under way.
	Tiers map[string]int64 `yaml:"-"`
}

// RuleConfig is one rule: whom it concerns, by what it is kept, and its limits.
type RuleConfig struct {
	// Name is how the rule is called in answers, records and metrics.
	Name string `yaml:"name"`
	// When is a condition in CEL that says which calls the rule concerns, such
	// as request.model == "gpt-4"; all when absent.
	When string `yaml:"when"`
	// Per is what the limits are kept by: key, tenant, user, model, provider,
	// region, ip, or claim:NAME; one count for all calls when absent. By key, user
	// and claim:NAME each tenant has counts of its own.
	Per []string `yaml:"per"`
	// Requests limits how many calls are made.
	Requests RateConfig `yaml:"requests"`
	// Tokens limits the tokens of prompts and answers together.
	Tokens TokensConfig `yaml:"tokens"`
	// InputTokens limits the tokens of prompts.
	InputTokens RateConfig `yaml:"input_tokens"`
	// OutputTokens limits the tokens of answers.
	OutputTokens RateConfig `yaml:"output_tokens"`
	// Concurrent limits the calls that are under way at once.
	Concurrent int64 `yaml:"concurrent"`
	// Shadow counts and reports what the rule would refuse, and refuses nothing.
	Shadow bool `yaml:"shadow"`
	// Adapt moves the limit on requests with the state of what it protects.
	Adapt AdaptConfig `yaml:"adapt"`
	// Profiles are limits on requests for versions of a model or a service; the
	// first that fits takes the place of requests and adapt.
	Profiles []ProfileConfig `yaml:"profiles"`
	// Profile names the one that holds whatever a provider says of itself.
	Profile string `yaml:"profile"`
	// Watch is the provider whose state adapt and profiles go by; all of them
	// together when absent.
	Watch string `yaml:"watch"`
}

// RateConfig is a limit on a rate.
type RateConfig struct {
	// Rate is so many in a period: 100/s, 600/min, 10000/h, 1000000/day.
	Rate setting.Rate `yaml:"rate"`
	// Burst is how many can come at once; default is the rate's number. For the
	// algorithm window it is how many can come in a 63rd of the period.
	Burst int64 `yaml:"burst"`
	// Algorithm is how the rate is kept: gcra, a token bucket that keeps a time;
	// bucket, one that keeps a count; window, never more than the rate in any
	// period; or fixed, a count that begins anew with every period of the clock.
	Algorithm string `yaml:"algorithm"`
}

// TokensConfig is a limit on tokens.
type TokensConfig struct {
	RateConfig `yaml:",inline"`
	// Weights are how much a token counts by what it is; 1 when absent.
	Weights WeightsConfig `yaml:"weights"`
}

// WeightsConfig is how much a token counts.
type WeightsConfig struct {
	// Input is for tokens of the prompt.
	Input *float64 `yaml:"input"`
	// Cached is for those that the provider read from its cache; default is as
	// Input.
	Cached *float64 `yaml:"cached"`
	// Output is for tokens of the answer.
	Output *float64 `yaml:"output"`
	// Reasoning is for those that the model thought and did not say; default is
	// as Output.
	Reasoning *float64 `yaml:"reasoning"`
}

// BudgetConfig is one budget.
type BudgetConfig struct {
	// Name is how the budget is called in answers, records and metrics.
	Name string `yaml:"name"`
	// When is a condition in CEL that says which calls the budget pays for; all
	// when absent.
	When string `yaml:"when"`
	// Per is for whom a budget is kept: key, tenant, user, model, provider; one
	// for all calls when absent. By key and user each tenant has budgets of its own.
	Per []string `yaml:"per"`
	// Limit is the amount, in money, tokens or both.
	Limit AmountConfig `yaml:"limit"`
	// Period is when the amount is there anew: minute, hour, day, week (from
	// Monday), month, or none for an amount that is there once.
	Period string `yaml:"period"`
	// Timezone is where the periods begin, such as Europe/Berlin; UTC when
	// absent.
	Timezone string `yaml:"timezone"`
	// Soft is what is left when answers begin to carry a warning. Tokens are, where
	// the limit is in money only, so many tokens of an answer at the price of the
	// model that is called.
	Soft AmountConfig `yaml:"soft"`
	// Exhausted is what happens when a call may need more than is left: reject,
	// or degrade: trim shortens the answer to what is left and, where that is not
	// enough, cuts the prompt, too; degrade: model:NAME uses another model.
	Exhausted string `yaml:"exhausted"`
	// TopUpURL is the page where this budget can be raised; default is that of
	// quota.
	TopUpURL string `yaml:"topup_url"`
}

// AmountConfig is an amount of money or tokens.
type AmountConfig struct {
	// USD is dollars.
	USD llm.Money `yaml:"usd"`
	// Tokens is tokens of prompts and answers.
	Tokens int64 `yaml:"tokens"`
}

// Validate notes every mistake. It compiles the conditions to find those in
// them.
func (c *Config) Validate(path string, p *setting.Problems) {
	names := map[string]string{credentialRate: "the rate that a token grants", tierConcurrency: "the bound of a tier"}
	c.Store.validate(path+".store", p)
	for i := range c.Rules {
		c.Rules[i].validate(setting.Index(path+".rules", i), names, p)
		c.Rules[i].validateMoving(setting.Index(path+".rules", i), c.Store.Kind == StoreRedis, p)
	}
	checkURL(path+".topup_url", c.TopUpURL, p)
	for i := range c.Budgets {
		c.Budgets[i].validate(setting.Index(path+".budgets", i), names, p)
	}
}

func checkName(names map[string]string, path, name string, p *setting.Problems) {
	setting.CheckName(p, path+".name", name)
	if other := names[name]; other != "" && name != "" {
		p.Add(path+".name", "%q is already the name of %s; rules and budgets need names of their own", name, other)
	}
	names[name] = path
}

func checkWhen(path, when string, p *setting.Problems) {
	if when == "" {
		return
	}
	if err := condition.Check(when); err != nil {
		p.Add(path+".when", "%v", err)
	}
}

// dims are what limits can be kept by.
var dims = []string{"key", "tenant", "user", "model", "provider", "region", "ip"}

func checkPer(path string, per, known []string, claims bool, p *setting.Problems) {
	seen := map[string]bool{}
	for i, dim := range per {
		at := setting.Index(path+".per", i)
		name, claim := strings.CutPrefix(dim, "claim:")
		switch {
		case seen[dim]:
			p.Add(at, "%q stands here twice", dim)
		case claim && claims && name != "":
		case !contains(known, dim):
			choice := strings.Join(known, ", ")
			if claims {
				choice += ", claim:NAME"
			}
			p.Add(at, "%q is nothing to keep a limit by; write some of %s", dim, choice)
		}
		seen[dim] = true
	}
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

func (r *RuleConfig) validate(path string, names map[string]string, p *setting.Problems) {
	checkName(names, path, r.Name, p)
	checkWhen(path, r.When, p)
	checkPer(path, r.Per, dims, true, p)
	r.Requests.validate(path+".requests", p)
	r.Tokens.validate(path+".tokens", p)
	r.Tokens.Weights.validate(path+".tokens.weights", p)
	r.InputTokens.validate(path+".input_tokens", p)
	r.OutputTokens.validate(path+".output_tokens", p)
	if r.Concurrent < 0 {
		p.Add(path+".concurrent", "%d is less than nothing; write how many calls may be under way at once", r.Concurrent)
	}
	if r.Requests.Rate.IsZero() && r.Tokens.Rate.IsZero() && r.InputTokens.Rate.IsZero() && r.OutputTokens.Rate.IsZero() && r.Concurrent == 0 {
		p.Add(path, "limits nothing; add requests, tokens, input_tokens, output_tokens or concurrent")
	}
}

func (r *RateConfig) validate(path string, p *setting.Problems) {
	if r.Rate.IsZero() {
		if r.Burst != 0 || r.Algorithm != "" {
			p.Add(path+".rate", "is missing; write so many in a period, such as 100/s or 600/min")
		}
		return
	}
	if r.Burst < 0 || r.Burst > setting.MaxCount {
		p.Add(path+".burst", "%d is not a number that can come at once; write one or more, or leave it out", r.Burst)
	}
	if b := r.bound(); b.burst > 0 && float64(b.burst)/float64(b.count)*float64(b.period) > float64(longestFill) {
		p.Add(path+".burst", "%d take more than nine years to come back at %s; write a smaller number", b.burst, r.Rate)
	}
	if _, ok := algorithms[r.Algorithm]; !ok && r.Algorithm != "" {
		p.Add(path+".algorithm", "unknown algorithm %q; known algorithms are gcra, bucket, window, fixed", r.Algorithm)
	}
}

// longestFill keeps times within what fits into 64 bits.
const longestFill = 300_000_000 * time.Second

// mostWeight keeps weighed sums from overflowing.
const mostWeight = 1000

func (w *WeightsConfig) validate(path string, p *setting.Problems) {
	for _, f := range []struct {
		name string
		v    *float64
	}{{"input", w.Input}, {"cached", w.Cached}, {"output", w.Output}, {"reasoning", w.Reasoning}} {
		if f.v != nil && !(*f.v >= 0 && *f.v <= mostWeight) { // NaN is neither
			p.Add(path+"."+f.name, "%v is not a weight; write a number from 0 to %d", *f.v, mostWeight)
		}
	}
}

func (b *BudgetConfig) validate(path string, names map[string]string, p *setting.Problems) {
	checkName(names, path, b.Name, p)
	checkWhen(path, b.When, p)
	checkPer(path, b.Per, dims[:5], false, p)
	if b.Limit.USD <= 0 && b.Limit.Tokens <= 0 {
		p.Add(path+".limit", "is missing; write an amount such as {usd: 500} or {tokens: 1000000}")
	}
	b.Limit.validate(path+".limit", p)
	b.Soft.validate(path+".soft", p)
	b.checkSoft(path+".soft", p)
	if _, ok := periods[b.Period]; !ok {
		p.Add(path+".period", "%q is not a period; write minute, hour, day, week, month or none", b.Period)
	}
	if _, err := time.LoadLocation(b.Timezone); err != nil {
		p.Add(path+".timezone", "%q is not a time zone; write one such as Europe/Berlin, or UTC", b.Timezone)
	}
	if _, err := parseExhausted(b.Exhausted); err != nil {
		p.Add(path+".exhausted", "%v", err)
	}
	checkURL(path+".topup_url", b.TopUpURL, p)
}

// Instead is the model that is called in the place of another when the budget is
// at its end, "" for none.
func (b *BudgetConfig) Instead() string {
	x, _ := parseExhausted(b.Exhausted)
	return x.model
}

func (a AmountConfig) validate(path string, p *setting.Problems) {
	if a.USD < 0 {
		p.Add(path+".usd", "%s is less than nothing; write so many dollars, or leave it out", a.USD)
	}
	if a.Tokens < 0 {
		p.Add(path+".tokens", "%d is less than nothing; write so many tokens, or leave it out", a.Tokens)
	}
}

// checkSoft notes warnings that would always be on, and those that never could.
func (b *BudgetConfig) checkSoft(path string, p *setting.Problems) {
	const advice = "write what is left when the warning shall begin"
	if limit, soft := b.Limit.USD, b.Soft.USD; soft > 0 && limit > 0 && soft > limit {
		p.Add(path+".usd", "%s is more than the limit of %s, so every answer would carry the warning; %s", soft, limit, advice)
	}
	if limit, soft := b.Limit.Tokens, b.Soft.Tokens; soft > 0 && limit > 0 && soft > limit {
		p.Add(path+".tokens", "%d is more than the limit of %d, so every answer would carry the warning; %s", soft, limit, advice)
	}
	if b.Soft.USD > 0 && b.Limit.USD == 0 {
		p.Add(path+".usd", "the budget has no limit in dollars, so the warning would never come; write so many tokens")
	}
}

func checkURL(path, address string, p *setting.Problems) {
	if address == "" {
		return
	}
	if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		p.Add(path, "%q is not the address of a page; write one such as https://billing.example/top-up", address)
	}
}
