package config_test

import (
	"testing"

	"github.com/headgate-ai/headgate/internal/config"
	"github.com/headgate-ai/headgate/internal/route"
)

// The environment alone makes a configuration in which every model has a
// provider: the vendor's own names theirs, any other name the first one's.
func TestFromEnv(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want map[string]string // model -> provider
	}{
		{map[string]string{"OPENAI_API_KEY": "sk-a"}, map[string]string{"gpt-4o": "openai", "llama-3": "openai", "claude-x": "openai"}},
		{map[string]string{"ANTHROPIC_API_KEY": "sk-b"}, map[string]string{"claude-x": "anthropic", "other": "anthropic"}},
		{map[string]string{"OPENAI_API_KEY": "sk-a", "ANTHROPIC_API_KEY": "sk-b"}, map[string]string{"gpt-4o": "openai", "claude-x": "anthropic", "llama-3": "openai", "anthropic/m": "anthropic"}},
	} {
		getenv := func(name string) string { return c.env[name] }
		doc, ok := config.FromEnv(getenv)
		if !ok {
			t.Fatalf("%v: no configuration", c.env)
		}
		loaded, mistakes := config.Load(doc)
		if len(mistakes) > 0 {
			t.Fatalf("%v: %v", c.env, mistakes)
		}
		plan := loaded.RouteConfig().Compile()
		for model, provider := range c.want {
			choice, err := route.Order(&plan, model, 0)
			if err != nil || choice.Legs[0].Provider != provider {
				t.Errorf("%v: %s goes to %+v, %v; want %s", c.env, model, choice.Legs, err, provider)
			}
		}
		if demo, mistakes := config.Load(config.ForDemo(getenv)); len(mistakes) > 0 || len(demo.Providers) != len(loaded.Providers)+1 {
			t.Errorf("%v: the demo is %v", c.env, mistakes)
		}
	}
	if _, ok := config.FromEnv(func(string) string { return "" }); ok {
		t.Error("an empty environment made a configuration")
	}
}
