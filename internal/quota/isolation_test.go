package quota

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate-ai/headgate/internal/condition"
	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/meter"
	"github.com/headgate-ai/headgate/internal/setting"
)

// isolating is rules and budgets of every algorithm and dimension, all of them
// kept by tenant and what else there is, or by what is a tenant's own.
func isolating(t testing.TB) Config {
	return Config{
		Tiers: map[string]int64{"gold": 6},
		Rules: []RuleConfig{
			{Name: "requests", Per: []string{"tenant"}, Requests: RateConfig{Rate: rate(t, "40/s"), Burst: 30}},
			{Name: "tokens", Per: []string{"tenant", "key"}, Tokens: TokensConfig{RateConfig: RateConfig{Rate: rate(t, "9000/s"), Algorithm: "bucket"}}},
			{Name: "input", Per: []string{"user", "tenant"}, InputTokens: RateConfig{Rate: rate(t, "300000/min"), Burst: 20_000, Algorithm: "window"}},
			{Name: "output", Per: []string{"tenant", "model"}, OutputTokens: RateConfig{Rate: rate(t, "90000/min"), Algorithm: "fixed"}},
			{Name: "places", Per: []string{"tenant"}, Concurrent: 20},
			{Name: "address", Per: []string{"ip", "tenant"}, Requests: RateConfig{Rate: rate(t, "2000/min"), Algorithm: "window"}},
			{Name: "team", When: `request.model == "gpt-4"`, Per: []string{"tenant", "claim:team"}, Requests: RateConfig{Rate: rate(t, "30/s")}},
			{Name: "each-key", Per: []string{"key"}, Requests: RateConfig{Rate: rate(t, "35/s"), Burst: 25}, Concurrent: 18},
			{Name: "each-user", Per: []string{"model", "user"}, Tokens: TokensConfig{RateConfig: RateConfig{Rate: rate(t, "600000/min"), Algorithm: "window"}}},
			{Name: "each-team", Per: []string{"claim:team"}, Requests: RateConfig{Rate: rate(t, "2000/min"), Burst: 40, Algorithm: "bucket"}},
			{Name: "trial", Per: []string{"tenant", "provider", "region"}, Requests: RateConfig{Rate: rate(t, "5/s")}, Shadow: true},
		},
		Budgets: []BudgetConfig{
			{Name: "hour", Per: []string{"tenant"}, Limit: AmountConfig{USD: 2 * llm.USD}, Soft: AmountConfig{USD: llm.USD / 2}, Period: "hour", Exhausted: "trim"},
			{Name: "purse", Per: []string{"user"}, Limit: AmountConfig{USD: llm.USD / 8}, Period: "minute", Exhausted: "trim"},
			{Name: "minute", Per: []string{"tenant", "user"}, Limit: AmountConfig{Tokens: 60_000}, Period: "minute", Exhausted: "model:small"},
		},
	}
}

// input is what a client sends: the same of every tenant.
type input struct {
	key, user, tier, model, ip, team string
	rate                             float64
	demand                           Demand
}

func someInput(r *rand.Rand, price *meter.Price) input {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	return input{
		key: pick("sso", "web"), user: pick("", "ann", "bob", "a|tenant=beta"), tier: pick("", "gold"), model: pick("gpt-4", "small"),
		ip: pick("192.0.2.1", "192.0.2.2"), team: pick("", "red"), rate: float64(r.IntN(2) * 15),
		// One in four sets no bound on its answer: then what is reserved is what was
		// learnt.
		demand: Demand{Input: r.Int64N(1500), Output: max(0, r.Int64N(4000)-1000), Price: price},
	}
}

func (in *input) of(tenant string) *Subject {
	return &Subject{
		Principal: llm.Principal{Key: in.key, Tenant: tenant, User: in.user, Tier: in.tier, Rate: in.rate},
		Model:     in.model, Provider: "openai", IP: in.ip, Region: "eu", Claims: map[string]any{"team": in.team},
		Facts: &condition.Input{Path: "/v1/chat/completions", Model: in.model, Key: in.key, Tenant: tenant},
	}
}

// seen is all that a caller can see of a decision, but for the chance in when it
// shall come again.
func seen(h *Hold, err error) string {
	s := fmt.Sprintf("%+v %+v low %q", h.Requests, h.Tokens, h.Low())
	if h.WayOut != nil {
		s += fmt.Sprintf(" way out %+v", *h.WayOut)
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		details := maps.Clone(f.Details)
		delete(details, "retry_after_ms")
		s += fmt.Sprintf(" refused %s %v %v", f.Kind, f.Public, details)
	}
	return s
}

// side is one tenant as it stands in a room.
type side struct {
	room  *Room
	plan  *Plan
	holds []*Hold
}

func newSide(t *testing.T, room *Room) *side {
	return &side{room: room, plan: compile(t, room, isolating(t))}
}

