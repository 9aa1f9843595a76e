package authn

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
)

var (
	now     = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	rsaKey  = sync.OnceValue(func() *rsa.PrivateKey { k, _ := rsa.GenerateKey(rand.Reader, 2048); return k })
	ecKey   = sync.OnceValue(func() *ecdsa.PrivateKey { k, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader); return k })
	edKey   = ed25519.NewKeyFromSeed(make([]byte, 32))
	shared  = "a-shared-secret-of-thirty-two-bytes-and-more"
	issuers = "https://issuer.test"
)

// jwk writes a public key as RFC 7517 has it.
func jwk(kid string, key any) map[string]any {
	enc := base64.RawURLEncoding.EncodeToString
	switch k := key.(type) {
	case *rsa.PrivateKey:
		return map[string]any{"kty": "RSA", "kid": kid, "use": "sig", "n": enc(k.N.Bytes()), "e": enc(big.NewInt(int64(k.E)).Bytes())}
	case *ecdsa.PrivateKey:
		point, _ := k.PublicKey.Bytes()
		return map[string]any{"kty": "EC", "kid": kid, "crv": "P-256", "x": enc(point[1:33]), "y": enc(point[33:])}
	case ed25519.PrivateKey:
		return map[string]any{"kty": "OKP", "kid": kid, "crv": "Ed25519", "x": enc(k[32:])}
	}
	return map[string]any{"kty": "oct", "kid": kid, "k": enc([]byte(shared))}
}

func keySetJSON(keys ...map[string]any) []byte {
	data, _ := json.Marshal(map[string]any{"keys": keys})
	return data
}

