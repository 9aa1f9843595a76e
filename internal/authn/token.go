package authn

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/setting"
)

// tokens is the compiled part of a plan that is about tokens. Its address is
// the plan's identity in the cache: a reload forgets what was verified before.
type tokens struct {
	issuers map[string]*issuer // by iss
}

// issuer is one that is trusted.
type issuer struct {
	name, tenant, tier string
	algorithms         []string
	secret             []byte      // for HMAC, and for nothing else
	fixed              *publicKeys // of a file
	url                string      // of a set that the room fetches, or ""
	options            []jwt.ParserOption
	leeway             time.Duration
	claims             ClaimsConfig
	caps               map[string]float64 // requests per second by tier; 0 is none
}

func newIssuer(j *JWTConfig, tiers map[string]TierConfig) *issuer {
	is := &issuer{
		name: j.name(), tenant: j.Tenant, tier: j.Tier, algorithms: j.algorithms(), leeway: j.Leeway.Std(),
		claims: j.Claims.withDefaults(), caps: make(map[string]float64, len(tiers)),
	}
	if is.tenant == "" {
		is.tenant = is.name
	}
	if is.leeway == 0 {
		is.leeway = defaultLeeway
	}
	for name, t := range tiers {
		is.caps[name] = perSecond(t.MaxRate)
	}
	is.options = []jwt.ParserOption{
		jwt.WithIssuer(j.Issuer), jwt.WithAudience(j.audiences()...), jwt.WithExpirationRequired(), jwt.WithLeeway(is.leeway),
	}
	return is
}

func perSecond(r setting.Rate) float64 {
	if r.Period <= 0 {
		return 0
	}
	return float64(r.Count) / r.Period.Seconds()
}

func (t *tokens) urls() (all []string) {
	for _, is := range t.issuers {
		if is.url != "" {
			all = append(all, is.url)
		}
	}
	return all
}

// looksLikeToken is whether a credential is a JWT by its form: three parts, of
// which the first is a JSON object with an algorithm. Anything else is an API
// key, and that it has dots means nothing.
func looksLikeToken(s string) bool {
	header, rest, ok := strings.Cut(s, ".")
	if !ok || strings.Count(rest, ".") != 1 || len(header) > maxToken {
		return false
	}
	data, err := base64.RawURLEncoding.DecodeString(header)
	if err != nil {
		return false
	}
	var h map[string]any
	if json.Unmarshal(data, &h) != nil {
		return false
	}
	_, ok = h["alg"]
	return ok
}

// maxToken bounds a token, in bytes; real ones with many groups have 4 KiB.
const maxToken = 16 << 10

// What a token may be refused for. The sentences never repeat any of it.
var (
	errTooLong    = refused("The token is longer than 16 KiB.")
	errMalformed  = refused("The token is not a JSON Web Token that can be read.")
	errAlgorithm  = refused("The token is signed with an algorithm that is not accepted here.")
	errIssuer     = refused("The token's issuer is not trusted here.")
	errCritical   = refused("The token has extensions that must be understood and are not (crit).")
	errUnknownKey = refused("The token is signed with a key that its issuer does not publish.")
	errSignature  = refused("The token's signature is not right.")
	errAudience   = refused("The token is not for this gateway (aud).")
	errNotYet     = refused("The token is not valid yet (nbf).")
	errMissing    = refused("The token lacks a claim that it must have: iss, aud and exp.")
	errClaims     = refused("The token's claims do not have the types that they must have.")
	errExpired    = &fault.Error{Kind: fault.KeyExpired, Op: verifyVerb, Public: "The token has expired."}
	errNoKeys     = &fault.Error{
		Kind: fault.Internal, Op: verifyVerb, Status: 503, Code: "ISSUER_UNAVAILABLE", RetryAfter: 5 * time.Second,
		Public: "The token cannot be checked, because the keys of its issuer cannot be fetched right now.",
	}
)

const verifyVerb = "authn.verify"

func refused(sentence string) *fault.Error {
	return fault.New(fault.Unauthenticated, verifyVerb, "%s", sentence)
}

