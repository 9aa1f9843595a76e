package authn

import (
	"slices"
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
	// User is the person or program that calls with the key, for conditions and
	// quotas by user.
	User string `yaml:"user"`
	// Tier is the level of service, one of tiers.
	Tier string `yaml:"tier"`
	// Class is the priority class of the key's requests, P0, P1 or P2, in place
	// of the tier's.
	Class string `yaml:"class"`
	// Roles are the key's roles, as access.roles defines them.
	Roles []string `yaml:"roles"`
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

// TierConfig is a level of service.
type TierConfig struct {
	// Concurrent is how many requests a principal of the tier may have at a
	// time; 0 sets no bound.
	Concurrent int `yaml:"concurrent"`
	// Class is the priority class of the tier's requests: P0, P1 or P2.
	Class string `yaml:"class"`
	// Weight is the tier's share against other tiers when requests must wait;
	// default is 1.
	Weight int `yaml:"weight"`
	// MaxRate is the most requests that a token's quota claim can grant, such as
	// 50/s, and what a token without that claim gets; absent sets no bound.
	MaxRate setting.Rate `yaml:"max_rate"`
}

// Classes are the priority classes, the most urgent first.
var Classes = []string{"P0", "P1", "P2"}

// Config is who may call and what they may do.
type Config struct {
	// Auth is keys, for keys and tokens, or none to let everyone in; none is
	// allowed for loopback listeners only.
	Auth   string
	Keys   []KeyConfig
	Tiers  map[string]TierConfig
	JWT    []JWTConfig
	Access AccessConfig
	// Minted is whether there may be keys that the gateway minted, so that no
	// key of the configuration is needed.
	Minted bool
}

// Validate notes every mistake. The paths are those of the configuration's top
// level, where the fields stand.
func (c *Config) Validate(p *setting.Problems) {
	switch c.Auth {
	case "", "keys":
		if len(c.Keys) == 0 && len(c.JWT) == 0 && !c.Minted {
			p.Add("keys", "there are none, so no one could call; add a key, or write \"auth: none\" for a loopback listener")
		}
	case "none":
	default:
		p.Add("auth", "%q is not a way to authenticate; write keys or none", c.Auth)
	}
	names := map[string]int{}
	for i := range c.Keys {
		c.validateKey(p, i, names)
	}
	for _, name := range sortedNames(c.Tiers) {
		t := c.Tiers[name]
		path := "tiers." + name
		setting.CheckName(p, path, name)
		checkClass(p, path+".class", t.Class)
		if t.Concurrent < 0 {
			p.Add(path+".concurrent", "%d is less than none; write how many requests at a time, or 0 for no bound", t.Concurrent)
		}
		if t.Weight < 0 {
			p.Add(path+".weight", "%d is not a share; write 1 or more", t.Weight)
		}
	}
	c.validateJWT(p)
	c.Access.validate(p)
}

func (c *Config) validateKey(p *setting.Problems, i int, names map[string]int) {
	k := &c.Keys[i]
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
	c.checkTier(p, path+".tier", k.Tier)
	checkClass(p, path+".class", k.Class)
	c.Access.checkRoles(p, path+".roles", k.Roles)
	checkScopes(p, path+".scopes", k.Scopes)
}

func (c *Config) checkTier(p *setting.Problems, path, tier string) {
	if _, ok := c.Tiers[tier]; tier == "" || ok {
		return
	}
	if len(c.Tiers) == 0 {
		p.Add(path, "there is no tier %q, nor any other; add it to tiers, such as {%s: {class: P1}}", tier, tier)
		return
	}
	p.Add(path, "there is no tier %q; known tiers are %s", tier, list(sortedNames(c.Tiers)))
}

func checkClass(p *setting.Problems, path, class string) {
	if class != "" && !slices.Contains(Classes, class) {
		p.Add(path, "%q is not a priority class; write P0, P1 or P2", class)
	}
}

// Plan is the compiled configuration.
type Plan struct {
	keys   map[digest]*Grant
	open   *Grant  // everyone's grant when no keys are needed
	tokens *tokens // nil where no issuer is trusted
	tiers  map[string]TierConfig
	access access
}

// Compile resolves the keys' secrets and compiles what can be. It notes secrets
// that cannot be resolved or that two keys share, and returns the secrets for
// redaction.
func (c *Config) Compile(p *setting.Problems) (Plan, []string) {
	plan := Plan{keys: make(map[digest]*Grant, len(c.Keys)), tiers: c.Tiers, access: c.Access.compile(p)}
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
	tokens, more := c.compileJWT(p)
	plan.tokens = tokens
	return plan, append(secrets, more...)
}

// minSecret keeps out what is surely a mistake; the contract's own examples are
// short.
const minSecret = 4

func (k *KeyConfig) grant() *Grant {
	g := &Grant{
		Principal: llm.Principal{Key: k.Name, Tenant: k.Tenant, User: k.User, Tier: k.Tier},
		class:     k.Class, roles: k.Roles, models: k.Models, scopes: canonicalScopes(k.Scopes), expires: k.Expires,
	}
	if g.Tenant == "" {
		g.Tenant = k.Name
	}
	return g
}

// Tier is what the grant's tier means; the zero value where it has none.
func (p *Plan) Tier(g *Grant) TierConfig { return p.tiers[g.Tier] }

// Class is the priority class of the grant's requests: its own, or else its
// tier's, "" where neither says one.
func (p *Plan) Class(g *Grant) string {
	if g.class != "" {
		return g.class
	}
	return p.tiers[g.Tier].Class
}
