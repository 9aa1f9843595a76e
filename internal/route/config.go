package route

import (
	"slices"
	"strings"

	"github.com/headgate-ai/headgate/internal/fleet"
	"github.com/headgate-ai/headgate/internal/setting"
)

// ModelConfig is one model that clients may call.
type ModelConfig struct {
	// Name is the model's name for clients, or a glob such as gpt-*. An exact
	// name wins, then the longest glob.
	Name string `yaml:"name"`
	// Targets are the providers that serve the model.
	Targets []TargetConfig `yaml:"targets"`
}

// TargetConfig is one provider that serves a model.
type TargetConfig struct {
	// Provider is the name of a configured provider.
	Provider string `yaml:"provider"`
	// Model is the model's name at the provider; default is the name the client
	// used.
	Model string `yaml:"model"`
	// Weight is the target's share of the calls, beside the other targets'
	// weights.
	Weight int `yaml:"weight"`
}

// SetDefaults fills in what a target leaves out.
func (t *TargetConfig) SetDefaults() { t.Weight = 1 }

// Config is the list of models, with the names of the providers there are.
type Config struct {
	Models    []ModelConfig
	Providers []string
}

// Validate notes every mistake.
func (c *Config) Validate(p *setting.Problems) {
	names := map[string]int{}
	for i := range c.Models {
		m := &c.Models[i]
		path := setting.Index("models", i)
		if m.Name == "" || len(m.Name) > 256 || strings.ContainsFunc(m.Name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			p.Add(path+".name", "a model needs a name without blanks, such as gpt-4o or gpt-*")
		}
		if j, dup := names[m.Name]; dup && m.Name != "" {
			p.Add(path+".name", "%q is already the name of models[%d]; put its targets there", m.Name, j)
		}
		names[m.Name] = i
		if len(m.Targets) == 0 {
			p.Add(path+".targets", "there are none; add at least {provider: NAME}")
		}
		c.validateTargets(path, m, p)
	}
}

func (c *Config) validateTargets(path string, m *ModelConfig, p *setting.Problems) {
	for j := range m.Targets {
		t := &m.Targets[j]
		at := setting.Index(path+".targets", j)
		if !slices.Contains(c.Providers, t.Provider) {
			p.Add(at+".provider", "unknown provider %q; configured providers are %s", t.Provider, strings.Join(c.Providers, ", "))
		}
		if t.Weight < 1 || t.Weight > 1_000_000 {
			p.Add(at+".weight", "%d is not a weight; write a whole number from 1 to 1000000", t.Weight)
		}
		if strings.Contains(t.Model, "*") {
			p.Add(at+".model", "%q is a glob; leave it out to keep the client's name, or name one model", t.Model)
		}
	}
}

// Plan is the compiled table of models.
type Plan struct {
	exact     map[string]*model
	globs     []*model // longest first
	providers map[string]bool
	names     []Name
}

// Compile makes the plan of a valid configuration.
func (c *Config) Compile() Plan {
	p := Plan{exact: map[string]*model{}, providers: map[string]bool{}}
	for _, name := range c.Providers {
		p.providers[name] = true
	}
	for _, m := range c.Models {
		compiled := &model{name: m.Name}
		for _, t := range m.Targets {
			compiled.legs = append(compiled.legs, fleet.NewLeg(t.Provider, t.Model, t.Weight))
			compiled.weight += uint64(t.Weight)
		}
		if strings.Contains(m.Name, "*") {
			p.globs = append(p.globs, compiled)
			continue
		}
		p.exact[m.Name] = compiled
		p.names = append(p.names, Name{m.Name, m.Targets[0].Provider})
	}
	slices.SortStableFunc(p.globs, byLength)
	slices.SortFunc(p.names, func(a, b Name) int { return strings.Compare(a.Model, b.Model) })
	return p
}
