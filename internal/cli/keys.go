package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/headgate-ai/headgate/internal/app"
	"github.com/headgate-ai/headgate/internal/authn"
	"github.com/headgate-ai/headgate/internal/config"
	"github.com/headgate-ai/headgate/internal/config/source/file"
)

type keysCmd struct {
	List   keysListCmd   `cmd:"" help:"List the keys; the keys themselves are shown nowhere."`
	Create keysCreateCmd `cmd:"" help:"Make a key, and print it once."`
	Rotate keysRotateCmd `cmd:"" help:"Make a key in the place of another one, which works a while longer."`
	Revoke keysRevokeCmd `cmd:"" help:"End a key at once."`
}

// Help is the example.
func (keysCmd) Help() string {
	return "Example:\n  headgate keys create web --tier gold --config headgate.yaml"
}

// keyFlags say where the keys are.
type keyFlags struct {
	adminFlags
	File   string `help:"File of the keys. Without it, and without admin: keystore.path of the configuration." placeholder:"FILE"`
	Config string `help:"Configuration file. Without it: $HEADGATE_CONFIG, else ./headgate.yaml." placeholder:"FILE"`
	JSON   bool   `help:"Print as JSON."`
}

// Validate makes wrong values wrong usage.
func (f *keyFlags) Validate() error {
	if f.Admin != "" && f.File != "" {
		return errors.New("admin and file: name one of them")
	}
	return f.check()
}

const keyHelp = `The keys are in the file that keystore.path names; a gateway that runs takes a change up within a second. With --admin the
gateway itself makes the change.

`

// keys are those of a file.
func (f *keyFlags) keys(ctx context.Context, env *Env) (*app.KeyRing, error) {
	path := f.Config
	if path == "" {
		path = env.Getenv("HEADGATE_CONFIG")
	}
	if path == "" {
		if _, err := os.Stat(defaultFile); err == nil {
			path = defaultFile
		}
	}
	if path == "" {
		if f.File == "" {
			return nil, fmt.Errorf("which keys: name their file with --file, a configuration with --config, or a running gateway with --admin")
		}
		return app.NewKeyRing(f.File, nil), nil
	}
	doc, err := file.New(path, nil).Get(ctx)
	if err != nil {
		return nil, err
	}
	loaded, mistakes := config.Load(doc)
	if err := mistakes.Err(); err != nil {
		return nil, fmt.Errorf("the configuration has mistakes: %w", err)
	}
	at := f.File
	if at == "" {
		at = loaded.Keystore.Path
	}
	if at == "" {
		return nil, fmt.Errorf("%s has no keystore.path; add \"keystore: {path: headgate-keys.json}\", or name the file with --file", path)
	}
	return app.NewKeyRing(at, loaded.File), nil
}

// either has the gateway that --admin names do something, and reads its answer
// into to; without one it is done to the keys of the file.
func (f *keyFlags) either(ctx context.Context, env *Env, gateway func(*adminAPI) ([]byte, error), to any, here func(*app.KeyRing) error) error {
	if f.Admin != "" {
		body, err := gateway(f.api(env))
		if err != nil {
			return err
		}
		return read(body, to)
	}
	ring, err := f.keys(ctx, env)
	if err != nil {
		return err
	}
	return here(ring)
}

// askOf asks whether a change of a key is to be made, if there is such a key.
func (f *confirmFlags) askOf(env *Env, ring *app.KeyRing, id, question string) error {
	if _, err := ring.Find(id); err != nil {
		return err
	}
	return f.ask(env, question)
}

// madeKey is a key that is printed once.
type madeKey struct {
	Secret string `json:"key"`
	app.Key
	Retired *app.Key `json:"retired,omitempty"`
}

