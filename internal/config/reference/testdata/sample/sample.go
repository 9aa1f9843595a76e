// Package sample is a configuration for the tests of package reference.
package sample

import (
	"time"

	"github.com/headgate-ai/headgate/internal/config/decode"
	"github.com/headgate-ai/headgate/internal/setting"
)

// Config is everything that can be set.
type Config struct {
	Server Server `yaml:"server"`
	// Providers are the services that answer. At least one is needed.
	Providers []*Provider `yaml:"providers"`
	// Limits bounds each tenant, by its name.
	Limits map[string]Limit `yaml:"limits"`
	Common `yaml:",inline"`
	Plan   Plan `yaml:"plan"`
	// Compiled is no setting.
	Compiled int
}

// Common is inlined.
type Common struct {
	// Auth is "keys" or "none": who may call.
	Auth string `yaml:"auth"`
}

// Server is where the gateway listens.
//
// Changing it needs a restart.
type Server struct {
	// Listen is the address, as host:port.
	Listen string `yaml:"listen"`
	// MaxBody bounds a request's body | in bytes.
	MaxBody setting.Size     `yaml:"max_body"`
	Grace   setting.Duration `yaml:"grace"` // Grace is how long streams may take to end.
	Wait    time.Duration    `yaml:"wait"`
	Debug   bool             `yaml:"debug"`
	Ports   []uint16         `yaml:"ports"`
	// TLS has no type of its own.
	TLS struct {
		// Cert is the path of the certificate.
		Cert string `yaml:"cert"`
	} `yaml:"tls"`
}

// Provider is one service.
type Provider struct {
	Name    string            `yaml:"name"`
	Secret  []setting.Secret  `yaml:"secrets"`
	Weight  float64           `yaml:"weight"`
	Since   *time.Time        `yaml:"since"`
	Headers map[string]string `yaml:"headers"`
	// Fallback stands in for the provider.
	Fallback *Provider `yaml:"fallback"`
	Extra    any       `yaml:"extra"`
}

// SetDefaults fills in what a provider starts from.
func (p *Provider) SetDefaults() { p.Weight = 1 }

// Limit is how much a tenant may use.
type Limit struct {
	// Max is the number of requests.
	Max int8 `yaml:"max"`
}

// Plan decodes itself.
type Plan struct{ kind string }

// DecodeSetting takes the short form.
func (p *Plan) DecodeSetting(n *decode.Node) { p.kind, _ = n.Text() }