// claimsWith are good claims, with changes; a nil value removes a claim.
func claimsWith(changes map[string]any) jwt.MapClaims {
	c := jwt.MapClaims{"iss": issuers, "aud": "headgate", "exp": now.Add(time.Hour).Unix(), "sub": "u1", "tenant": "acme", "tier": "gold", "quota": 5, "roles": []string{"user"}}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

func sign(t testing.TB, method jwt.SigningMethod, kid string, key any, c jwt.Claims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, c)
	if kid != "" {
		token.Header["kid"] = kid
	}
	s, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func compilePlan(t testing.TB, c Config) *Plan {
	t.Helper()
	var p setting.Problems
	c.Validate(&p)
	if len(p) > 0 {
		t.Fatal(p)
	}
	made, _ := c.Compile(&p)
	if len(p) > 0 {
		t.Fatal(p)
	}
	return &made
}

func tiers() map[string]TierConfig {
	return map[string]TierConfig{"gold": {Class: "P0", MaxRate: setting.Rate{Count: 50, Period: time.Second}}, "silver": {Class: "P1", MaxRate: setting.Rate{Count: 600, Period: time.Minute}}, "free": {}}
}

// trusting is a plan that trusts an issuer with keys of every type in a file,
// and one with a secret.
func trusting(t testing.TB) *Plan {
	t.Helper()
	file := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(file, keySetJSON(jwk("r", rsaKey()), jwk("e", ecKey()), jwk("d", edKey), jwk("s", nil)), 0o600); err != nil {
		t.Fatal(err)
	}
	return compilePlan(t, Config{
		Tiers: tiers(),
		Keys:  []KeyConfig{{Name: "dotted", Secret: setting.NewSecret("literal:not.a.token")}},
		JWT: []JWTConfig{
			{Issuer: issuers, Audience: "headgate", Audiences: []string{"other"}, Keys: "file:" + file, Tier: "silver", Claims: ClaimsConfig{Models: "models", Scopes: "scope"}},
			{Name: "hs", Issuer: "https://hs.test", Audience: "headgate", Secret: setting.NewSecret("literal:" + shared)},
			{Name: "both", Issuer: "https://both.test", Audience: "headgate", Keys: "file:" + file, Secret: setting.NewSecret("literal:" + shared)},
		},
	})
}

func TestTokens(t *testing.T) {
	p, room := trusting(t), New()
	defer room.Close()
	good := claimsWith(nil)
	hs := claimsWith(map[string]any{"iss": "https://hs.test"})
	public, err := json.Marshal(jwk("r", rsaKey()))
	if err != nil {
		t.Fatal(err)
	}
	with := func(name string, v any) string {
		return sign(t, jwt.SigningMethodRS256, "r", rsaKey(), claimsWith(map[string]any{name: v}))
	}
	forged := sign(t, jwt.SigningMethodRS256, "r", rsaKey(), good)
	forged = forged[:len(forged)-8] + "AAAAAAAA"
	critical := jwt.NewWithClaims(jwt.SigningMethodHS256, hs)
	critical.Header["crit"] = []string{"b64"}
	withCrit, _ := critical.SignedString([]byte(shared))
	stranger, _ := rsa.GenerateKey(rand.Reader, 2048)
	for name, c := range map[string]struct {
		token string
		want  *fault.Error // nil: accepted
	}{
		"RS256":                              {sign(t, jwt.SigningMethodRS256, "r", rsaKey(), good), nil},
		"RS512":                              {sign(t, jwt.SigningMethodRS512, "r", rsaKey(), good), nil},
		"PS256":                              {sign(t, jwt.SigningMethodPS256, "r", rsaKey(), good), nil},
		"ES256":                              {sign(t, jwt.SigningMethodES256, "e", ecKey(), good), nil},
		"EdDSA":                              {sign(t, jwt.SigningMethodEdDSA, "d", edKey, good), nil},
		"without kid":                        {sign(t, jwt.SigningMethodES256, "", ecKey(), good), nil},
		"HS256":                              {sign(t, jwt.SigningMethodHS256, "", []byte(shared), hs), nil},
		"HS512":                              {sign(t, jwt.SigningMethodHS512, "", []byte(shared), hs), nil},
		"second audience":                    {with("aud", []string{"x", "other"}), nil},
		"expired within the leeway":          {with("exp", now.Add(-29*time.Second).Unix()), nil},
		"begins within the leeway":           {with("nbf", now.Add(29*time.Second).Unix()), nil},
		"expired":                            {with("exp", now.Add(-31*time.Second).Unix()), errExpired},
		"begins later":                       {with("nbf", now.Add(31*time.Second).Unix()), errNotYet},
		"no exp":                             {with("exp", nil), errMissing},
		"exp is text":                        {with("exp", "soon"), errClaims},
		"exp is not a time":                  {with("exp", 1e300), errExpired},
		"wrong audience":                     {with("aud", "elsewhere"), errAudience},
		"no audience":                        {with("aud", nil), errMissing},
		"audience is a number":               {with("aud", 7), errMissing},
		"wrong issuer":                       {with("iss", "https://evil.test"), errIssuer},
		"no issuer":                          {with("iss", nil), errIssuer},
		"issuer is a list":                   {with("iss", []string{issuers}), errClaims},
		"signature altered":                  {forged, errSignature},
		"signature empty":                    {forged[:strings.LastIndex(forged, ".")+1], errSignature},
		"another's key":                      {sign(t, jwt.SigningMethodRS256, "r", stranger, good), errSignature},
		"unknown kid":                        {sign(t, jwt.SigningMethodRS256, "zzz", rsaKey(), good), errUnknownKey},
		"kid of another type":                {sign(t, jwt.SigningMethodRS256, "e", rsaKey(), good), errUnknownKey},
		"none":                               {sign(t, jwt.SigningMethodNone, "", jwt.UnsafeAllowNoneSignatureType, good), errAlgorithm},
		"PS512 is not in the list":           {sign(t, jwt.SigningMethodPS512, "r", rsaKey(), good), errAlgorithm},
		"HS256 without a secret":             {sign(t, jwt.SigningMethodHS256, "s", []byte(shared), good), errAlgorithm},
		"RS256 where there is only a secret": {sign(t, jwt.SigningMethodRS256, "r", rsaKey(), hs), errAlgorithm},
		"HS256 with the public key":          {sign(t, jwt.SigningMethodHS256, "r", rsaKey().N.Bytes(), claimsWith(map[string]any{"iss": "https://both.test"})), errSignature},
		"HS256 with the public JWK":          {sign(t, jwt.SigningMethodHS256, "r", public, claimsWith(map[string]any{"iss": "https://both.test"})), errSignature},
		"another secret":                     {sign(t, jwt.SigningMethodHS256, "", []byte(shared+"x"), hs), errSignature},
		"critical extension":                 {withCrit, errCritical},
		"header of no algorithm":             {base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"XX1"}`)) + ".e30.AAAA", errAlgorithm},
		"alg is not text":                    {base64.RawURLEncoding.EncodeToString([]byte(`{"alg":1}`)) + ".e30.AAAA", errAlgorithm},
		"body is not JSON":                   {base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256"}`)) + ".AAAA.AAAA", errMalformed},
		"too long":                           {with("x", strings.Repeat("x", maxToken)), errTooLong},
	} {
		for range 2 { // the second time, from the cache
			g, err := room.Identify(p, c.token, false, llm.Chat, now)
			switch {
			case c.want == nil && err != nil:
				t.Errorf("%s: %v", name, err)
			case c.want != nil && err != c.want: //nolint:errorlint // the very same
				t.Errorf("%s: %+v %v, want %v", name, g, err, c.want)
			}
			if err != nil && (strings.Contains(err.Error(), c.token[:10]) || len(c.token) > 80 && strings.Contains(err.Error(), c.token[len(c.token)-20:])) {
				t.Errorf("%s: the token is repeated: %v", name, err)
			}
		}
	}
}

