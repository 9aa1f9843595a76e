package quota

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/condition"
	"github.com/headgate-ai/headgate/internal/setting"
)

// Plan is the compiled rules. It never changes, but remembers whom they concern.
type Plan struct {
	since   int64 // when it began to hold
	rules   []*rule
	limits  []limit // by id
	matches *matches
	uses    condition.Fields
	counts  bool
	adapts  bool
}

// Empty is whether nothing is limited but by what credentials bring.
func (p *Plan) Empty() bool { return len(p.rules) == 0 }

// Uses is what the rules' conditions read of a call, so that the rest need not
// be found out.
func (p *Plan) Uses() condition.Fields { return p.uses }

// Budgeted is whether there are budgets.
func (p *Plan) Budgeted() bool {
	return slices.ContainsFunc(p.limits, func(l limit) bool { return l.budget != nil })
}

// Counts is whether the tokens of prompts must be known.
func (p *Plan) Counts() bool { return p.counts }

// Compile makes a plan that holds from now on. The configuration has been
// validated.
func (r *Room) Compile(c *Config, p *setting.Problems) Plan {
	plan := Plan{since: r.at(time.Now())}
	for i := range c.Rules {
		r.compileRule(&plan, &c.Rules[i], setting.Index("quota.rules", i), p)
	}
	for i := range c.Budgets {
		r.compileBudget(&plan, &c.Budgets[i], cmp.Or(c.Budgets[i].TopUpURL, c.TopUpURL), setting.Index("quota.budgets", i), p)
	}
	r.addBuiltIn(&plan, c)
	for _, ru := range plan.rules {
		if ru.when != nil {
			plan.uses |= ru.when.Uses()
		}
	}
	for i := range plan.limits {
		plan.adapts = plan.adapts || plan.limits[i].adapts != nil
		switch plan.limits[i].dimension {
		case tokens, inputTokens, money:
			plan.counts = true
		}
	}
	slices.SortFunc(plan.limits, func(a, b limit) int { return cmp.Compare(a.id, b.id) })
	plan.matches = newMatches(plan.limits)
	return plan
}

// apart is what a limit is kept by. Names of keys and users and the values of
// claims are a tenant's own: two tenants whose tokens are of one issuer have keys
// of the same name. So where they are named, the tenant counts with them.
func apart(per []string) []string {
	owned := func(dim string) bool { return dim == "key" || dim == "user" || strings.HasPrefix(dim, "claim:") }
	if slices.Contains(per, "tenant") || !slices.ContainsFunc(per, owned) {
		return per
	}
	return append(slices.Clone(per), "tenant")
}

func compileWhen(when, path string, p *setting.Problems) *condition.Condition {
	if when == "" {
		return nil
	}
	c, err := condition.Compile(when)
	if err != nil {
		p.Add(path+".when", "%v", err)
	}
	return c
}

func (r *Room) compileRule(plan *Plan, c *RuleConfig, path string, p *setting.Problems) {
	ru := &rule{name: c.Name, when: compileWhen(c.When, path, p), per: apart(c.Per), shadow: c.Shadow}
	plan.rules = append(plan.rules, ru)
	for d, rate := range map[dimension]*RateConfig{
		requests: &c.Requests, tokens: &c.Tokens.RateConfig, inputTokens: &c.InputTokens, outputTokens: &c.OutputTokens,
	} {
		if !rate.Rate.IsZero() {
			r.add(plan, limit{rule: ru, dimension: d, bound: rate.bound()})
		}
	}
	for i := range plan.limits {
		switch l := &plan.limits[i]; {
		case l.rule == ru && l.dimension == tokens:
			l.weights = c.Tokens.Weights.compile()
		case l.rule == ru && l.dimension == requests:
			if l.adapts = r.compileMoving(c, l.id, plan.since); l.adapts != nil {
				l.bound = l.adapts.own.bound
			}
		}
	}
	if c.moves() && r.sharing != nil {
		p.Add(path, "cannot move: the counts are shared in quota.store until the gateway is started again; restart it, or take adapt and profiles out")
	}
	if c.Concurrent > 0 {
		r.add(plan, limit{rule: ru, dimension: concurrent, bound: bound{algorithm: algConcurrent, burst: c.Concurrent}})
	}
}

