package authn

import (
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/setting"
)

// JWTConfig is one issuer whose signed tokens (JSON Web Tokens, RFC 7519) are
// accepted as credentials. A token must say its issuer, its audience and when
// it expires.
type JWTConfig struct {
	// Name is what the issuer's tokens are called in records and metrics, where
	// an API key has its name; default is jwt.
	Name string `yaml:"name"`
	// Issuer is the iss claim that tokens must have, exactly.
	Issuer string `yaml:"issuer"`
	// Audience is what the aud claim must name.
	Audience string `yaml:"audience"`
	// Audiences are more of them; a token names at least one.
	Audiences []string `yaml:"audiences"`
	// Keys are the issuer's public keys, as a JWK set (RFC 7517): file:PATH, or
	// its https:// address, which is fetched every five minutes and when a token
	// names a key that is not known yet. Plain http:// is for addresses on
	// loopback.
	Keys string `yaml:"keys"`
	// Secret is the shared secret of issuers that sign with HMAC, as a
	// reference; at least 32 bytes.
	Secret setting.Secret `yaml:"secret"`
	// Algorithms are the signatures that are accepted; default is RS256, RS384,
	// RS512, PS256, ES256, ES384 and EdDSA with keys, and HS256, HS384 and HS512
	// with a secret.
	Algorithms []string `yaml:"algorithms"`
	// Leeway is how far the issuer's clock may be off; default is 30s.
	Leeway setting.Duration `yaml:"leeway"`
	// Tenant is whom tokens belong to that do not say it; default is the name.
	Tenant string `yaml:"tenant"`
	// Tier is the level of service of tokens that do not say one of tiers.
	Tier string `yaml:"tier"`
	// Claims say which claims hold what.
	Claims ClaimsConfig `yaml:"claims"`
}

// ClaimsConfig names the claims of a token that the gateway reads. A dot leads
// into an object, as in realm_access.roles. A claim that is missing or of
// another type counts as not there.
type ClaimsConfig struct {
	// Tenant is the claim with the tenant; default is tenant.
	Tenant string `yaml:"tenant"`
	// Tier is the claim with the level of service; default is tier.
	Tier string `yaml:"tier"`
	// Quota is the claim with a number of requests per second, which the tier's
	// max_rate bounds; default is quota.
	Quota string `yaml:"quota"`
	// Roles is the claim with a list of roles, or with text that separates them
	// by spaces; default is roles.
	Roles string `yaml:"roles"`
	// User is the claim with the user; default is sub.
	User string `yaml:"user"`
	// Models is the claim with a list of the models that may be used, as globs;
	// where it is not set, or a token does not have it, all may be.
	Models string `yaml:"models"`
	// Scopes is the claim with a list of scopes, or with text that separates
	// them by spaces; where it is not set, or a token does not have it, scopes
	// hold nothing back.
	Scopes string `yaml:"scopes"`
}

var (
	asymmetric = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
	symmetric  = []string{"HS256", "HS384", "HS512"}
	// usual are the ones that are accepted where nothing is said.
	usual = []string{"RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"}
)

const (
	defaultLeeway = 30 * time.Second
	maxLeeway     = 5 * time.Minute
	// minHMAC is the length of a secret that RFC 7518 section 3.2 asks for.
	minHMAC = 32
)

func (c *Config) validateJWT(p *setting.Problems) {
	issuers, names := map[string]int{}, map[string]int{}
	for i := range c.JWT {
		j := &c.JWT[i]
		path := setting.Index("jwt", i)
		if j.Name != "" {
			setting.CheckName(p, path+".name", j.Name)
		}
		if k, dup := names[j.name()]; dup {
			p.Add(path+".name", "%q is already the name of jwt[%d]; names must differ", j.name(), k)
		}
		names[j.name()] = i
		if j.Issuer == "" {
			p.Add(path+".issuer", "is missing; write the iss claim of its tokens, such as https://login.example")
		} else if k, dup := issuers[j.Issuer]; dup {
			p.Add(path+".issuer", "%q is already the issuer of jwt[%d]; list all its audiences there", j.Issuer, k)
		}
		issuers[j.Issuer] = i
		if len(j.audiences()) == 0 {
			p.Add(path+".audience", "is missing; write the aud claim that tokens for this gateway have, or tokens for others would do")
		}
		j.validateKeys(p, path)
		if j.Leeway < 0 || j.Leeway.Std() > maxLeeway {
			p.Add(path+".leeway", "%s is not between 0s and %s", j.Leeway.Std(), maxLeeway)
		}
		if j.Tenant != "" {
			setting.CheckName(p, path+".tenant", j.Tenant)
		}
		c.checkTier(p, path+".tier", j.Tier)
	}
}

