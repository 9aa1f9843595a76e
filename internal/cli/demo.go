package cli

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/headgate-ai/headgate/internal/config"
	"github.com/headgate-ai/headgate/internal/config/source/static"
)

type demoCmd struct {
	Listen string `help:"Address for clients." placeholder:"HOST:PORT"`
	Admin  string `help:"Address for operators." placeholder:"HOST:PORT"`
	logFlags
}

// Help is the rest of the command's manual.
func (demoCmd) Help() string {
	return `The demo model answers under the name "demo". With OPENAI_API_KEY or ANTHROPIC_API_KEY set, that provider's models are
served too, by their own names.

Example:
  headgate demo --listen 127.0.0.1:8090`
}

// Run serves the demo until stopped.
func (c *demoCmd) Run(ctx context.Context, env *Env) error {
	const variable = "HEADGATE_API_KEY"
	key := env.Getenv(variable)
	if key == "" {
		key = "sk-demo-" + rand.Text()
		if err := env.Setenv(variable, key); err != nil {
			return err
		}
	}
	doc := config.ForDemo(func(name string) string {
		switch {
		case name == "HEADGATE_LISTEN" && c.Listen != "":
			return c.Listen
		case name == "HEADGATE_ADMIN_LISTEN" && c.Admin != "":
			return c.Admin
		}
		return env.Getenv(name)
	})
	a, err := start(ctx, env, static.New(doc.Name, doc.Data), &c.logFlags)
	if err != nil {
		return err
	}
	c.print(env, a.API(), a.Admin(), key)
	return run(ctx, a)
}

func (c *demoCmd) print(env *Env, api, admin, key string) {
	model := "demo"
	if env.Getenv("OPENAI_API_KEY") != "" {
		model = "gpt-4o-mini"
	}
	fmt.Fprintf(env.Stdout, `Headgate is serving.

  API      http://%[1]s/v1   (OpenAI; for Anthropic SDKs the base URL is http://%[1]s)
  Admin    http://%[2]s/admin/v1/requests   http://%[2]s/metrics
  Key      %[3]s

Try it:

  curl -N http://%[1]s/v1/chat/completions -H "Authorization: Bearer %[3]s" -H "Content-Type: application/json" -d '{"model":"%[4]s","stream":true,"messages":[{"role":"user","content":"Hello"}]}'

Stop with Ctrl-C.
`, api, admin, key, model)
}
