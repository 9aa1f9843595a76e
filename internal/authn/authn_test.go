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
	var room authn.Room
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
	for want, c := range map[string]authn.Config{
		"no one could call":         {},
		"not a way to authenticate": {Auth: "maybe"},
		"is already the name":       {Keys: []authn.KeyConfig{{Name: "a", Secret: secret("literal:1111")}, {Name: "a", Secret: secret("literal:2222")}}},
		"unknown scope":             {Keys: []authn.KeyConfig{{Name: "a", Secret: secret("literal:1111"), Scopes: []string{"chat:read"}}}},
		"is missing":                {Keys: []authn.KeyConfig{{Name: "a"}}},
		"is not a name":             {Keys: []authn.KeyConfig{{Name: "A b", Secret: secret("literal:1111")}}},
		"same secret":               {Keys: []authn.KeyConfig{{Name: "a", Secret: secret("literal:1111")}, {Name: "b", Secret: secret("literal:1111")}}},
		"needs at least":            {Keys: []authn.KeyConfig{{Name: "a", Secret: secret("literal:1")}}},
		"is not set":                {Keys: []authn.KeyConfig{{Name: "a", Secret: secret("env:HEADGATE_SURELY_NOT_SET")}}},
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
