package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/headgate-ai/headgate/internal/app"
	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/store/sqlite"
)

type usageCmd struct {
	Show      usageShowCmd      `cmd:"" default:"withargs" help:"Show what was used and what it cost."`
	Export    usageExportCmd    `cmd:"" help:"Print the ledger's entries, one for each request."`
	Reconcile usageReconcileCmd `cmd:"" help:"Hold a provider's invoice against the ledger."`
}

// Help is the example.
func (usageCmd) Help() string { return "Example:\n  headgate usage show --by tenant" }

// usageQuery are the flags that say what is asked for.
type usageQuery struct {
	adminFlags
	Ledger   string `help:"Read the ledger's file, in place of a running gateway." placeholder:"FILE"`
	From     string `help:"From then on: a date, a time, or a length before now such as 24h or 30d." placeholder:"WHEN"`
	Until    string `help:"Until then, which is not included." placeholder:"WHEN"`
	Key      string `help:"Of one key, by its name."`
	Tenant   string `help:"Of one tenant."`
	User     string `help:"Of one user."`
	Model    string `help:"Of one model, by the name that clients call or its provider's."`
	Provider string `help:"Of one provider."`
}

type usageShowCmd struct {
	usageQuery
	By   []string `help:"Group by some of key, tenant, user, model, provider, target, day, hour." placeholder:"DIMENSION"`
	JSON bool     `help:"Print as JSON." xor:"format"`
	CSV  bool     `name:"csv" help:"Print as CSV." xor:"format"`
}

// Help is the rest of the command's manual.
func (usageShowCmd) Help() string {
	return `Without --ledger it asks the gateway at --admin, by default http://127.0.0.1:8081. A ledger's file can be read beside the
gateway that writes it; what came in the last moments may not be in it yet.

Examples:
  headgate usage --by tenant,model --from 30d
  headgate usage --ledger headgate.db --by day --csv > usage.csv`
}

// Validate makes wrong values wrong usage.
func (c *usageShowCmd) Validate() error {
	if len(c.By) > 0 {
		if err := ledger.CheckBy(c.By); err != nil {
			return fmt.Errorf("by: %w", err)
		}
	}
	return c.valid()
}

func (c *usageQuery) valid() error {
	if c.Ledger != "" && c.Admin != "" {
		return errors.New("ledger and admin: name one of them")
	}
	if _, err := c.query(time.Now()); err != nil {
		return err
	}
	return c.check()
}

func (c *usageQuery) query(now time.Time) (q ledger.Query, err error) {
	q = ledger.Query{Key: c.Key, Tenant: c.Tenant, User: c.User, Model: c.Model, Provider: c.Provider}
	if q.From, err = parseWhen(c.From, -1, now); err != nil {
		return q, fmt.Errorf("from: %w", err)
	}
	if q.Until, err = parseWhen(c.Until, -1, now); err != nil {
		return q, fmt.Errorf("until: %w", err)
	}
	return q, nil
}

// Run shows what was used.
func (c *usageShowCmd) Run(ctx context.Context, env *Env) error {
	q, err := c.query(time.Now())
	if err != nil {
		return err
	}
	if c.Ledger != "" {
		return c.fromLedger(ctx, env, q)
	}
	v := parameters(&q, c.CSV)
	if len(c.By) > 0 {
		v.Set("by", strings.Join(c.By, ","))
	}
	body, err := c.api(env).get(ctx, "/admin/v1/usage?"+v.Encode())
	switch {
	case err != nil:
		return err
	case c.CSV:
		_, err = env.Stdout.Write(body)
		return err
	case c.JSON:
		return printRaw(env.Stdout, body)
	case len(c.By) == 0:
		var flat usageFlat
		if err := read(body, &flat); err != nil {
			return err
		}
		return flat.print(env.Stdout)
	}
	var rows struct {
		Rows []map[string]any `json:"rows"`
	}
	if err := read(body, &rows); err != nil {
		return err
	}
	return printRows(env.Stdout, c.By, rows.Rows)
}

func parameters(q *ledger.Query, csv bool) url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"key": q.Key, "tenant": q.Tenant, "user": q.User, "model": q.Model, "provider": q.Provider} {
		if value != "" {
			v.Set(name, value)
		}
	}
	for name, t := range map[string]time.Time{"from": q.From, "until": q.Until} {
		if !t.IsZero() {
			v.Set(name, t.Format(time.RFC3339Nano))
		}
	}
	if csv {
		v.Set("format", "csv")
	}
	return v
}

// usageFlat is what was used in all.
type usageFlat struct {
	Requests   int64        `json:"requests"`
	Prompt     int64        `json:"prompt_tokens"`
	Completion int64        `json:"completion_tokens"`
	Cached     int64        `json:"cached_tokens"`
	Cost       *json.Number `json:"cost_usd,omitempty"` // absent where no ledger is kept
}

func (f *usageFlat) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "requests\t%d\nprompt tokens\t%d\ncompletion tokens\t%d\ncached tokens\t%d\n", f.Requests, f.Prompt, f.Completion, f.Cached)
	if f.Cost != nil {
		fmt.Fprintf(t, "cost\t%s USD\n", *f.Cost)
	}
	return t.Flush()
}

// usageColumns are the totals that the table shows.
var usageColumns = []string{"requests", "input_tokens", "cached_tokens", "output_tokens", "cost_usd", "unpriced_requests"}

func printRows(w io.Writer, by []string, rows []map[string]any) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	columns := append(by[:len(by):len(by)], usageColumns...)
	fmt.Fprintln(t, strings.ToUpper(strings.Join(columns, "\t")))
	for _, r := range rows {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = dash(fmt.Sprint(r[c]))
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// openLedger opens a ledger's file for reading. It takes no spool, so that it
// can stand beside the gateway that writes.
func openLedger(ctx context.Context, path string) (*ledger.Room, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("there is no ledger: %w", err)
	}
	store, err := sqlite.Open(path)
	if err != nil {
		return nil, err
	}
	// The kind memory is the one without a spool; the store is the file's.
	room, err := ledger.Open(ctx, ledger.Options{Config: ledger.Config{Kind: ledger.KindMemory}, Store: store})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return room, nil
}

func (c *usageShowCmd) fromLedger(ctx context.Context, env *Env, q ledger.Query) (err error) {
	room, err := openLedger(ctx, c.Ledger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, room.Close(ctx)) }()
	rows, err := app.UsageRows(ctx, room, q, c.By)
	if err != nil {
		return err
	}
	switch {
	case c.CSV:
		return ledger.WriteRowsCSV(env.Stdout, c.By, rows)
	case len(c.By) == 0:
		return c.printFlat(env, &rows[0].Totals)
	}
	var b strings.Builder
	if err := ledger.WriteRowsJSON(&b, c.By, rows); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(env.Stdout, map[string]any{"by": c.By, "rows": json.RawMessage(b.String())})
	}
	var maps []map[string]any
	if err := read([]byte(b.String()), &maps); err != nil {
		return err
	}
	return printRows(env.Stdout, c.By, maps)
}

func (c *usageShowCmd) printFlat(env *Env, t *ledger.Totals) error {
	text, err := t.Cost.MarshalText()
	if err != nil {
		return err
	}
	cost := json.Number(text)
	flat := usageFlat{t.Requests, t.Input, t.Output, t.Cached, &cost}
	if c.JSON {
		return printJSON(env.Stdout, flat)
	}
	return flat.print(env.Stdout)
}