func (j *JWTConfig) validateKeys(p *setting.Problems, path string) {
	if j.Keys == "" && j.Secret.IsZero() {
		p.Add(path+".keys", "is missing; write file:PATH or the https:// address of the issuer's JWK set, or a secret for HMAC")
	}
	if j.Keys != "" && j.File() == "" && !fetchable(j.Keys) {
		p.Add(path+".keys", "%q is neither file:PATH nor an https:// address; plain http:// is for loopback only, because who alters keys on their way lets in whom they like", withoutPassword(j.Keys))
	}
	for i, a := range j.Algorithms {
		at := setting.Index(path+".algorithms", i)
		switch {
		case slices.Contains(symmetric, a) && j.Secret.IsZero():
			p.Add(at, "%s needs a secret; a public key must not verify it", a)
		case slices.Contains(asymmetric, a) && j.Keys == "":
			p.Add(at, "%s needs keys", a)
		case !slices.Contains(symmetric, a) && !slices.Contains(asymmetric, a):
			p.Add(at, "%q is not an algorithm; write some of %s, or of %s with a secret", a, list(asymmetric), list(symmetric))
		}
	}
}

// File is the path of a key set that is a file, else "".
func (j *JWTConfig) File() string {
	path, ok := strings.CutPrefix(j.Keys, "file:")
	if !ok {
		return ""
	}
	return path
}

func (j *JWTConfig) name() string {
	if j.Name == "" {
		return "jwt"
	}
	return j.Name
}

func (j *JWTConfig) audiences() []string {
	all := slices.Clone(j.Audiences)
	if j.Audience != "" {
		all = append(all, j.Audience)
	}
	return all
}

func (j *JWTConfig) algorithms() (all []string) {
	if len(j.Algorithms) > 0 {
		return j.Algorithms
	}
	if j.Keys != "" {
		all = append(all, usual...)
	}
	if !j.Secret.IsZero() {
		all = append(all, symmetric...)
	}
	return all
}

// fetchable is whether an address may be asked for keys.
func fetchable(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return false
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return u.Scheme == "https" || u.Scheme == "http" && setting.Loopback(strings.TrimSuffix(u.Host, ":"+port)+":"+port)
}

func withoutPassword(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Redacted()
	}
	return "the address"
}

// compileJWT reads key files and secrets. It returns the secrets for redaction.
func (c *Config) compileJWT(p *setting.Problems) (*tokens, []string) {
	if len(c.JWT) == 0 {
		return nil, nil
	}
	t := &tokens{issuers: make(map[string]*issuer, len(c.JWT))}
	var secrets []string
	for i := range c.JWT {
		j := &c.JWT[i]
		path := setting.Index("jwt", i)
		is := newIssuer(j, c.Tiers)
		if !j.Secret.IsZero() {
			secret, err := j.Secret.Resolve()
			switch {
			case err != nil:
				p.Add(path+".secret", "%v", err)
			case len(secret) < minHMAC:
				p.Add(path+".secret", "the secret has %d bytes; HMAC needs at least %d (RFC 7518 section 3.2)", len(secret), minHMAC)
			default:
				is.secret = []byte(secret)
				secrets = append(secrets, secret)
			}
		}
		if file := j.File(); file != "" {
			is.fixed = readKeys(p, path+".keys", file)
		} else {
			is.url = j.Keys
		}
		t.issuers[j.Issuer] = is
	}
	return t, secrets
}

func readKeys(p *setting.Problems, path, file string) *publicKeys {
	data, err := os.ReadFile(file)
	if err != nil {
		p.Add(path, "cannot read the key set: %v", err)
		return nil
	}
	keys, err := parseKeys(data)
	if err != nil {
		p.Add(path, "the file %s: %v", file, err)
		return nil
	}
	return keys
}