// print prints the key alone, so that a script can take it, and the rest for
// people.
func (m *madeKey) print(env *Env, asJSON bool) error {
	if asJSON {
		return printJSON(env.Stdout, m)
	}
	fmt.Fprintf(env.Stderr, "The key %s (id %s) is shown this once:\n", m.Name, m.ID)
	_, err := fmt.Fprintln(env.Stdout, m.Secret)
	if m.Retired != nil {
		fmt.Fprintf(env.Stderr, "The one before it (id %s) works until %s.\n", m.Retired.ID, m.Retired.GraceUntil.Format(time.RFC3339))
	}
	return err
}

type keysListCmd struct {
	keyFlags
}

// Help is the example.
func (keysListCmd) Help() string {
	return keyHelp + "Examples:\n  headgate keys list --config headgate.yaml\n  headgate keys list --admin http://127.0.0.1:8081 --json"
}

// Run lists the keys.
func (c *keysListCmd) Run(ctx context.Context, env *Env) error {
	list := struct {
		Keys []app.Key `json:"keys"`
	}{Keys: []app.Key{}}
	err := c.either(ctx, env, func(a *adminAPI) ([]byte, error) { return a.get(ctx, "/admin/v1/keys") }, &list,
		func(ring *app.KeyRing) (err error) { list.Keys, err = ring.List(); return err })
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(env.Stdout, list)
	}
	t := tabwriter.NewWriter(env.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tNAME\tSTATE\tTENANT\tUSER\tTIER\tMODELS\tSCOPES\tCREATED\tENDS")
	for _, k := range list.Keys {
		fmt.Fprintln(t, strings.Join([]string{dash(k.ID), dash(k.Name), k.State, dash(k.Tenant), dash(k.User), dash(k.Tier), listed(k.Models), listed(k.Scopes), k.Created.Format(time.DateOnly), ends(&k)}, "\t"))
	}
	return t.Flush()
}

// dash is a cell of a table: a dash for nothing, and no character that a
// terminal would obey. Models' names and users are what clients chose.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return unicode.ReplacementChar
		}
		return c
	}, s)
}

// listed writes a list of globs: nil is all.
func listed(all []string) string {
	switch {
	case all == nil:
		return "all"
	case len(all) == 0:
		return "none"
	}
	return dash(strings.Join(all, ","))
}

