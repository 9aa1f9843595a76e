package upstream

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/fleet"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
)

// Plan is the compiled list of providers.
type Plan struct{ providers map[string]*Provider }

// Provider is one service as requests use it.
type Provider struct {
	Name    string
	Dialect llm.Dialect
	// Pulse is how its calls go; it outlasts the plan.
	Pulse *fleet.Pulse

	base        url.URL
	path        string // of base, escaped
	versioned   string // the same with /v1 behind it
	credentials []credential
	weight      uint64
	keyless     *account          // of calls without a credential
	headers     map[string]string // by canonical name
	timeouts    timeouts
	pool        *pool
}

type credential struct {
	value   string
	bearer  string // with its scheme
	weight  uint64
	account *account
}

type timeouts struct{ firstToken, idle, total, stream time.Duration }

// Provider finds a provider by name; nil where there is none.
func (p *Plan) Provider(name string) *Provider { return p.providers[name] }

// Providers are all of them, by name.
func (p *Plan) Providers() []*Provider {
	return slices.SortedFunc(maps.Values(p.providers), func(a, b *Provider) int { return strings.Compare(a.Name, b.Name) })
}

// Compile resolves the providers' secrets and connects each provider to its
// pool, which outlives the plan. It notes secrets that cannot be resolved, and
// returns the secrets for redaction.
func (r *Room) Compile(list []ProviderConfig, p *setting.Problems) (Plan, []string) {
	plan := Plan{providers: make(map[string]*Provider, len(list))}
	var secrets []string
	for i := range list {
		c := &list[i]
		base, err := url.Parse(strings.TrimRight(c.BaseURL, "/"))
		if err != nil {
			p.Add(setting.Index("providers", i)+".base_url", "%q is not an address", c.BaseURL)
			continue
		}
		if c.Dialect != llm.OpenAI {
			base.Path = strings.TrimSuffix(base.Path, "/v1") // these dialects' paths bring their own
		}
		prov := &Provider{
			Name: c.Name, Dialect: c.Dialect, base: *base, path: base.EscapedPath(), headers: make(map[string]string, len(c.Headers)),
			timeouts: timeouts{c.Timeouts.FirstToken.Std(), c.Timeouts.Idle.Std(), c.Timeouts.Total.Std(), c.Timeouts.Stream.Std()},
			Pulse:    r.pulse(c.Name),
			keyless:  r.account(c.Name, ""),
			pool:     r.pool(c.Name, poolKey{base.Scheme + "://" + base.Host, c.Timeouts.Connect.Std(), c.MaxConnections, c.Transport}),
		}
		prov.versioned = prov.path + "/v1"
		for name, value := range c.Headers {
			prov.headers[http.CanonicalHeaderKey(name)] = value
		}
		for j, k := range c.Credentials {
			value, err := k.Secret.Resolve()
			if err != nil {
				p.Add(setting.Index(setting.Index("providers", i)+".credentials", j)+".secret", "%v", err)
				continue
			}
			prov.credentials = append(prov.credentials, credential{value, "Bearer " + value, uint64(k.Weight), r.account(c.Name, value)})
			prov.weight += uint64(k.Weight)
			secrets = append(secrets, value)
		}
		plan.providers[c.Name] = prov
	}
	return plan, secrets
}

// pick draws a credential by weight; nil where the provider has none.
func (p *Provider) pick() *credential {
	if len(p.credentials) == 0 {
		return nil
	}
	if len(p.credentials) > 1 {
		at := rand.Uint64N(p.weight)
		for i := range p.credentials {
			c := &p.credentials[i]
			if at < c.weight {
				return c
			}
			at -= c.weight
		}
	}
	return &p.credentials[0]
}

// target is where a call goes at the provider, in two parts: escaped, with the
// query.
func (p *Provider) target(call *llm.Call) (prefix, path string) {
	if p.Dialect == llm.Simulator && call.Dialect == llm.OpenAI {
		return p.versioned, call.Path
	}
	return p.path, call.Path
}

// Idle bounds the silence between two events of a stream; 0 is no bound.
func (p *Provider) Idle() time.Duration { return p.timeouts.idle }

// Leaks is whether a text holds one of the provider's credentials, or its
// address.
func (p *Provider) Leaks(text []byte) bool {
	for _, c := range p.credentials {
		if bytes.Contains(text, []byte(c.value)) {
			return true
		}
	}
	return bytes.Contains(text, []byte(p.base.Host))
}

// Redact takes the provider's credentials and address out of a text that came
// from the provider and is to go to a client.
func (p *Provider) Redact(text []byte) []byte {
	for _, c := range p.credentials {
		text = replaceAll(text, c.value, "[redacted]")
	}
	return replaceAll(text, p.base.Host, "[provider]")
}

// RedactURL takes the provider's credentials out of an address that it sends a
// client to. The host stays: without it there would be no address.
func (p *Provider) RedactURL(to string) string {
	for _, c := range p.credentials {
		if c.value != "" {
			to = strings.ReplaceAll(to, c.value, "redacted")
		}
	}
	return to
}
