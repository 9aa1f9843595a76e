package authn

import (
	"cmp"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/headgate-ai/headgate/internal/llm"
)

func (c ClaimsConfig) withDefaults() ClaimsConfig {
	c.Tenant, c.Tier, c.Quota = cmp.Or(c.Tenant, "tenant"), cmp.Or(c.Tier, "tier"), cmp.Or(c.Quota, "quota")
	c.Roles, c.User = cmp.Or(c.Roles, "roles"), cmp.Or(c.User, "sub")
	return c
}

// grant reads the claims of a token whose signature is right. Who issues
// tokens is trusted with who someone is, but not with its types: a claim that
// is not what it should be counts as missing.
func (is *issuer) grant(claims map[string]any) *Grant {
	c := &is.claims
	g := &Grant{
		Principal: llm.Principal{
			Key:    is.name,
			Tenant: cmp.Or(word(claims, c.Tenant), is.tenant),
			User:   word(claims, c.User),
			Tier:   is.tierOf(word(claims, c.Tier)),
		},
		roles:  words(claims, c.Roles),
		claims: claims,
		models: words(claims, c.Models),
	}
	if scopes := words(claims, c.Scopes); scopes != nil {
		g.scopes = []string{} // a token that lists scopes has no others, even if it lists none
		g.scopes = append(g.scopes, canonicalScopes(scopes)...)
	}
	g.Rate = is.rate(claims, g.Tier)
	return g
}

// tierOf takes a tier's name for what it is only if there is such a tier.
func (is *issuer) tierOf(name string) string {
	if _, ok := is.caps[name]; ok {
		return name
	}
	return is.tier
}

// rate is the quota that a token grants, in requests per second. A token must
// not raise its own limit, so the tier bounds it, and is what a token without
// a quota gets.
func (is *issuer) rate(claims map[string]any, tier string) float64 {
	bound := is.caps[tier]
	quota, ok := lookup(claims, is.claims.Quota).(float64)
	if !ok || !(quota > 0) || math.IsInf(quota, 0) {
		return bound
	}
	if bound > 0 {
		return min(quota, bound)
	}
	return quota
}

// lookup finds a claim. A name with dots is tried as it stands, and then as a
// way into objects.
func lookup(claims map[string]any, name string) any {
	if v, ok := claims[name]; ok || name == "" {
		return v
	}
	first, rest, nested := strings.Cut(name, ".")
	if !nested {
		return nil
	}
	inner, _ := claims[first].(map[string]any)
	return lookup(inner, rest)
}

const (
	maxWord  = 256 // bytes of a name in a claim
	maxWords = 256
)

// word is a claim that is a name, "" for none.
func word(claims map[string]any, name string) string {
	s, _ := lookup(claims, name).(string)
	if !isWord(s) {
		return ""
	}
	return s
}

// isWord is whether a text can be a name: records, metrics and headers show it.
func isWord(s string) bool {
	return s != "" && len(s) <= maxWord && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// words is a claim that is a list of names, or a text of them with spaces in
// between as in RFC 8693 section 4.2; nil where there is none.
func words(claims map[string]any, name string) []string {
	var all []string
	switch v := lookup(claims, name).(type) {
	case string:
		all = strings.Fields(v)
	case []any:
		all = make([]string, 0, min(len(v), maxWords))
		for _, e := range v {
			if s, ok := e.(string); ok {
				all = append(all, s)
			}
		}
	default:
		return nil
	}
	good := make([]string, 0, min(len(all), maxWords))
	for _, s := range all {
		if isWord(s) && len(good) < maxWords {
			good = append(good, s)
		}
	}
	return good
}