// reasons maps the library's errors to ours, the more specific ones first.
var reasons = []struct {
	is   error
	mean *fault.Error
}{
	{jwt.ErrTokenExpired, errExpired},
	{jwt.ErrTokenNotValidYet, errNotYet},
	{jwt.ErrTokenRequiredClaimMissing, errMissing},
	{jwt.ErrTokenInvalidAudience, errAudience},
	{jwt.ErrTokenInvalidIssuer, errIssuer},
	{jwt.ErrTokenInvalidClaims, errClaims},
	{jwt.ErrTokenSignatureInvalid, errSignature},
	{jwt.ErrTokenMalformed, errMalformed},
	{jwt.ErrTokenUnverifiable, errAlgorithm}, // a method that the library does not have either
}

// because makes a fault of the library's error and drops its text, which may
// quote the token.
func because(err error) *fault.Error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	for _, r := range reasons {
		if errors.Is(err, r.is) {
			return r.mean
		}
	}
	return errClaims
}

// parser checks the form and the signature; the claims are checked after it by
// their issuer's rules.
var parser = jwt.NewParser(jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding())

// verify checks a token that is not in the cache and remembers a good one.
func (r *Room) verify(t *tokens, token string, d digest, now time.Time) (*Grant, error) {
	if len(token) > maxToken {
		return nil, errTooLong
	}
	claims := jwt.MapClaims{}
	var is *issuer
	var keys *publicKeys
	_, err := parser.ParseWithClaims(token, claims, func(parsed *jwt.Token) (any, error) {
		found, err := t.issuerOf(parsed, claims)
		if err != nil {
			return nil, err
		}
		is = found
		var key any
		key, keys, err = r.keyFor(is, parsed)
		return key, err
	})
	if err != nil {
		return nil, because(err)
	}
	check := jwt.NewValidator(append(slices.Clone(is.options), jwt.WithTimeFunc(func() time.Time { return now }))...)
	if err := check.Validate(claims); err != nil {
		return nil, because(err)
	}
	exp, err := claims.GetExpirationTime()
	if err != nil || exp == nil {
		return nil, errMissing // the validator has asked this; it costs nothing to ask again
	}
	g := is.grant(claims)
	r.verified.put(d, &verdict{grant: g, until: exp.Time, tokens: t, issuer: is, keys: keys})
	return g, nil
}

// issuerOf finds whom a token says to be from, and whether it is signed as
// that issuer's tokens may be. Nothing of the token is believed yet.
func (t *tokens) issuerOf(parsed *jwt.Token, claims jwt.MapClaims) (*issuer, error) {
	if _, critical := parsed.Header["crit"]; critical {
		return nil, errCritical // RFC 7515 section 4.1.11; there is none that we understand
	}
	name, err := claims.GetIssuer()
	if err != nil {
		return nil, errClaims
	}
	is := t.issuers[name]
	if is == nil {
		return nil, errIssuer
	}
	if !slices.Contains(is.algorithms, parsed.Method.Alg()) {
		return nil, errAlgorithm
	}
	return is, nil
}

// keyFor finds the key to check a signature with. Which kind of key follows
// from the algorithm: a public key never serves as an HMAC secret.
func (r *Room) keyFor(is *issuer, parsed *jwt.Token) (any, *publicKeys, error) {
	if _, mac := parsed.Method.(*jwt.SigningMethodHMAC); mac {
		if len(is.secret) == 0 {
			return nil, nil, errAlgorithm
		}
		return is.secret, nil, nil
	}
	kid, _ := parsed.Header["kid"].(string)
	keys := is.fixed
	if is.url != "" {
		if keys = r.set(is.url).current(kid); keys == nil {
			return nil, nil, errNoKeys
		}
	}
	found := keys.find(kid, parsed.Method.Alg())
	if len(found) == 0 {
		return nil, nil, errUnknownKey
	}
	return jwt.VerificationKeySet{Keys: found}, keys, nil
}

// cached is the grant of a token that has been verified and of which nothing
// has changed since: not the plan, not the issuer's keys.
func (r *Room) cached(t *tokens, d digest, now time.Time) *Grant {
	v := r.verified.get(d)
	if v == nil || v.tokens != t || !now.Before(v.until) {
		return nil
	}
	if v.keys != nil && v.issuer.url != "" && r.set(v.issuer.url).keys.Load() != v.keys {
		return nil
	}
	return v.grant
}
