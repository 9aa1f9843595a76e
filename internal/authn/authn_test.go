package authn_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/authn"
	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
)

func plan(t *testing.T, c authn.Config) authn.Plan {
	t.Helper()
	var p setting.Problems
	c.Validate(&p)
	made, _ := c.Compile(&p)
	if len(p) > 0 {
		t.Fatal(p)
	}
	return made
}

func TestIdentify(t *testing.T) {
	expiry := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	p := plan(t, authn.Config{Keys: []authn.KeyConfig{
		{Name: "all", Secret: setting.NewSecret("literal:sk-all")},
		{Name: "some", Tenant: "team", Secret: setting.NewSecret("literal:sk-some"), Models: []string{"gpt-*", "chat"}, Scopes: []string{"chat.write"}, Expires: expiry},
		{Name: "none", Secret: setting.NewSecret("literal:sk-none"), Models: []string{}},
	}})
	room := authn.New()
	defer room.Close()
	before := expiry.Add(-time.Nanosecond)
	g, err := room.Identify(&p, "sk-all", false, llm.Embeddings, before)
	if err != nil || g.Key != "all" || g.Tenant != "all" || !g.MayUse("anything/at:all") {
		t.Errorf("%+v %v", g, err)
	}
	g, err = room.Identify(&p, "sk-some", false, llm.Chat, before)
	if err != nil || g.Tenant != "team" || !g.MayUse("gpt-4") || !g.MayUse("chat") || g.MayUse("chatty") || g.MayUse("openai/gpt-4") {
		t.Errorf("%+v %v", g, err)
	}
	if g, err = room.Identify(&p, "sk-none", false, llm.Chat, before); err != nil || g.MayUse("chat") {
		t.Errorf("an empty list of models allows models: %v", err)
	}
	for _, c := range []struct {
		secret string
		basic  bool
		op     llm.Operation
		now    time.Time
		want   fault.Kind
	}{
		{"sk-some", false, llm.Chat, expiry, fault.KeyExpired},
		{"sk-some", false, llm.Embeddings, before, fault.Forbidden},
		{"sk-som", false, llm.Chat, before, fault.Unauthenticated},
		{"", false, llm.Chat, before, fault.Unauthenticated},
		{"", true, llm.Chat, before, fault.Unauthenticated},
	} {
		if _, err := room.Identify(&p, c.secret, c.basic, c.op, c.now); fault.KindOf(err) != c.want || err == nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	open := plan(t, authn.Config{Auth: "none"})
	if g, err := room.Identify(&open, "", false, llm.Chat, before); err != nil || !g.MayUse("x") || g.Tenant != "anonymous" {
		t.Errorf("%+v %v", g, err)
	}
}

// Every operation has a scope, so that none is open by omission.
func TestScopeOf(t *testing.T) {
	for _, op := range []llm.Operation{llm.Chat, llm.Completion, llm.Embeddings, llm.Responses, llm.Moderations, llm.Images, llm.Speech, llm.Transcriptions, llm.CountTokens, llm.ListModels, llm.GetModel} {
		if authn.ScopeOf(op) == "" {
			t.Errorf("%s needs no scope", op)
		}
	}
}

func TestMistakes(t *testing.T) {
	secret := setting.NewSecret
	key := []authn.KeyConfig{{Name: "a", Secret: secret("literal:1111")}}
	hmac := secret("literal:1111-this-is-a-secret-of-enough-length")
	for want, c := range map[string]authn.Config{
		"no one could call":                  {},
		"not a way to authenticate":          {Auth: "maybe"},
		"is already the name":                {Keys: []authn.KeyConfig{{Name: "a", Secret: secret("literal:1111")}, {Name: "a", Secret: secret("literal:2222")}}},
		"unknown scope":                      {Keys: []authn.KeyConfig{{Name: "a", Secret: secret("literal:1111"), Scopes: []string{"chat:read"}}}},
		"is missing":                         {Keys: []authn.KeyConfig{{Name: "a"}}},
		"is not a name":                      {Keys: []authn.KeyConfig{{Name: "A b", Secret: secret("literal:1111")}}},
		"same secret":                        {Keys: []authn.KeyConfig{{Name: "a", Secret: secret("literal:1111")}, {Name: "b", Secret: secret("literal:1111")}}},
		"needs at least":                     {Keys: []authn.KeyConfig{{Name: "a", Secret: secret("literal:1")}}},
		"not a priority class":               {Keys: []authn.KeyConfig{{Name: "a", Secret: secret("literal:1111"), Class: "P3"}}},
		"there is no tier \"gold\", nor any": {Keys: []authn.KeyConfig{{Name: "a", Secret: secret("literal:1111"), Tier: "gold"}}},
		"known tiers are gold, silver":       {Keys: []authn.KeyConfig{{Name: "a", Secret: secret("literal:1111"), Tier: "gld"}}, Tiers: map[string]authn.TierConfig{"silver": {}, "gold": {}}},
		"known roles are user":               {Keys: []authn.KeyConfig{{Name: "a", Secret: secret("literal:1111"), Roles: []string{"usr"}}}, Access: authn.AccessConfig{Roles: map[string][]string{"user": {"*"}}}},
		"is not a share":                     {Keys: key, Tiers: map[string]authn.TierConfig{"gold": {Weight: -1}}},
		"is less than none":                  {Keys: key, Tiers: map[string]authn.TierConfig{"gold": {Concurrent: -1}}},
		"unknown scope \"write\"":            {Keys: key, Access: authn.AccessConfig{Roles: map[string][]string{"user": {"write"}}}},
		"did you mean \"request.model\"":     {Keys: key, Access: authn.AccessConfig{Conditions: []authn.ConditionConfig{{Name: "c", When: `request.modle == "x"`, Require: "true"}}}},
		"\"Local\" is not a time zone":       {Keys: key, Access: authn.AccessConfig{TimeZone: "Local"}},
		"a condition is true or false":       {Keys: key, Access: authn.AccessConfig{Conditions: []authn.ConditionConfig{{Name: "c", Require: "model"}}}},
		"what must be true":                  {Keys: key, Access: authn.AccessConfig{Conditions: []authn.ConditionConfig{{Name: "c"}}}},
		"name of access.conditions[0]":       {Keys: key, Access: authn.AccessConfig{Conditions: []authn.ConditionConfig{{Name: "c", Require: "true"}, {Name: "c", Require: "true"}}}},
		"the iss claim":                      {JWT: []authn.JWTConfig{{Audience: "a", Secret: hmac}}},
		"the aud claim":                      {JWT: []authn.JWTConfig{{Issuer: "i", Secret: hmac}}},
		"or a secret for HMAC":               {JWT: []authn.JWTConfig{{Issuer: "i", Audience: "a"}}},
		"plain http:// is for loopback":      {JWT: []authn.JWTConfig{{Issuer: "i", Audience: "a", Keys: "http://issuer.example/jwks"}}},
		"HS256 needs a secret":               {JWT: []authn.JWTConfig{{Issuer: "i", Audience: "a", Keys: "https://issuer.example/jwks", Algorithms: []string{"HS256"}}}},
		"RS256 needs keys":                   {JWT: []authn.JWTConfig{{Issuer: "i", Audience: "a", Secret: hmac, Algorithms: []string{"RS256"}}}},
		"\"none\" is not an algorithm":       {JWT: []authn.JWTConfig{{Issuer: "i", Audience: "a", Secret: hmac, Algorithms: []string{"none"}}}},
		"at least 32":                        {JWT: []authn.JWTConfig{{Issuer: "i", Audience: "a", Secret: secret("literal:1111-short")}}},
		"cannot read the key set":            {JWT: []authn.JWTConfig{{Issuer: "i", Audience: "a", Keys: "file:testdata/none.json"}}},
		"is not between 0s and 5m0s":         {JWT: []authn.JWTConfig{{Issuer: "i", Audience: "a", Secret: hmac, Leeway: setting.Duration(time.Hour)}}},
		"is already the issuer of jwt[0]":    {JWT: []authn.JWTConfig{{Issuer: "i", Audience: "a", Secret: hmac}, {Name: "two", Issuer: "i", Audience: "b", Secret: hmac}}},
		"is already the name of jwt[0]":      {JWT: []authn.JWTConfig{{Issuer: "i", Audience: "a", Secret: hmac}, {Issuer: "j", Audience: "b", Secret: hmac}}},
		"is not set":                         {Keys: []authn.KeyConfig{{Name: "a", Secret: secret("env:HEADGATE_SURELY_NOT_SET")}}},
	} {
		var p setting.Problems
		c.Validate(&p)
		if len(p) == 0 {
			c.Compile(&p)
		}
		if len(p) != 1 || !strings.Contains(p[0].Message, want) || strings.Contains(p[0].Message, "1111") {
			t.Errorf("%q: %v", want, p)
		}
	}
}
