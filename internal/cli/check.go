package cli

import (
	"context"
	"fmt"

	"github.com/headgate-ai/headgate/internal/config"
	"github.com/headgate-ai/headgate/internal/config/source/file"
)

type checkCmd struct {
	File string `arg:"" help:"Configuration file."`
	JSON bool   `help:"Print the mistakes as JSON."`
}

// Help is the example.
func (checkCmd) Help() string {
	return "Every mistake is printed as file:line:column: path: what is wrong; what would be right.\n\nExample:\n  headgate check headgate.yaml"
}

// Run checks a file. Secrets are not resolved: they need not be on the machine
// that checks.
func (c *checkCmd) Run(ctx context.Context, env *Env) error {
	doc, err := file.New(c.File, nil).Get(ctx)
	if err != nil {
		return err
	}
	_, mistakes := config.Load(doc)
	if c.JSON {
		return c.asJSON(env, doc.Version, mistakes.Err(), mistakes)
	}
	for _, m := range mistakes {
		fmt.Fprintln(env.Stdout, m)
	}
	if len(mistakes) > 0 {
		return errReported
	}
	_, err = fmt.Fprintf(env.Stdout, "%s is a valid configuration (hash %s)\n", c.File, doc.Version[:12])
	return err
}

func (c *checkCmd) asJSON(env *Env, hash string, bad error, mistakes any) error {
	out := map[string]any{"file": c.File, "valid": bad == nil, "hash": hash, "mistakes": mistakes}
	if bad == nil {
		out["mistakes"] = []string{}
	}
	if err := printJSON(env.Stdout, out); err != nil {
		return err
	}
	if bad != nil {
		return errReported
	}
	return nil
}
