package meter

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/config/decode"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
)

// table decodes and compiles a price table as a user writes it.
func table(t testing.TB, text string) Table {
	t.Helper()
	c, problems := parse(text)
	if len(problems) > 0 {
		t.Fatalf("%v", problems)
	}
	return c.Compile()
}

func parse(text string) (Config, []string) {
	var doc struct {
		Prices Config `yaml:"prices"`
	}
	_, mistakes := decode.YAML("prices.yaml", []byte(text), &doc)
	var p setting.Problems
	doc.Prices.Validate("prices", &p)
	var all []string
	for _, m := range mistakes {
		all = append(all, m.Path+" "+m.Message)
	}
	for _, m := range p {
		all = append(all, m.Path+" "+m.Message)
	}
	return doc.Prices, all
}

func date(s string) time.Time {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		panic(err)
	}
	return t
}

const contract = `prices:
  - {model: "gpt-4", from: 2026-01-01, input: 2.5, cached_input: 1.25, output: 10}
  - {model: "*", input: 1, output: 2}
`

func TestFirstMatchWins(t *testing.T) {
	tab := table(t, `prices:
  - {model: gpt-4, provider: "azure-*", until: 2026-01-01, input: 1, output: 1}
  - {model: gpt-4, provider: "azure-*", from: 2026-01-01, input: 2, output: 2}
  - {model: "gpt-*", input: 3, output: 3}
  - {model: embed, input: 0, request: 0.25}
`)
	for _, c := range []struct {
		model, provider, at string
		million             string // dollars for a million tokens in, "" for unpriced
	}{
		{"gpt-4", "azure-eu", "2025-12-31", "1"},
		{"gpt-4", "azure-eu", "2026-01-01", "2"},
		{"gpt-4", "openai", "2026-01-01", "3"},
		{"gpt-5", "azure-eu", "2026-01-01", "3"},
		{"embed", "azure-eu", "2026-01-01", "0.25"},
		{"claude", "anthropic", "2026-01-01", ""},
	} {
		p, ok := tab.Price(c.model, c.provider, date(c.at))
		if ok != (c.million != "") || ok != (p != nil) {
			t.Errorf("%+v: priced is %v", c, ok)
			continue
		}
		if !ok {
			continue
		}
		want, _ := llm.ParseUSD(c.million)
		if got := p.Cost(llm.Usage{Input: 1e6}); got != want {
			t.Errorf("%+v: cost %s", c, got)
		}
	}
}

// Whatever rows there are, the first one that matches counts.
func TestPriceAgainstOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	day := func(n int) time.Time { return date("2026-01-01").AddDate(0, 0, n) }
	for range 3000 {
		var c Config
		for i := range r.IntN(6) {
			row := PriceConfig{Model: pick("a", "b", "a*", "*b", "*", "a/b"), Provider: pick("", "x", "*", "y*"), Request: llm.Money(1 + i)}
			if r.IntN(3) == 0 {
				row.From = day(r.IntN(3))
			}
			if r.IntN(3) == 0 {
				row.Until = day(r.IntN(3))
			}
			c = append(c, row)
		}
		model, provider, at := pick("a", "b", "ab", "a/b", "c"), pick("x", "y1"), day(r.IntN(3))
		var want llm.Money
		for i := range c {
			if d := &c[i]; setting.Match(d.Model, model) && (d.Provider == "" || setting.Match(d.Provider, provider)) &&
				(d.From.IsZero() || !at.Before(d.From)) && (d.Until.IsZero() || at.Before(d.Until)) {
				want = d.Request
				break
			}
		}
		if p, ok := c.Compile().Price(model, provider, at); p.Cost(llm.Usage{}) != want || ok != (want > 0) {
			t.Fatalf("%+v: %s at %s costs %s, want %s", c, model, provider, p.Cost(llm.Usage{}), want)
		}
	}
}

func TestContract(t *testing.T) {
	tab := table(t, contract)
	u := llm.Usage{Input: 1000, Cached: 400, Output: 300, Reasoning: 100}
	p, _ := tab.Price("gpt-4", "openai", date("2026-06-01"))
	// 600×2.5 + 400×1.25 + 300×10 = 5000 micro-dollars.
	if got := p.Cost(u); got != 5_000_000 {
		t.Errorf("gpt-4 costs %s", got)
	}
	p, _ = tab.Price("gpt-4", "openai", date("2025-06-01"))
	if got := p.Cost(u); got != 1_600_000 {
		t.Errorf("before its date gpt-4 costs %s", got)
	}
	var none *Price
	if none.Cost(u) != 0 || none.Bound(1, 1) != 0 {
		t.Error("no price costs something")
	}
}

