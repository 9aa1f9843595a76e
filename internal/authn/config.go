package authn

import (
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
)

// KeyConfig is one API key that clients call with.
type KeyConfig struct {
	// Name is how the key is called in records and metrics.
	Name string `yaml:"name"`
	// Secret is the key itself, as a reference.
	Secret setting.Secret `yaml:"secret"`
	// Tenant is who the key belongs to; default is the key's name.
	Tenant string `yaml:"tenant"`
	// Models are the models that the key may use, by the names clients call, as
	// globs; all when absent.
	Models []string `yaml:"models"`
	// Scopes are what the key may do: chat:write, embeddings:write,
	// moderations:write, images:write, audio:write, models:read, with * for a
	// part, or inference for everything but models:read; all when absent.
	Scopes []string `yaml:"scopes"`
	// Expires is when the key stops working, as a date or a time of RFC 3339.
	Expires time.Time `yaml:"expires"`
}

// Config is the list of keys, and whether keys are needed at all.
type Config struct {
	// Auth is keys, or none to let everyone in; none is allowed for loopback
	// listeners only.
	Auth string
	Keys []KeyConfig
}

// Validate notes every mistake. The paths are those of the configuration's top
// level, where both fields stand.
func (c *Config) Validate(p *setting.Problems) {
	switch c.Auth {
	case "", "keys":
		if len(c.Keys) == 0 {
			p.Add("keys", "there are none, so no one could call; add a key, or write \"auth: none\" for a loopback listener")
		}
	case "none":
	default:
		p.Add("auth", "%q is not a way to authenticate; write keys or none", c.Auth)
	}
	names := map[string]int{}
	for i, k := range c.Keys {
		path := setting.Index("keys", i)
		setting.CheckName(p, path+".name", k.Name)
		if j, dup := names[k.Name]; dup && k.Name != "" {
			p.Add(path+".name", "%q is already the name of keys[%d]; names must differ", k.Name, j)
		}
		names[k.Name] = i
		if k.Secret.IsZero() {
			p.Add(path+".secret", "is missing; write env:NAME, file:PATH or literal:VALUE")
		}
		if k.Tenant != "" {
			setting.CheckName(p, path+".tenant", k.Tenant)
		}
		for j, s := range k.Scopes {
			if !knownScope(canonicalScope(s)) {
				p.Add(setting.Index(path+".scopes", j), "unknown scope %q; known scopes are %s", s, strings.Join(known(), ", "))
			}
		}
	}
}

// Plan is the compiled list of keys.
type Plan struct {
	keys map[digest]*Grant
	open *Grant // everyone's grant when no keys are needed
}

// Compile resolves the keys' secrets. It notes secrets that cannot be resolved
// or that two keys share, and returns the secrets for redaction.
func (c *Config) Compile(p *setting.Problems) (Plan, []string) {
	plan := Plan{keys: make(map[digest]*Grant, len(c.Keys))}
	if c.Auth == "none" {
		plan.open = &Grant{Principal: llm.Principal{Key: "anonymous", Tenant: "anonymous"}}
	}
	var secrets []string
	for i := range c.Keys {
		k := &c.Keys[i]
		path := setting.Index("keys", i) + ".secret"
		secret, err := k.Secret.Resolve()
		if err != nil {
			p.Add(path, "%v", err)
			continue
		}
		if len(secret) < minSecret {
			p.Add(path, "the secret has %d characters; a key needs at least %d", len(secret), minSecret)
			continue
		}
		d := hash(secret)
		if other, dup := plan.keys[d]; dup {
			p.Add(path, "is the same secret as that of key %q; every key needs its own", other.Key)
			continue
		}
		plan.keys[d] = k.grant()
		secrets = append(secrets, secret)
	}
	return plan, secrets
}

// minSecret keeps out what is surely a mistake; the contract's own examples are
// short.
const minSecret = 4

func (k *KeyConfig) grant() *Grant {
	g := &Grant{Principal: llm.Principal{Key: k.Name, Tenant: k.Tenant}, models: k.Models, expires: k.Expires}
	if g.Tenant == "" {
		g.Tenant = k.Name
	}
	for _, s := range k.Scopes {
		g.scopes = append(g.scopes, canonicalScope(s))
	}
	return g
}
