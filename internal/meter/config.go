package meter

import (
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
)

// Config is the price table. For each request the first row counts that
// matches its model, its provider and the time it began at. What no row
// matches costs nothing and is recorded as unpriced.
type Config []PriceConfig

// PriceConfig is one row of the price table.
type PriceConfig struct {
	// Model is which models the prices are for, as a glob.
	Model string `yaml:"model"`
	// Provider is which providers they are for, as a glob; all when absent.
	Provider string `yaml:"provider"`
	// From is when the prices begin to apply, as a date (UTC) or a time of RFC
	// 3339; always when absent.
	From time.Time `yaml:"from"`
	// Until is when they cease to apply; never when absent.
	Until time.Time `yaml:"until"`

	RatesConfig `yaml:",inline"`

	// Request is what each request costs beside its tokens, in USD.
	Request llm.Money `yaml:"request"`
	// Tiers are the prices of requests with longer prompts, the shorter first.
	Tiers []TierConfig `yaml:"tiers"`
}

// RatesConfig is prices by the kind of token, in USD per million tokens.
type RatesConfig struct {
	// Input is for tokens of the prompt, USD per million.
	Input Rate `yaml:"input"`
	// CachedInput is for those of them that the provider read from its cache;
	// default is as Input.
	CachedInput Rate `yaml:"cached_input"`
	// CacheWrite is for those of them that the provider wrote to its cache;
	// default is as Input.
	CacheWrite Rate `yaml:"cache_write"`
	// Output is for tokens of the answer.
	Output Rate `yaml:"output"`
	// Reasoning is for those of them that the model thought and did not say;
	// default is as Output.
	Reasoning Rate `yaml:"reasoning"`
}

// TierConfig is the prices of requests whose prompt is longer than a bound. All
// tokens of such a request have the tier's prices, not those above the bound
// alone; a price that the tier does not give is that of the row.
type TierConfig struct {
	// Above is the number of tokens that the prompt must exceed.
	Above int64 `yaml:"above"`

	RatesConfig `yaml:",inline"`
}

// Validate notes every mistake, with path as the list's own place.
func (c Config) Validate(path string, p *setting.Problems) {
	for i := range c {
		at := setting.Index(path, i)
		c[i].validate(at, p)
		for j := range c[:i] {
			if c[j].covers(&c[i]) {
				p.Add(at, "is never used: %s stands before it and matches all that it does; put the narrower row first, or give each its dates", setting.Index(path, j))
				break
			}
		}
	}
}

func (c *PriceConfig) validate(path string, p *setting.Problems) {
	if c.Model == "" {
		p.Add(path+".model", "is missing; write a model's name, or * for all")
	}
	if !c.From.IsZero() && !c.Until.IsZero() && !c.From.Before(c.Until) {
		p.Add(path+".until", "%s is not after %s, when the prices begin to apply", c.Until.Format(time.RFC3339), c.From.Format(time.RFC3339))
	}
	if c.Input.IsZero() && c.Output.IsZero() && c.Request == 0 {
		p.Add(path, "has no price; write input and output in USD per million tokens, or request in USD")
	}
	if c.Request < 0 || c.Request > maxRate*llm.USD {
		p.Add(path+".request", "%s is not a price of one request; write dollars from 0 to %d, such as 0.01", c.Request, maxRate)
	}
	last := int64(0)
	for i, t := range c.Tiers {
		at := setting.Index(path+".tiers", i)
		if t.Above <= last {
			p.Add(at+".above", "%d is not more than %d; write how many tokens a prompt must exceed, the shorter prompts first", t.Above, last)
		}
		last = max(last, t.Above)
		if t.RatesConfig == (RatesConfig{}) {
			p.Add(at, "has no price; write those that differ, such as {above: 200000, input: 5, output: 15}")
		}
	}
}

// covers is whether c, standing before d, matches everything that d does. It
// knows equal globs and the glob *, not all that globs can express.
func (c *PriceConfig) covers(d *PriceConfig) bool {
	return (c.Model == d.Model || c.Model == "*") && (c.Provider == d.Provider || c.Provider == "" || c.Provider == "*") &&
		(c.From.IsZero() || !d.From.IsZero() && !c.From.After(d.From)) &&
		(c.Until.IsZero() || !d.Until.IsZero() && !c.Until.Before(d.Until))
}

// Compile makes the table. The configuration must have been validated.
func (c Config) Compile() Table {
	rows := make([]row, len(c))
	t := Table{named: map[string][]row{}}
	for i := range c {
		d := &c[i]
		rows[i] = row{model: d.Model, provider: d.Provider, from: d.From, until: d.Until, price: d.price()}
		if strings.Contains(d.Model, "*") {
			t.globs = append(t.globs, rows[i])
		} else {
			t.named[d.Model] = nil
		}
	}
	for name := range t.named {
		for _, r := range rows {
			if setting.Match(r.model, name) {
				t.named[name] = append(t.named[name], r)
			}
		}
	}
	return t
}

func (c *PriceConfig) price() *Price {
	p := &Price{request: c.Request, tiers: []tier{{above: -1, rates: c.compile(RatesConfig{})}}}
	for _, t := range c.Tiers {
		p.tiers = append(p.tiers, tier{t.Above, t.compile(c.RatesConfig)})
	}
	return p
}

// compile fills in what was not written from the row, then from the price of
// the whole that the kind is a part of.
func (c *RatesConfig) compile(row RatesConfig) rates {
	in, out := c.Input.or(row.Input), c.Output.or(row.Output)
	return rates{
		input:      in.pico,
		cached:     c.CachedInput.or(row.CachedInput).or(in).pico,
		cacheWrite: c.CacheWrite.or(row.CacheWrite).or(in).pico,
		output:     out.pico,
		reasoning:  c.Reasoning.or(row.Reasoning).or(out).pico,
	}
}
