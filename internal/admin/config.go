package admin

import (
	"os"
	"path/filepath"

	"github.com/headgate-ai/headgate/internal/setting"
)

// Config is the listener for operators: the section server.admin.
type Config struct {
	// Listen is the address of health checks, metrics and the admin API, as
	// host:port.
	Listen string `yaml:"listen"`
	// Token is what operators send as Authorization: Bearer; it is required
	// when the listener can be reached from other machines.
	Token setting.Secret `yaml:"token"`
	// Audit is a file that every change by an operator is appended to, a JSON
	// object a line, beside the latest 1000 that are kept in memory for
	// GET /admin/v1/audit. Takes effect at start.
	Audit string `yaml:"audit"`
}

// Default is the configuration that names nothing.
func Default() Config { return Config{Listen: "127.0.0.1:8081"} }

// Validate notes every mistake.
func (c *Config) Validate(path string, p *setting.Problems) {
	setting.CheckListen(p, path+".listen", c.Listen)
	if c.Audit != "" {
		if i, err := os.Stat(filepath.Dir(c.Audit)); err != nil || !i.IsDir() {
			p.Add(path+".audit", "the folder %s does not exist; create it, or leave the path empty to keep the record in memory", filepath.Dir(c.Audit))
		}
	}
	if c.Token.IsZero() && !setting.Loopback(c.Listen) {
		p.Add(path+".token", "is missing, and %q can be reached from other machines; set a token, or listen on 127.0.0.1", c.Listen)
	}
}
