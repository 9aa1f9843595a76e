package upstream

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"net/url"
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
	credentials []credential
	weight      uint64
	headers     http.Header
	timeouts    timeouts
	pool        *pool
}

type credential struct {
	value  string
	weight uint64
}

type timeouts struct{ firstToken, idle, total, stream time.Duration }

// Provider finds a provider by name; nil where there is none.
func (p *Plan) Provider(name string) *Provider { return p.providers[name] }

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
			Name: c.Name, Dialect: c.Dialect, base: *base, headers: http.Header{},
			timeouts: timeouts{c.Timeouts.FirstToken.Std(), c.Timeouts.Idle.Std(), c.Timeouts.Total.Std(), c.Timeouts.Stream.Std()},
			Pulse:    r.pulse(c.Name),
			pool:     r.pool(c.Name, poolKey{base.Scheme + "://" + base.Host, c.Timeouts.Connect.Std(), c.MaxConnections, c.Transport}),
		}
		for name, value := range c.Headers {
			prov.headers.Set(name, value)
		}
		for j, k := range c.Credentials {
			value, err := k.Secret.Resolve()
			if err != nil {
				p.Add(setting.Index(setting.Index("providers", i)+".credentials", j)+".secret", "%v", err)
				continue
			}
			prov.credentials = append(prov.credentials, credential{value, uint64(k.Weight)})
			prov.weight += uint64(k.Weight)
			secrets = append(secrets, value)
		}
		plan.providers[c.Name] = prov
	}
	return plan, secrets
}

// pick draws a credential by weight; "" where the provider has none.
func (p *Provider) pick() string {
	if len(p.credentials) == 0 {
		return ""
	}
	if len(p.credentials) == 1 {
		return p.credentials[0].value
	}
	at := rand.Uint64N(p.weight)
	for _, c := range p.credentials {
		if at < c.weight {
			return c.value
		}
		at -= c.weight
	}
	return p.credentials[0].value
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
