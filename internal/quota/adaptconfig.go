package quota

import (
	"github.com/headgate-ai/headgate/internal/setting"
)

// AdaptConfig says what the rate of requests of a rule moves with. Several
// causes multiply. It needs the algorithm gcra or bucket, and a rule that moves
// counts thousandths of a request.
type AdaptConfig struct {
	// Load moves the rate against the load: fewer requests while there are many,
	// while they are large, or while answers are slow.
	Load LoadConfig `yaml:"load"`
	// Health moves it with the health of the providers, from all of it down to
	// half, by at most a tenth in a second.
	Health bool `yaml:"health"`
	// Decay takes 12 to 18 % off while many calls of the rule are under way.
	Decay DecayConfig `yaml:"decay"`
	// Burst raises it while calls are refused and the providers are well, and
	// lowers it when they are not.
	Burst BurstConfig `yaml:"burst"`
}

// LoadConfig is the load at which the configured rate holds. What is left out
// has no part. A rule with it lets twice its requests of a second through at
// once, at least 5, where it names no burst.
type LoadConfig struct {
	// QPS is the calls of the rule in a second; from half of it to twice counts.
	QPS float64 `yaml:"qps"`
	// Size is the size of a request's body; from a tenth of it to twice counts.
	// With it a request takes of the limit by its own size, within the same
	// bounds.
	Size setting.Size `yaml:"size"`
	// P95 is the time in which 95 of 100 answers begin; from half of it to three
	// times counts.
	P95 setting.Duration `yaml:"p95"`
	// Min is the least that the rate can become, whatever else moves it.
	Min setting.Rate `yaml:"min"`
	// Max is the most that it can become.
	Max setting.Rate `yaml:"max"`
}

// DecayConfig is when a limit decays.
type DecayConfig struct {
	// Concurrent is a number of calls of the rule under way at once: with more
	// than four fifths of it 12 % are taken off, with all of it 18 %.
	Concurrent int64 `yaml:"concurrent"`
}

// BurstConfig is how far a limit may go, and what it goes by.
type BurstConfig struct {
	// Floor is the least part of the configured limit, whatever else moves it.
	// Default 0.25.
	Floor float64 `yaml:"floor"`
	// Ceiling is the most, as a multiple of the configured limit. Default 4.
	Ceiling float64 `yaml:"ceiling"`
	// P95 is the time in which 95 of 100 answers must begin; when they do not the
	// limit shrinks by 30 % in a second.
	P95 setting.Duration `yaml:"p95"`
}

// ProfileConfig is what a rule allows while a provider says that it is of a
// version, or is called for a model.
type ProfileConfig struct {
	// Name is how the profile is called in profile, metrics and the record of
	// changes.
	Name string `yaml:"name"`
	// Version is the provider's version that the profile is for, as the latest
	// answer's header openai-version named it, such as 2024-*; any when absent.
	Version string `yaml:"version"`
	// Model is the model at the provider that the profile is for, as it was called
	// last, such as gpt-4-0613*; any when absent.
	Model string `yaml:"model"`
	// Requests is the limit in the place of the rule's.
	Requests RateConfig `yaml:"requests"`
	// Adapt is what it moves with, in the place of the rule's.
	Adapt AdaptConfig `yaml:"adapt"`
}

// The defaults of the burst controller, and the bounds of what makes sense.
const (
	defaultFloor   = 0.25
	defaultCeiling = 4
	mostCeiling    = 1000
	// mostMoving keeps thousandths far from where they would overflow.
	mostMoving = 1_000_000_000
	// largestCost is what the largest request takes of a limit that goes by size.
	largestCost = 2
)

// any is whether something moves the limit.
func (c *AdaptConfig) any() bool { return *c != (AdaptConfig{}) }

// moves is whether the rule's rate of requests moves, or can be replaced.
func (r *RuleConfig) moves() bool { return r.Adapt.any() || len(r.Profiles) > 0 }

// validateMoving notes the mistakes in what moves a rule.
func (r *RuleConfig) validateMoving(path string, shared bool, p *setting.Problems) {
	if !r.moves() {
		if r.Watch != "" {
			p.Add(path+".watch", "there is nothing to watch %q for; add adapt or profiles, or take it out", r.Watch)
		}
		if r.Profile != "" {
			p.Add(path+".profile", "there is no profile %q; add it to profiles", r.Profile)
		}
		return
	}
	if shared {
		p.Add(path, "adapt and profiles go by what one gateway sees, and quota.store shares the count with others, of which the one with the largest limit would get all; take them out, or the store")
	}
	if r.Requests.Rate.IsZero() {
		p.Add(path+".requests", "is missing, and adapt and profiles move it; write a rate such as {rate: 100/s}")
		return
	}
	r.Requests.validateMoving(path+".requests", &r.Adapt, p)
	r.Adapt.validate(path+".adapt", &r.Requests, p)
	known := map[string]bool{}
	for i := range r.Profiles {
		r.Profiles[i].validate(setting.Index(path+".profiles", i), r.Profile, known, p)
	}
	if r.Profile != "" && !known[r.Profile] {
		p.Add(path+".profile", "there is no profile %q; write the name of one of profiles", r.Profile)
	}
}

