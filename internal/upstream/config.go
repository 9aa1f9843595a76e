package upstream

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
	"github.com/headgate-ai/headgate/lab/fake"
)

// ProviderConfig is one service that answers calls.
type ProviderConfig struct {
	// Name is how models refer to the provider, and the part before the slash
	// where a client addresses it directly.
	Name string `yaml:"name"`
	// Dialect is the wire protocol that the provider speaks: openai, anthropic
	// or simulator (the built-in model, which speaks whichever is asked).
	Dialect llm.Dialect `yaml:"dialect"`
	// BaseURL is the address below which the dialect's paths lie: for openai it
	// ends in the version (https://api.openai.com/v1), for anthropic it does not
	// (https://api.anthropic.com). The simulator needs none.
	BaseURL string `yaml:"base_url"`
	// Credentials are the provider's keys; calls are spread over them by weight.
	Credentials []CredentialConfig `yaml:"credentials"`
	// Timeouts are the bounds on the phases of a call.
	Timeouts TimeoutsConfig `yaml:"timeouts"`
	// Headers are added to every request to the provider, and win over the
	// client's.
	Headers map[string]string `yaml:"headers"`
	// MaxConnections bounds the connections to the provider; 0 is no bound.
	// Above it calls wait for a connection.
	MaxConnections int `yaml:"max_connections"`
	// Transport is the HTTP client towards the provider: h1, our own for
	// HTTP/1.1; std, that of Go, which also speaks HTTP/2 and knows proxies; or
	// auto, std for HTTP/2 and proxies and h1 for everything else.
	Transport string `yaml:"transport"`
	// Simulator is how the built-in model behaves, for the dialect simulator.
	Simulator fake.Config `yaml:"simulator"`
}

// CredentialConfig is one of a provider's keys.
type CredentialConfig struct {
	// Secret is the key, as a reference.
	Secret setting.Secret `yaml:"secret"`
	// Weight is the key's share of the calls, beside the other keys' weights.
	Weight int `yaml:"weight"`
}

// SetDefaults fills in what a credential leaves out.
func (c *CredentialConfig) SetDefaults() { c.Weight = 1 }

// TimeoutsConfig bounds the phases of a call; 0 is no bound.
type TimeoutsConfig struct {
	// Connect bounds the making of a connection, TLS included.
	Connect setting.Duration `yaml:"connect"`
	// FirstToken bounds the time from the request to the first content of a
	// streamed answer.
	FirstToken setting.Duration `yaml:"first_token"`
	// Idle bounds the silence between two events of a stream.
	Idle setting.Duration `yaml:"idle"`
	// Total bounds the whole of an answer that is not streamed. A stream may
	// last as long as its tokens keep coming.
	Total setting.Duration `yaml:"total"`
	// Stream bounds the whole of a streamed answer.
	Stream setting.Duration `yaml:"stream"`
}

// The transports.
const (
	transportAuto = "auto"
	transportH1   = "h1"
	transportStd  = "std"
)

// SetDefaults fills in what a provider leaves out.
func (c *ProviderConfig) SetDefaults() {
	c.Timeouts = TimeoutsConfig{
		Connect:    setting.Duration(5 * time.Second),
		FirstToken: setting.Duration(120 * time.Second),
		Idle:       setting.Duration(60 * time.Second),
		Total:      setting.Duration(600 * time.Second),
	}
	c.Transport = transportAuto
	c.Simulator = fake.Default()
}

// Validate notes every mistake in a list of providers.
func Validate(list []ProviderConfig, p *setting.Problems) {
	names := map[string]int{}
	for i := range list {
		c := &list[i]
		path := setting.Index("providers", i)
		setting.CheckName(p, path+".name", c.Name)
		if j, dup := names[c.Name]; dup && c.Name != "" {
			p.Add(path+".name", "%q is already the name of providers[%d]; names must differ", c.Name, j)
		}
		names[c.Name] = i
		c.validate(path, p)
	}
}

func (c *ProviderConfig) validate(path string, p *setting.Problems) {
	switch c.Dialect {
	case llm.OpenAI, llm.Anthropic:
		if c.BaseURL == "" {
			p.Add(path+".base_url", "is missing; write the provider's address, such as https://api.openai.com/v1")
		}
	case llm.Simulator:
		c.Simulator.Validate(path+".simulator", p)
	default:
		p.Add(path+".dialect", "unknown dialect %q; known dialects are openai, anthropic, simulator", string(c.Dialect))
	}
	if c.BaseURL != "" {
		checkURL(path+".base_url", c.BaseURL, p)
	}
	switch c.Transport {
	case transportAuto, transportH1, transportStd:
	default:
		p.Add(path+".transport", "unknown transport %q; known transports are auto, h1, std", c.Transport)
	}
	if c.MaxConnections < 0 {
		p.Add(path+".max_connections", "%d is negative; write 0 for no bound, or a bound", c.MaxConnections)
	}
	for i, k := range c.Credentials {
		at := setting.Index(path+".credentials", i)
		if k.Secret.IsZero() {
			p.Add(at+".secret", "is missing; write env:NAME, file:PATH or literal:VALUE")
		}
		if k.Weight < 1 || k.Weight > 1_000_000 {
			p.Add(at+".weight", "%d is not a weight; write a whole number from 1 to 1000000", k.Weight)
		}
	}
	for name, value := range c.Headers {
		if !validHeader(name, value) {
			p.Add(path+".headers."+name, "is not a header that can be sent; names are tokens, values have no line ends, and framing and credential headers are set by the gateway")
		}
	}
}

func checkURL(path, raw string, p *setting.Problems) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		p.Add(path, "%q is not an address; write one such as https://api.example.com/v1", raw)
	case u.User != nil:
		p.Add(path, "holds a user name or password; put the secret into credentials instead")
	case u.RawQuery != "" || u.Fragment != "":
		p.Add(path, "%q has a query or fragment; write only scheme, host and path", raw)
	}
}

func validHeader(name, value string) bool {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return r > 0x7e || r <= ' ' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	}) {
		return false
	}
	switch http.CanonicalHeaderKey(name) {
	case "Content-Length", "Transfer-Encoding", "Connection", "Host", "Trailer", "Te", "Upgrade":
		return false
	}
	return !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
