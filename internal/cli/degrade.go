package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

type degradeCmd struct {
	Show degradeShowCmd `cmd:"" default:"withargs" help:"Show how far the gateway is turned down."`
	Set  degradeSetCmd  `cmd:"" help:"Turn the gateway, or one model, down or up."`
}

// Help is the example.
func (degradeCmd) Help() string { return "Example:\n  headgate degrade show" }

type degradeShowCmd struct {
	JSON bool `help:"Print as JSON."`
	adminFlags
}

// Help is the example.
func (degradeShowCmd) Help() string { return "Example:\n  headgate degrade --json" }

// Validate makes wrong values wrong usage.
func (c *degradeShowCmd) Validate() error { return c.check() }

// Run shows the level.
func (c *degradeShowCmd) Run(ctx context.Context, env *Env) error {
	body, err := c.api(env).get(ctx, "/admin/v1/degrade")
	if err != nil {
		return err
	}
	return printLevel(env.Stdout, body, c.JSON)
}

func printLevel(w io.Writer, body []byte, asJSON bool) error {
	if asJSON {
		return printRaw(w, body)
	}
	var now struct {
		levelLine
		Models []levelLine `json:"models"`
	}
	if err := read(body, &now); err != nil {
		return err
	}
	for _, l := range append([]levelLine{now.levelLine}, now.Models...) {
		if _, err := fmt.Fprintln(w, l); err != nil {
			return err
		}
	}
	return nil
}

// levelLine is a level as the admin API shows it, of all or of one model.
type levelLine struct {
	Model string    `json:"model"`
	Level int       `json:"level"`
	Until time.Time `json:"until"`
}

// String is the level to be read, as in "gpt-*: level 3 until …".
func (l levelLine) String() string {
	s := fmt.Sprint("level ", l.Level)
	if l.Model != "" {
		s = l.Model + ": " + s
	}
	if !l.Until.IsZero() {
		s += " until " + l.Until.Format(time.RFC3339)
	}
	return s
}

type degradeSetCmd struct {
	Level  int    `arg:"" help:"0 not at all, 1 leave optional work out, 2 small models and cached answers, 3 refuse the class P2."`
	TTL    string `name:"ttl" help:"How long it holds, such as 15m; then the level is 0 again." placeholder:"TIME"`
	Model  string `help:"Of one model, by its configured name, or of calls that name a provider, as in openai/*; all without it." placeholder:"NAME"`
	Reason string `help:"Why; it goes on record." required:"" placeholder:"TEXT"`
	JSON   bool   `help:"Print as JSON."`
	adminFlags
	confirmFlags
}

// Help is the example.
func (degradeSetCmd) Help() string {
	return `The level 3 needs a confirmation. The levels 1 and 2 are published, in headgate_degradation_level and here, and refuse nobody.

Example:
  headgate degrade set 3 --ttl 15m --reason "provider is down to half its capacity"
  headgate degrade set 3 --model 'gpt-*' --ttl 15m --reason "the same, for some models"`
}

// Validate makes wrong values wrong usage.
func (c *degradeSetCmd) Validate() error {
	switch {
	case c.Level < 0 || c.Level > 3:
		return errors.New("level: write a number from 0 to 3")
	case c.Level > 0 && c.TTL == "":
		return errors.New("ttl is missing: write how long the level holds, such as 15m")
	case c.TTL != "":
		if _, err := parseLength(c.TTL); err != nil {
			return fmt.Errorf("ttl: %w", err)
		}
	}
	return c.check()
}

// Run sets the level.
func (c *degradeSetCmd) Run(ctx context.Context, env *Env) error {
	want := map[string]any{"level": c.Level, "reason": c.Reason}
	if c.Model != "" {
		want["model"] = c.Model
	}
	if c.TTL != "" {
		d, err := parseLength(c.TTL)
		if err != nil {
			return err
		}
		want["ttl"] = d.String()
	}
	body, err := c.api(env).change(ctx, env, &c.confirmFlags, "Refuse all requests of the class P2?", http.MethodPost, "/admin/v1/degrade", want)
	if err != nil {
		return err
	}
	return printLevel(env.Stdout, body, c.JSON)
}