// ends is when a key ends or has ended.
func ends(k *app.Key) string {
	var first time.Time
	for _, t := range []time.Time{k.Expires, k.Revoked, k.GraceUntil} {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if first.IsZero() {
		return "-"
	}
	return first.Format(time.RFC3339)
}

type keysCreateCmd struct {
	Name    string   `arg:"" help:"What the key is called in records and metrics."`
	Tenant  string   `help:"Who the key belongs to; default is the name."`
	User    string   `help:"The person or program that calls with it."`
	Tier    string   `help:"Level of service, one of the configuration's tiers."`
	Class   string   `help:"Priority class, P0, P1 or P2, in place of the tier's."`
	Role    []string `help:"Roles, as access.roles defines them." placeholder:"ROLE"`
	Model   []string `help:"Models that the key may use, as globs; all without it." placeholder:"GLOB"`
	Scope   []string `help:"What the key may do, such as chat:write; all without it." placeholder:"SCOPE"`
	Expires string   `help:"When it stops working: a date, a time, or a length from now such as 30d." placeholder:"WHEN"`
	keyFlags
}

// Help is the example.
func (keysCreateCmd) Help() string {
	return keyHelp + "Only the key is printed on standard output.\n\nExamples:\n  headgate keys create search --tier gold --expires 90d --config headgate.yaml\n  KEY=$(headgate keys create ci --scope chat:write --model 'gpt-*' --file headgate-keys.json)"
}

// Validate makes wrong values wrong usage.
func (c *keysCreateCmd) Validate() error {
	if _, err := parseWhen(c.Expires, 1, time.Now()); err != nil {
		return fmt.Errorf("expires: %w", err)
	}
	return c.keyFlags.Validate()
}

// Run makes a key.
func (c *keysCreateCmd) Run(ctx context.Context, env *Env) error {
	expires, err := parseWhen(c.Expires, 1, time.Now())
	if err != nil {
		return err
	}
	var made madeKey
	err = c.either(ctx, env, func(a *adminAPI) ([]byte, error) {
		want := map[string]any{"name": c.Name, "tenant": c.Tenant, "user": c.User, "tier": c.Tier, "class": c.Class, "roles": c.Role, "models": c.Model, "scopes": c.Scope}
		if !expires.IsZero() {
			want["expires"] = expires.Format(time.RFC3339)
		}
		return a.change(ctx, env, &confirmFlags{}, "Make the key?", http.MethodPost, "/admin/v1/keys", want)
	}, &made, func(ring *app.KeyRing) (err error) {
		made.Secret, made.Key, err = ring.Create(authn.KeyHolder{
			Name: c.Name, Tenant: c.Tenant, User: c.User, Tier: c.Tier, Class: c.Class, Roles: c.Role, Models: c.Model, Scopes: c.Scope, Expires: expires,
		})
		return err
	})
	if err != nil {
		return err
	}
	return made.print(env, c.JSON)
}

type keysRotateCmd struct {
	ID    string `arg:"" help:"The key's id, as the list shows it."`
	Grace string `help:"How long the one before it still works." default:"24h" placeholder:"TIME"`
	keyFlags
	confirmFlags
}

// Help is the example.
func (keysRotateCmd) Help() string {
	return keyHelp + "Example:\n  headgate keys rotate ab3de4fgh5ij6klm --grace 48h --yes"
}

// Validate makes wrong values wrong usage.
func (c *keysRotateCmd) Validate() error {
	if _, err := parseLength(c.Grace); err != nil {
		return fmt.Errorf("grace: %w", err)
	}
	return c.keyFlags.Validate()
}

// Run rotates a key.
func (c *keysRotateCmd) Run(ctx context.Context, env *Env) error {
	grace, err := parseLength(c.Grace)
	if err != nil {
		return err
	}
	question := fmt.Sprintf("Rotate the key %s? It stops working in %s.", c.ID, grace)
	var made madeKey
	err = c.either(ctx, env, func(a *adminAPI) ([]byte, error) {
		return a.change(ctx, env, &c.confirmFlags, question, http.MethodPost, "/admin/v1/keys/"+url.PathEscape(c.ID)+"/rotate", map[string]any{"grace": grace.String()})
	}, &made, func(ring *app.KeyRing) (err error) {
		if err := c.askOf(env, ring, c.ID, question); err != nil {
			return err
		}
		var retired app.Key
		made.Retired = &retired
		made.Secret, made.Key, retired, err = ring.Rotate(c.ID, grace)
		return err
	})
	if err != nil {
		return err
	}
	return made.print(env, c.JSON)
}

type keysRevokeCmd struct {
	ID string `arg:"" help:"The key's id, as the list shows it."`
	keyFlags
	confirmFlags
}

// Help is the example.
func (keysRevokeCmd) Help() string {
	return keyHelp + "Example:\n  headgate keys revoke ab3de4fgh5ij6klm --yes"
}

// Run revokes a key.
func (c *keysRevokeCmd) Run(ctx context.Context, env *Env) error {
	question := fmt.Sprintf("Revoke the key %s? It stops working at once, for good.", c.ID)
	var gone app.Key
	err := c.either(ctx, env, func(a *adminAPI) ([]byte, error) {
		return a.change(ctx, env, &c.confirmFlags, question, http.MethodDelete, "/admin/v1/keys/"+url.PathEscape(c.ID), nil)
	}, &gone, func(ring *app.KeyRing) (err error) {
		if err := c.askOf(env, ring, c.ID, question); err != nil {
			return err
		}
		gone, err = ring.Revoke(c.ID)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(env.Stdout, gone)
	}
	_, err = fmt.Fprintf(env.Stdout, "The key %s (id %s) is revoked.\n", gone.Name, gone.ID)
	return err
}