// do makes one step, and tells all that can be seen of it.
func (s *side) do(step int, tenant string, in *input, which int, now time.Time) string {
	switch {
	case step < 50:
		h, err := s.room.Reserve(s.plan, in.of(tenant), in.demand, now)
		if err == nil {
			s.holds = append(s.holds, h)
		} else {
			defer h.Release()
		}
		return seen(h, err)
	case step < 60:
		return fmt.Sprintf("%+v", s.room.Stand(s.plan, in.of(tenant), now))
	case len(s.holds) == 0:
		return ""
	}
	i := which % len(s.holds)
	h := s.holds[i]
	u := llm.Usage{Input: in.demand.Input, Output: h.output * int64(which%3) / 2, Estimated: which%2 == 0}
	if step < 70 {
		return fmt.Sprintf("%d %d", h.Allow(u), h.output)
	}
	s.holds = slices.Delete(s.holds, i, i+1)
	defer h.Release()
	return fmt.Sprintf("%+v", h.Settle(Settlement{Usage: u, Price: in.demand.Price, Unsent: which%7 == 0}, now))
}

// K12: two tenants that send the same things, with the same names of keys and
// users, from the same addresses. Whatever one does, the other sees exactly what
// it would see if it were alone.
func TestTenantsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(12, 1))
		price, both := dollar(t), New()
		tenants := []string{"alpha", "beta"}
		alone, shared := map[string]*side{}, map[string]*side{}
		for _, tenant := range tenants {
			alone[tenant], shared[tenant] = newSide(t, New()), newSide(t, both)
		}
		refused, ops := 0, 0
		for range 12_000 {
			time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
			now, step, in, which := time.Now(), r.IntN(100), someInput(r, price), r.IntN(1000)
			who := slices.Clone(tenants[:])
			r.Shuffle(2, func(i, j int) { who[i], who[j] = who[j], who[i] })
			for _, tenant := range who[:1+r.IntN(2)] {
				want, got := alone[tenant].do(step, tenant, &in, which, now), shared[tenant].do(step, tenant, &in, which, now)
				if got != want {
					t.Fatalf("after %d steps %s sees\n%s\nand alone it would see\n%s", ops, tenant, got, want)
				}
				if ops++; strings.Contains(got, "refused") {
					refused++
				}
			}
			if step == 99 {
				both.Sweep(shared["alpha"].plan, now)
				shared["beta"].plan.matches.sweep()
			}
		}
		if ops < 10_000 || refused < 1000 || refused > ops/2 {
			t.Errorf("%d steps, %d refusals: nothing was tried", ops, refused)
		}
		compareTops(t, both, shared["alpha"].plan, alone)
	})
}

// compareTops holds the list of the busiest subjects against those of each tenant
// alone: each cell is one tenant's, and as full as it is without the other.
func compareTops(t *testing.T, both *Room, plan *Plan, alone map[string]*side) {
	t.Helper()
	const all = 10_000
	used := map[string]Top{}
	for tenant, s := range alone {
		for _, top := range s.room.Top(s.plan, all, time.Now()) {
			if strings.Count(top.Cell, "|tenant=") != 1 || !slices.Contains(strings.Split(top.Cell, "|"), "tenant="+tenant) {
				t.Errorf("%s has the cell %s", tenant, top.Cell)
			}
			used[top.Cell] = top
		}
	}
	found := map[string]Top{}
	for _, top := range both.Top(plan, all, time.Now()) {
		found[top.Cell] = top
	}
	for cell, want := range used {
		// What has been swept from the one room was full again.
		if got, ok := found[cell]; ok && !reflect.DeepEqual(got, want) || !ok && want.Used != 0 {
			t.Errorf("%+v, alone %+v", got, want)
		}
		delete(found, cell)
	}
	if len(used) < 20 || len(found) != 0 {
		t.Errorf("%d cells, and of nobody: %v", len(used), found)
	}
}

// A tenant at ten times its limit takes nothing from one that stays within its
// own: not a call of it is refused, and what it has left is what it has left
// alone. How long its calls take is not asked here: a test shares its processors
// with others.
func TestNoisyTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room, quiet := New(), New()
		c := Config{Rules: []RuleConfig{
			{Name: "requests", Per: []string{"tenant"}, Requests: RateConfig{Rate: setting.Rate{Count: 100, Period: time.Second}, Burst: 10}, Concurrent: 4},
		}}
		plan, alone := compile(t, room, c), compile(t, quiet, c)
		in := input{key: "sso", user: "ann", model: "gpt-4"}
		admitted := 0
		const seconds = 30
		for tick := range seconds * 1000 { // milliseconds
			now := time.Now()
			if h, err := room.Reserve(plan, in.of("noisy"), Demand{}, now); err == nil { // 1000 a second
				admitted++
				h.Settle(Settlement{}, now)
			}
			if tick%20 == 0 { // 50 a second
				h, err := room.Reserve(plan, in.of("quiet"), Demand{}, now)
				if err != nil {
					t.Fatalf("after %d ms the quiet one is refused: %v", tick, err)
				}
				want, _ := quiet.Reserve(alone, in.of("quiet"), Demand{}, now)
				if h.Requests != want.Requests {
					t.Fatalf("after %d ms the quiet one stands %+v, alone %+v", tick, h.Requests, want.Requests)
				}
				h.Settle(Settlement{}, now)
				want.Settle(Settlement{}, now)
			}
			time.Sleep(time.Millisecond)
		}
		if most := seconds*100 + 10; admitted > most || admitted < most-10 {
			t.Errorf("%d of the noisy one's calls are let through, its limit is %d", admitted, most)
		}
	})
}