func (c *ProfileConfig) validate(path, fixed string, known map[string]bool, p *setting.Problems) {
	setting.CheckName(p, path+".name", c.Name)
	if known[c.Name] && c.Name != "" {
		p.Add(path+".name", "%q stands here twice", c.Name)
	}
	known[c.Name] = true
	if c.Version == "" && c.Model == "" && fixed == "" {
		p.Add(path, "is never in force; add version or model, or name it as the rule's profile")
	}
	if c.Requests.Rate.IsZero() {
		p.Add(path+".requests.rate", "is missing; write so many in a period, such as 100/s or 600/min")
		return
	}
	c.Requests.validate(path+".requests", p)
	c.Requests.validateMoving(path+".requests", &c.Adapt, p)
	c.Adapt.validate(path+".adapt", &c.Requests, p)
}

// validateMoving notes what a rate that moves cannot be.
func (r *RateConfig) validateMoving(path string, a *AdaptConfig, p *setting.Problems) {
	if alg := algorithms[r.Algorithm]; alg != algGCRA && alg != algBucket {
		p.Add(path+".algorithm", "%s promises a number that does not move, and adapt or profiles move it; write gcra or bucket", r.Algorithm)
	}
	if r.Rate.Count > mostMoving || r.Burst > mostMoving {
		p.Add(path+".rate", "is more than what adapt and profiles can move; write at most %d for rate and burst", mostMoving)
	}
	if b := r.moving(a); a.Load.Size > 0 && b.burst < largestCost {
		p.Add(path+".burst", "%d is less than what a large request takes with load.size; write %d or more", b.burst, largestCost)
	}
}

// moving is the bound of a rate that moves, in whole requests.
func (r *RateConfig) moving(a *AdaptConfig) bound {
	b := r.bound()
	if r.Burst == 0 && a.Load != (LoadConfig{}) {
		b.burst = max(leastLoadBurst, int64(2*b.perSecond()))
	}
	return b
}

// leastLoadBurst is the least burst of a limit that moves with the load, where
// the configuration does not name a smaller one.
const leastLoadBurst = 5

func (c *AdaptConfig) validate(path string, rate *RateConfig, p *setting.Problems) {
	c.Load.validate(path+".load", rate, p)
	if c.Decay.Concurrent < 0 {
		p.Add(path+".decay.concurrent", "%d is no number of calls; write how many may be under way at once, such as 64", c.Decay.Concurrent)
	}
	c.Burst.validate(path+".burst", p)
}

func (c *LoadConfig) validate(path string, rate *RateConfig, p *setting.Problems) {
	if *c == (LoadConfig{}) {
		return
	}
	if !(c.QPS >= 0 && c.QPS <= mostMoving) { // NaN is neither
		p.Add(path+".qps", "%v is no number of calls in a second; write one from 0 to %d, such as 100", c.QPS, mostMoving)
	}
	if c.QPS == 0 && c.Size == 0 && c.P95 == 0 {
		p.Add(path, "has nothing to go by; add one or more of qps, size, p95")
	}
	r, least, most := perSecond(rate.Rate), perSecond(c.Min), perSecond(c.Max)
	switch {
	case !c.Min.IsZero() && !c.Max.IsZero() && least > most:
		p.Add(path+".min", "%s is more than max, %s; write a smaller one", c.Min, c.Max)
	case !c.Min.IsZero() && least > r:
		p.Add(path+".min", "%s is more than the rate itself, %s; write a smaller one", c.Min, rate.Rate)
	case !c.Max.IsZero() && most < r:
		p.Add(path+".max", "%s is less than the rate itself, %s; write a larger one", c.Max, rate.Rate)
	}
}

func (c *BurstConfig) validate(path string, p *setting.Problems) {
	if *c == (BurstConfig{}) {
		return
	}
	d := c.Default()
	switch {
	case d.Floor > d.Ceiling:
		p.Add(path+".floor", "%v is more than ceiling, %v; write a smaller one, such as %v", d.Floor, d.Ceiling, defaultFloor)
	case !(d.Floor > 0 && d.Floor <= 1):
		p.Add(path+".floor", "%v is not a part of the limit; write a number above 0 and up to 1, such as %v", d.Floor, defaultFloor)
	}
	if !(d.Ceiling >= 1 && d.Ceiling <= mostCeiling) {
		p.Add(path+".ceiling", "%v is not how many times the limit; write a number from 1 to %d, such as %d", d.Ceiling, mostCeiling, defaultCeiling)
	}
	if c.P95 == 0 {
		p.Add(path+".p95", "is missing or 0; write the time in which 95 of 100 answers must begin, such as 1s")
	}
}

// Default fills in what the configuration leaves open.
func (c BurstConfig) Default() BurstConfig {
	if c.Floor == 0 {
		c.Floor = defaultFloor
	}
	if c.Ceiling == 0 {
		c.Ceiling = defaultCeiling
	}
	return c
}