// What does not look like a token is an API key, and a known key is one
// whatever it looks like.
func TestLooks(t *testing.T) {
	p, room := trusting(t), New()
	if g, err := room.Identify(p, "not.a.token", false, llm.Chat, now); err != nil || g.Key != "dotted" {
		t.Errorf("%+v %v", g, err)
	}
	head := base64.RawURLEncoding.EncodeToString
	for s, want := range map[string]bool{
		"": false, "a": false, "a.b.c": false, "sk-1.2.3": false, head([]byte(`{"alg":"x"}`)) + ".b": false, head([]byte(`{"alg":"x"}`)) + ".b.c.d": false,
		head([]byte(`["alg"]`)) + ".b.c": false, head([]byte(`{"typ":"JWT"}`)) + ".b.c": false, head([]byte(`{"alg":"x"}`)) + "..": true, head([]byte(`{"alg":null}`)) + ".b.c": true,
	} {
		if looksLikeToken(s) != want {
			t.Errorf("looksLikeToken(%q) is %v", s, !want)
		}
		if _, err := room.Identify(p, s+"x", false, llm.Chat, now); fault.KindOf(err) != fault.Unauthenticated {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestClaims(t *testing.T) {
	p, room := trusting(t), New()
	identify := func(c map[string]any) *Grant {
		t.Helper()
		g, err := room.Identify(p, sign(t, jwt.SigningMethodEdDSA, "d", edKey, claimsWith(c)), false, llm.Chat, now)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	g := identify(nil)
	if g.Key != "jwt" || g.Tenant != "acme" || g.User != "u1" || g.Tier != "gold" || g.Rate != 5 || p.Class(g) != "P0" || !slices.Equal(g.Roles(), []string{"user"}) || g.Claims()["tenant"] != "acme" || !g.MayUse("x") {
		t.Errorf("%+v", g)
	}
	for _, c := range []struct {
		claim string
		value any
		ok    func(*Grant) bool
	}{
		{"tenant", nil, func(g *Grant) bool { return g.Tenant == "jwt" }},
		{"tenant", 7, func(g *Grant) bool { return g.Tenant == "jwt" }},
		{"tenant", "a\nb", func(g *Grant) bool { return g.Tenant == "jwt" }},
		{"tenant", strings.Repeat("x", maxWord+1), func(g *Grant) bool { return g.Tenant == "jwt" }},
		{"sub", nil, func(g *Grant) bool { return g.User == "" }},
		{"tier", nil, func(g *Grant) bool { return g.Tier == "silver" && g.Rate == 5 && p.Class(g) == "P1" }},
		{"tier", "platinum", func(g *Grant) bool { return g.Tier == "silver" }},
		{"tier", []string{"gold"}, func(g *Grant) bool { return g.Tier == "silver" }},
		{"tier", "free", func(g *Grant) bool { return g.Tier == "free" && g.Rate == 5 }},
		{"quota", nil, func(g *Grant) bool { return g.Rate == 50 }},
		{"quota", "100", func(g *Grant) bool { return g.Rate == 50 }},
		{"quota", 1e9, func(g *Grant) bool { return g.Rate == 50 }}, // a token does not raise its own limit
		{"quota", -1, func(g *Grant) bool { return g.Rate == 50 }},
		{"quota", 0.5, func(g *Grant) bool { return g.Rate == 0.5 }},
		{"roles", nil, func(g *Grant) bool { return len(g.Roles()) == 0 }},
		{"roles", map[string]any{"user": true}, func(g *Grant) bool { return len(g.Roles()) == 0 }},
		{"roles", []any{"a", 1, nil, "b", ""}, func(g *Grant) bool { return slices.Equal(g.Roles(), []string{"a", "b"}) }},
		{"roles", "a b", func(g *Grant) bool { return slices.Equal(g.Roles(), []string{"a", "b"}) }},
		{"models", []string{"gpt-*"}, func(g *Grant) bool { return g.MayUse("gpt-4") && !g.MayUse("claude") }},
		{"models", []string{}, func(g *Grant) bool { return !g.MayUse("gpt-4") }},
		{"models", 7, func(g *Grant) bool { return g.MayUse("gpt-4") }},
		{"scope", "openid chat.write", func(g *Grant) bool { return g.may("chat:write") && !g.may("models:read") }},
	} {
		if g := identify(map[string]any{c.claim: c.value}); !c.ok(g) {
			t.Errorf("%s %v: %+v", c.claim, c.value, g)
		}
	}
	denied := sign(t, jwt.SigningMethodEdDSA, "d", edKey, claimsWith(map[string]any{"scope": "openid"}))
	if _, err := room.Identify(p, denied, false, llm.Chat, now); fault.KindOf(err) != fault.Forbidden {
		t.Errorf("a token without the scope: %v", err)
	}
	nested := map[string]any{"a": map[string]any{"b.c": "x", "d": map[string]any{"e": "y"}}, "a.z": "z"}
	for name, want := range map[string]any{"a.b.c": "x", "a.d.e": "y", "a.z": "z", "a.d.f": nil, "a.b": nil, "": nil, "..": nil} {
		if got := lookup(nested, name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

// A verdict is kept until the token expires and for one plan only.
func TestCache(t *testing.T) {
	p, room := trusting(t), New()
	token := sign(t, jwt.SigningMethodEdDSA, "d", edKey, claimsWith(nil))
	first, err := room.Identify(p, token, false, llm.Chat, now)
	again, errAgain := room.Identify(p, token, false, llm.Chat, now.Add(time.Hour-1))
	if err != nil || errAgain != nil || first != again {
		t.Error("it was not kept", err, errAgain)
	}
	if _, err := room.Identify(p, token, false, llm.Chat, now.Add(time.Hour+31*time.Second)); fault.KindOf(err) != fault.KeyExpired {
		t.Error("it was kept for too long:", err)
	}
	other := compilePlan(t, Config{JWT: []JWTConfig{{Issuer: "x", Audience: "y", Secret: setting.NewSecret("literal:" + shared)}}})
	if _, err := room.Identify(other, token, false, llm.Chat, now); fault.KindOf(err) != fault.Unauthenticated {
		t.Error("it was kept over a reload:", err)
	}
	reloaded, err := room.Identify(trusting(t), token, false, llm.Chat, now)
	if err != nil || reloaded == first {
		t.Error("the grant is that of another plan", err)
	}
	var c tokenCache
	v := &verdict{until: now}
	var hot digest
	c.put(hot, v)
	for i := range 4 * cacheSize * cacheShards {
		c.put(digest{byte(i), byte(i >> 8), byte(i >> 16), 1}, v)
		if c.get(hot) == nil {
			t.Fatal("what is asked for all the time was forgotten")
		}
	}
	if n := c.len(); n != cacheSize*cacheShards {
		t.Errorf("%d entries", n)
	}
}

// A token's second use, and a key, cost a lookup.
func TestTokenBudget(t *testing.T) {
	p, room := trusting(t), New()
	long := sign(t, jwt.SigningMethodRS256, "r", rsaKey(), claimsWith(map[string]any{"roles": strings.Split(strings.Repeat("role,", 60), ",")}))
	for _, secret := range []string{sign(t, jwt.SigningMethodRS256, "r", rsaKey(), claimsWith(nil)), long, "not.a.token"} {
		if n := testing.AllocsPerRun(100, func() { _, _ = room.Identify(p, secret, false, llm.Chat, now) }); n > 0 {
			t.Errorf("%d bytes: %v allocations", len(secret), n)
		}
	}
}

func BenchmarkIdentify(b *testing.B) {
	p, room := trusting(b), New()
	token := sign(b, jwt.SigningMethodRS256, "r", rsaKey(), claimsWith(nil))
	run := func(name, secret string, forget bool) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if forget {
					room = New()
				}
				if _, err := room.Identify(p, secret, false, llm.Chat, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("key", "not.a.token", false)
	run("token cached", token, false)
	run("token RS256", token, true)
}

// Whatever claims say and whatever a token is, nothing panics, and the token's
// own limit stays within the tier's.
func FuzzClaims(f *testing.F) {
	p := trusting(f)
	is := p.tokens.issuers[issuers]
	for _, seed := range []string{`{}`, `{"quota":1e400}`, `{"quota":"x","tier":1,"roles":{},"tenant":[],"sub":null}`, `{"tier":"gold","quota":-0.0,"roles":["a",["b"]],"scope":"a  b"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var claims map[string]any
		if json.Unmarshal(data, &claims) != nil {
			return
		}
		g := is.grant(claims)
		if bound := is.caps[g.Tier]; !(g.Rate >= 0) || bound > 0 && g.Rate > bound || g.Tenant == "" {
			t.Errorf("%s: %+v", data, g)
		}
	})
}

func FuzzToken(f *testing.F) {
	p, room := trusting(f), New()
	f.Add(sign(f, jwt.SigningMethodEdDSA, "d", edKey, claimsWith(nil)))
	f.Add(sign(f, jwt.SigningMethodNone, "", jwt.UnsafeAllowNoneSignatureType, claimsWith(nil)))
	f.Add("eyJhbGciOiJIUzI1NiJ9.e30.AAAA")
	f.Add("gk_abc_def")
	f.Fuzz(func(t *testing.T, s string) {
		g, err := room.Identify(p, s, false, llm.Chat, now)
		if err == nil && g.Key != "dotted" && !looksLikeToken(s) {
			t.Errorf("%q was accepted", s)
		}
		if err != nil && len(s) > 40 && strings.Contains(err.Error(), s) {
			t.Errorf("the credential is repeated: %v", err)
		}
	})
}

func FuzzKeySet(f *testing.F) {
	f.Add(keySetJSON(jwk("r", rsaKey()), jwk("e", ecKey()), jwk("d", edKey), jwk("s", nil)))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"},{"kty":"OKP","crv":"Ed25519","x":""}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		ks, err := parseKeys(data)
		if (err == nil) != (ks != nil && len(ks.keys) > 0) {
			t.Errorf("%v %v", ks, err)
		}
		for _, alg := range append(slices.Clone(asymmetric), "HS256", "none") {
			found := ks.find("", alg)
			for _, key := range found {
				if !slices.Contains(asymmetric, alg) {
					t.Errorf("a public key %T for %s", key, alg)
				}
				if m := jwt.GetSigningMethod(alg); m.Verify("a.b", make([]byte, 64), key) == nil {
					t.Errorf("an empty signature is right for %T", key)
				}
			}
		}
	})
}