// add puts a limit into the plan under the name of its cells.
func (r *Room) add(plan *Plan, l limit) {
	l.id = l.rule.name + "/" + l.dimension.String()
	l.count, l.override = r.counts.get(l.id), r.overrides.get(l.id)
	plan.limits = append(plan.limits, l)
}

// The rules that the credential itself brings. Their names cannot be given to
// others.
const (
	credentialRate  = "credential-rate"
	tierConcurrency = "tier-concurrency"
)

func (r *Room) addBuiltIn(plan *Plan, c *Config) {
	r.add(plan, limit{rule: &rule{name: credentialRate, per: []string{"key", "tenant", "user"}}, dimension: requests, own: func(s *Subject) (bound, bool) {
		return grantedRate(s.Rate), s.Rate > 0
	}})
	if len(c.Tiers) == 0 {
		return
	}
	tiers := maps.Clone(c.Tiers)
	r.add(plan, limit{rule: &rule{name: tierConcurrency, per: []string{"key", "tenant", "user"}}, dimension: concurrent, own: func(s *Subject) (bound, bool) {
		n := tiers[s.Tier]
		return bound{algorithm: algConcurrent, burst: n}, n > 0
	}})
}

func (c *RateConfig) bound() bound {
	b := bound{algorithm: algorithms[c.Algorithm], count: c.Rate.Count, period: int64(c.Rate.Period), burst: c.Burst}
	if b.burst == 0 {
		b.burst = b.count
	}
	return b
}

func (w WeightsConfig) compile() *weights {
	if w == (WeightsConfig{}) {
		return nil
	}
	or := func(v *float64, other int64) int64 {
		if v == nil {
			return other
		}
		return int64(math.Round(*v * 1000))
	}
	input, output := or(w.Input, 1000), or(w.Output, 1000)
	return &weights{input, or(w.Cached, input), output, or(w.Reasoning, output)}
}

func (r *Room) compileBudget(plan *Plan, c *BudgetConfig, topUp, path string, p *setting.Problems) {
	ru := &rule{name: c.Name, when: compileWhen(c.When, path, p), per: apart(c.Per)}
	plan.rules = append(plan.rules, ru)
	zone, err := time.LoadLocation(c.Timezone)
	if err != nil {
		p.Add(path+".timezone", "%v", err)
		return
	}
	x, err := parseExhausted(c.Exhausted)
	if err != nil {
		p.Add(path+".exhausted", "%v", err)
	}
	one := budget{period: periods[c.Period], zone: zone, exhausted: x, topUp: topUp}
	add := func(d dimension, b budget) {
		if b.limit > 0 {
			r.add(plan, limit{rule: ru, dimension: d, bound: bound{algorithm: algBudget}, budget: &b})
		}
	}
	ofMoney, ofTokens := one, one
	ofMoney.limit, ofMoney.soft = int64(c.Limit.USD), int64(c.Soft.USD)
	ofTokens.limit, ofTokens.soft = c.Limit.Tokens, c.Soft.Tokens
	if ofTokens.limit == 0 {
		ofMoney.softTokens = c.Soft.Tokens
	}
	add(money, ofMoney)
	add(tokens, ofTokens)
}

// exhausted is what happens at the end of a budget.
type exhausted struct {
	trim  bool
	model string
}

var errExhausted = errors.New("not something to do when a budget is exhausted; write reject, trim or model:NAME")

func parseExhausted(s string) (x exhausted, err error) {
	s = strings.TrimSpace(strings.TrimPrefix(s, "degrade:"))
	name, model := strings.CutPrefix(s, "model:")
	switch {
	case model && name != "":
		x.model = name
	case s == "trim":
		x.trim = true
	case s != "" && s != "reject":
		err = errExhausted
	}
	return x, err
}
