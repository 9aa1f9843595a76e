package edge

import (
	"net/netip"
	"os"
	"time"

	"github.com/headgate-ai/headgate/internal/setting"
)

// Config is the listener that clients call: the section server.api.
type Config struct {
	// Listen is the address that clients call, as host:port.
	Listen string `yaml:"listen"`
	// TLS makes the listener speak TLS; without it the listener speaks plain
	// HTTP/1.1 and HTTP/2 with prior knowledge (h2c).
	TLS TLSConfig `yaml:"tls"`
	// MaxBody bounds a request body, after decompression.
	MaxBody setting.Size `yaml:"max_body"`
	// MaxHeader bounds the header block of a request; a larger one is answered
	// with 431.
	MaxHeader setting.Size `yaml:"max_header"`
	// ShutdownGrace is how long open requests may go on after SIGTERM before
	// they are ended with an error of their dialect.
	ShutdownGrace setting.Duration `yaml:"shutdown_grace"`
	// HeaderTimeout is how long a client may take to send a request's header.
	HeaderTimeout setting.Duration `yaml:"header_timeout"`
	// BodyTimeout is how long a client may take to send a request's body, beside
	// one second for every 64 KiB of it.
	BodyTimeout setting.Duration `yaml:"body_timeout"`
	// IdleTimeout closes a connection without a request for this long.
	IdleTimeout setting.Duration `yaml:"idle_timeout"`
	// MaxConnections bounds the open client connections; 0 is no bound. Above it
	// new connections wait to be accepted.
	MaxConnections int `yaml:"max_connections"`
	// MaxStreams is the number of concurrent requests on one HTTP/2 connection
	// (SETTINGS_MAX_CONCURRENT_STREAMS).
	MaxStreams int `yaml:"max_streams"`
	// RequestID says what to do with a request that has no usable X-Request-ID:
	// generate mints one, require refuses the request.
	RequestID string `yaml:"request_id"`
	// FastPath says who serves plain HTTP/1.1 inference calls: auto, the
	// gateway's own loop, which gives everything unusual to Go's server; or off,
	// Go's server alone. Takes effect at start.
	FastPath string `yaml:"fast_path"`
	// TrustedProxies are the networks, as CIDR, whose X-Forwarded-* headers are
	// believed; those of everyone else are dropped.
	TrustedProxies []string `yaml:"trusted_proxies"`
}

// TLSConfig is the certificate of a listener.
type TLSConfig struct {
	// Cert is the PEM file of the certificate chain.
	Cert string `yaml:"cert"`
	// Key is the PEM file of the private key.
	Key string `yaml:"key"`
	// MinVersion is the oldest TLS version to accept: 1.3 or 1.2.
	MinVersion string `yaml:"min_version"`
	// TicketKeys is a secret of at least 32 bytes from which the session ticket
	// keys are derived, so that replicas behind one address resume each other's
	// sessions. Without it every process makes its own.
	TicketKeys setting.Secret `yaml:"ticket_keys"`
}

// Enabled is whether the listener speaks TLS.
func (c TLSConfig) Enabled() bool { return c.Cert != "" || c.Key != "" }

// Default is the configuration of a listener that names nothing.
func Default() Config {
	return Config{
		Listen:        "127.0.0.1:8080",
		TLS:           TLSConfig{MinVersion: "1.3"},
		MaxBody:       64 << 20,
		MaxHeader:     64 << 10,
		ShutdownGrace: setting.Duration(30 * time.Second),
		HeaderTimeout: setting.Duration(10 * time.Second),
		BodyTimeout:   setting.Duration(60 * time.Second),
		IdleTimeout:   setting.Duration(120 * time.Second),
		MaxStreams:    200,
		RequestID:     "generate",
		FastPath:      "auto",
	}
}

// Validate notes every mistake in the configuration.
func (c *Config) Validate(path string, p *setting.Problems) {
	setting.CheckListen(p, path+".listen", c.Listen)
	c.TLS.validate(path+".tls", p)
	if c.MaxBody < 1<<10 {
		p.Add(path+".max_body", "%d bytes is too small for any request; write at least 1KiB", c.MaxBody)
	}
	if c.MaxHeader < 4<<10 || c.MaxHeader > 16<<20 {
		p.Add(path+".max_header", "must lie between 4KiB and 16MiB")
	}
	if c.MaxStreams < 1 || c.MaxStreams > 1<<20 {
		p.Add(path+".max_streams", "%d is not a usable number of streams; write one between 1 and 1048576", c.MaxStreams)
	}
	if c.MaxConnections < 0 {
		p.Add(path+".max_connections", "%d is negative; write 0 for no bound, or a bound", c.MaxConnections)
	}
	if c.RequestID != "generate" && c.RequestID != "require" {
		p.Add(path+".request_id", "%q is not a mode; write generate or require", c.RequestID)
	}
	if c.FastPath != "auto" && c.FastPath != "off" {
		p.Add(path+".fast_path", "%q is not a mode; write auto or off", c.FastPath)
	}
	for i, cidr := range c.TrustedProxies {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			p.Add(setting.Index(path+".trusted_proxies", i), "%q is not a network; write it as CIDR, such as 10.0.0.0/8", cidr)
		}
	}
	for name, d := range map[string]setting.Duration{".header_timeout": c.HeaderTimeout, ".body_timeout": c.BodyTimeout, ".idle_timeout": c.IdleTimeout} {
		if d == 0 {
			p.Add(path+name, "must be more than zero: a client that sends nothing would hold its connection for ever")
		}
	}
}

func (c *TLSConfig) validate(path string, p *setting.Problems) {
	if c.MinVersion != "1.2" && c.MinVersion != "1.3" {
		p.Add(path+".min_version", "%q is not a TLS version to serve; write \"1.3\" or \"1.2\"", c.MinVersion)
	}
	if !c.Enabled() {
		return
	}
	for name, file := range map[string]string{".cert": c.Cert, ".key": c.Key} {
		if file == "" {
			p.Add(path+name, "is missing; TLS needs both cert and key, each a PEM file")
		} else if _, err := os.Stat(file); err != nil {
			p.Add(path+name, "the file %q cannot be read; name a PEM file", file)
		}
	}
}

// Plan is the compiled configuration that requests are served by.
type Plan struct {
	maxBody     int64
	bodyTimeout time.Duration
	requireID   bool
	trusted     []netip.Prefix
}

// Compile makes the plan of a valid configuration.
func (c *Config) Compile() Plan {
	p := Plan{maxBody: int64(c.MaxBody), bodyTimeout: c.BodyTimeout.Std(), requireID: c.RequestID == "require"}
	for _, cidr := range c.TrustedProxies {
		if prefix, err := netip.ParsePrefix(cidr); err == nil {
			p.trusted = append(p.trusted, prefix.Masked())
		}
	}
	return p
}