func TestTiersInherit(t *testing.T) {
	tab := table(t, `prices:
  - model: gemini
    input: 1
    cached_input: 0.25
    output: 10
    tiers:
      - {above: 1000, input: 2, reasoning: 30}
      - {above: 2000, output: 40}
`)
	p, _ := tab.Price("gemini", "", date("2026-01-01"))
	for _, c := range []struct {
		u    llm.Usage
		want llm.Money
	}{
		{llm.Usage{Input: 1000, Cached: 400, Output: 10, Reasoning: 5}, 1000 * (600 + 100 + 100)},
		{llm.Usage{Input: 1001, Cached: 401, Output: 10, Reasoning: 5}, 1000*(1200+50+150) + 401*250},
		{llm.Usage{Input: 2001, CacheWrite: 1, Output: 10, Reasoning: 5}, 1000 * (2001 + 400)},
	} {
		if got := p.Cost(c.u); got != c.want {
			t.Errorf("%+v costs %s, want %s", c.u, got, c.want)
		}
	}
}

func TestRounding(t *testing.T) {
	tab := table(t, `prices: [{model: m, input: 0.000125, output: 0.0005}]`)
	p, _ := tab.Price("m", "", time.Time{})
	for _, c := range []struct {
		u    llm.Usage
		want llm.Money
	}{
		{llm.Usage{Input: 3}, 0}, // 0.375 nano-dollars
		{llm.Usage{Input: 4}, 1}, // 0.5: half goes up
		{llm.Usage{Input: 3, Output: 1}, 1},
		{llm.Usage{Output: 3}, 2}, // 1.5
	} {
		if got := p.Cost(c.u); got != c.want {
			t.Errorf("%+v costs %d nano-dollars, want %d", c.u, got, c.want)
		}
	}
}

// oracle is the cost by the definition in words, in rational numbers.
func oracle(c *PriceConfig, u llm.Usage) *big.Rat {
	read := func(rs ...Rate) *big.Rat {
		for _, r := range rs {
			if !r.IsZero() {
				v, _ := new(big.Rat).SetString(r.String())
				return v.Quo(v, big.NewRat(1e6, 1))
			}
		}
		return new(big.Rat)
	}
	r, parent := c.RatesConfig, c.RatesConfig
	for _, t := range c.Tiers {
		if u.Input > t.Above {
			r = t.RatesConfig
		}
	}
	total := big.NewRat(int64(c.Request), 1e9)
	add := func(n int64, price *big.Rat) {
		total.Add(total, price.Mul(price, new(big.Rat).SetInt64(n)))
	}
	add(u.Input-u.Cached-u.CacheWrite, read(r.Input, parent.Input))
	add(u.Cached, read(r.CachedInput, parent.CachedInput, r.Input, parent.Input))
	add(u.CacheWrite, read(r.CacheWrite, parent.CacheWrite, r.Input, parent.Input))
	add(u.Output-u.Reasoning, read(r.Output, parent.Output))
	add(u.Reasoning, read(r.Reasoning, parent.Reasoning, r.Output, parent.Output))
	// In nano-dollars, half up.
	total.Mul(total, big.NewRat(1e9, 1)).Add(total, big.NewRat(1, 2))
	return total
}

func randomPrice(r *rand.Rand) PriceConfig {
	rates := func() (c RatesConfig) {
		for _, f := range []*Rate{&c.Input, &c.CachedInput, &c.CacheWrite, &c.Output, &c.Reasoning} {
			if r.IntN(2) == 0 {
				*f = Rate{r.Int64N([]int64{3, 1e4, 1e8, maxRate*1e6 + 1}[r.IntN(4)]), true}
			}
		}
		return c
	}
	c := PriceConfig{Model: "*", RatesConfig: rates()}
	if r.IntN(3) == 0 {
		c.Request = llm.Money(r.Int64N(1e10))
	}
	for above := int64(0); r.IntN(2) == 0; {
		above += 1 + r.Int64N(200_000)
		c.Tiers = append(c.Tiers, TierConfig{above, rates()})
	}
	return c
}

func randomUsage(r *rand.Rand) (u llm.Usage) {
	most := []int64{2, 5000, 500_000, 1e12, math.MaxInt64}[r.IntN(5)]
	u.Input, u.Output = r.Int64N(most), r.Int64N(most)
	u.Cached = r.Int64N(u.Input + 1)
	u.CacheWrite = r.Int64N(u.Input - u.Cached + 1)
	u.Reasoning = r.Int64N(u.Output + 1)
	return u
}

func TestCostAgainstOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	saturated := 0
	for range 20_000 {
		c, u := randomPrice(r), randomUsage(r)
		p, _ := Config{c}.Compile().Price("m", "", time.Time{})
		got := p.Cost(u)
		exact := oracle(&c, u)
		want := new(big.Int).Quo(exact.Num(), exact.Denom())
		if !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
			saturated++
		}
		if int64(got) != want.Int64() {
			t.Fatalf("%+v under %+v costs %d, want %s", u, c, got, want)
		}
		in, out := u.Input+r.Int64N(3), u.Output+r.Int64N(3)
		if in < 0 || out < 0 {
			continue // past the largest number
		}
		if bound := p.Bound(in, out); bound < got {
			t.Fatalf("%+v under %+v costs %d, above the bound %d of %d and %d", u, c, got, bound, in, out)
		}
	}
	if saturated == 0 {
		t.Error("no history reached the largest amount")
	}
}

// The bound is reached: it is not merely large.
func TestBoundIsTight(t *testing.T) {
	tab := table(t, `prices: [{model: m, input: 1, cache_write: 1.25, output: 2, reasoning: 4, tiers: [{above: 100, input: 0.5, cache_write: 0.5}]}]`)
	p, _ := tab.Price("m", "", time.Time{})
	if got, want := p.Bound(100, 10), p.Cost(llm.Usage{Input: 100, CacheWrite: 100, Output: 10, Reasoning: 10}); got != want {
		t.Errorf("bound %d, want %d", got, want)
	}
	// A dearer small tier counts for prompts that may turn out shorter.
	if got, least := p.Bound(101, 0), p.Cost(llm.Usage{Input: 100, CacheWrite: 100}); got < least {
		t.Errorf("bound %d, and a shorter prompt costs %d", got, least)
	}
}

func TestOddUsage(t *testing.T) {
	tab := table(t, `prices: [{model: m, input: 2, cached_input: 1, output: 3}]`)
	p, _ := tab.Price("m", "", time.Time{})
	for _, c := range []struct {
		u    llm.Usage
		want llm.Money
	}{
		{llm.Usage{Input: -5, Cached: -3, Output: -1}, 0},
		{llm.Usage{Input: 10, Cached: 50}, 10_000},
		{llm.Usage{Input: 10, Cached: 4, CacheWrite: 50, Output: 1, Reasoning: 9}, 4000 + 12_000 + 3000},
	} {
		if got := p.Cost(c.u); got != c.want {
			t.Errorf("%+v costs %d, want %d", c.u, got, c.want)
		}
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`prices: [{input: 1, output: 2}]`:                                             "prices[0].model is missing",
		`prices: [{model: m}]`:                                                        "prices[0] has no price",
		`prices: [{model: m, input: 1e-6}]`:                                           "prices[0].input not a price",
		`prices: [{model: m, input: -1}]`:                                             "prices[0].input not a price",
		`prices: [{model: m, input: 0.0000001}]`:                                      "prices[0].input has too many decimals",
		`prices: [{model: m, input: 1000001}]`:                                        "prices[0].input is above 1000000",
		`prices: [{model: m, request: -1}]`:                                           "prices[0].request",
		`prices: [{model: m, input: 1, tiers: [{above: 0, input: 2}]}]`:               "prices[0].tiers[0].above 0 is not more than 0",
		`prices: [{model: m, input: 1, tiers: [{above: 5}]}]`:                         "prices[0].tiers[0] has no price",
		`prices: [{model: m, input: 1, from: 2026-02-01, until: 2026-01-01}]`:         "prices[0].until",
		`prices: [{model: "*", input: 1}, {model: m, input: 1}]`:                      "prices[1] is never used: prices[0]",
		`prices: [{model: m, input: 1, until: 2026-01-01}, {model: m, input: 1}]`:     "",
		`prices: [{model: m, provider: p, input: 1}, {model: m, input: 1}]`:           "",
		`prices: [{model: m, from: 2026-01-01, input: 0}, {model: "*", output: 0.5}]`: "",
	} {
		_, got := parse(text)
		if want == "" && len(got) > 0 || want != "" && !strings.HasPrefix(strings.Join(got, "\n"), want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func FuzzRate(f *testing.F) {
	for _, s := range []string{"2.5", "0", "0.000001", "1000000", "01.50", ".5", "5.", "1e3", "-1", "9999999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRate(s)
		if err != nil {
			if !r.IsZero() {
				t.Fatalf("%q is %v and a price: %s", s, err, r)
			}
			return
		}
		want, ok := new(big.Rat).SetString(s)
		if got := big.NewRat(r.pico, 1e6); !ok || got.Cmp(want) != 0 {
			t.Fatalf("%q is read as %s", s, got)
		}
		if again, err := ParseRate(r.String()); err != nil || again != r {
			t.Fatalf("%q is written as %q, and read again as %v, %v", s, r, again, err)
		}
	})
}

func TestCostAllocatesNothing(t *testing.T) {
	tab := table(t, contract)
	at := date("2026-06-01")
	if n := testing.AllocsPerRun(100, func() {
		p, _ := tab.Price("gpt-4", "openai", at)
		p.Cost(llm.Usage{Input: 1000, Cached: 3, Output: 5})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCost(b *testing.B) {
	p, _ := table(b, contract).Price("gpt-4", "openai", date("2026-06-01"))
	u := llm.Usage{Input: 1000, Cached: 3, Output: 500, Reasoning: 20}
	b.ReportAllocs()
	for b.Loop() {
		p.Cost(u)
	}
}

// BenchmarkPrice finds the price of a model in a table of so many, that names
// them or not.
func BenchmarkPrice(b *testing.B) {
	for _, names := range []int{0, 300} {
		b.Run(strconv.Itoa(names), func(b *testing.B) {
			var c Config
			for i := range names {
				c = append(c, PriceConfig{Model: fmt.Sprintf("model-%03d", i), Request: 1})
			}
			tab, at := append(c, PriceConfig{Model: "*", Request: 1}).Compile(), time.Now()
			for b.Loop() {
				if _, ok := tab.Price("model-200", "openai", at); !ok {
					b.Fatal("no price")
				}
			}
		})
	}
}
