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
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/store/sqlite"
)

type usageCmd struct {
	Show      usageShowCmd      `cmd:"" default:"withargs" help:"Show what was used and what it cost."`
	Reconcile usageReconcileCmd `cmd:"" help:"Hold a provider's invoice against the ledger."`
}

type usageShowCmd struct {
	adminFlags
	Ledger   string   `help:"Read the ledger's file, in place of a running gateway." placeholder:"FILE"`
	From     string   `help:"From then on: a date, a time, or a length before now such as 24h or 30d." placeholder:"WHEN"`
	Until    string   `help:"Until then, which is not included." placeholder:"WHEN"`
	Key      string   `help:"Of one key, by its name."`
	Tenant   string   `help:"Of one tenant."`
	User     string   `help:"Of one user."`
	Model    string   `help:"Of one model, by the name that clients call or its provider's."`
	Provider string   `help:"Of one provider."`
	By       []string `help:"Group by some of key, tenant, user, model, provider, target, day, hour." placeholder:"DIMENSION"`
	JSON     bool     `help:"Print as JSON." xor:"format"`
	CSV      bool     `name:"csv" help:"Print as CSV." xor:"format"`
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
	if c.Ledger != "" && c.Admin != "" {
		return errors.New("ledger and admin: name one of them")
	}
	if len(c.By) > 0 {
		if err := ledger.CheckBy(c.By); err != nil {
			return fmt.Errorf("by: %w", err)
		}
	}
	if _, err := c.query(time.Now()); err != nil {
		return err
	}
	return c.check()
}

func (c *usageShowCmd) query(now time.Time) (q ledger.Query, err error) {
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
	body, err := c.api(env).get(ctx, "/admin/v1/usage?"+c.parameters(&q).Encode())
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

func (c *usageShowCmd) parameters(q *ledger.Query) url.Values {
	v := url.Values{}
	for name, value := range map[string]string{"key": q.Key, "tenant": q.Tenant, "user": q.User, "model": q.Model, "provider": q.Provider, "by": strings.Join(c.By, ",")} {
		if value != "" {
			v.Set(name, value)
		}
	}
	for name, t := range map[string]time.Time{"from": q.From, "until": q.Until} {
		if !t.IsZero() {
			v.Set(name, t.Format(time.RFC3339Nano))
		}
	}
	if c.CSV {
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

type usageReconcileCmd struct {
	Invoice  string  `arg:"" help:"The provider's invoice or usage report: CSV with names in the first line, or JSON, an object a line." type:"existingfile"`
	Ledger   string  `help:"The ledger's file." default:"headgate.db" placeholder:"FILE"`
	Provider string  `help:"Whose entries count; all without it." placeholder:"NAME"`
	From     string  `help:"From this day on; without it from the invoice's first day." placeholder:"WHEN"`
	Until    string  `help:"Until this day, which is not included; without it to the invoice's last day." placeholder:"WHEN"`
	Tokens   int64   `help:"Tokens that a line may differ by." placeholder:"N"`
	USD      string  `name:"usd" help:"Dollars that a line may differ by, such as 0.01." default:"0" placeholder:"AMOUNT"`
	Share    float64 `help:"Share of the larger side that a line may differ by, from 0 to 1." placeholder:"SHARE"`
	All      bool    `help:"Show the lines that match, too."`
	JSON     bool    `help:"Print as JSON." xor:"format"`
	CSV      bool    `name:"csv" help:"Print as CSV." xor:"format"`
}

// Help is the rest of the command's manual.
func (usageReconcileCmd) Help() string {
	return `Days are those of UTC; models are compared by the provider's names. The invoice needs the columns date and model, and some
of input_tokens, output_tokens, cached_tokens and amount_usd. Exit status 1 if a line does not match.

Example:
  headgate usage reconcile invoice.csv --ledger headgate.db --provider openai --share 0.01`
}

// Validate makes wrong values wrong usage.
func (c *usageReconcileCmd) Validate() error {
	_, err := c.how(time.Now())
	return err
}

func (c *usageReconcileCmd) how(now time.Time) (how ledger.Reconciliation, err error) {
	how = ledger.Reconciliation{Provider: c.Provider, Tokens: c.Tokens, Share: c.Share}
	if how.From, err = parseWhen(c.From, -1, now); err != nil {
		return how, fmt.Errorf("from: %w", err)
	}
	if how.Until, err = parseWhen(c.Until, -1, now); err != nil {
		return how, fmt.Errorf("until: %w", err)
	}
	if how.Money, err = llm.ParseUSD(c.USD); err != nil || how.Money < 0 {
		return how, fmt.Errorf("usd: %q is not an amount of dollars; write one such as 0.01", c.USD)
	}
	if c.Tokens < 0 || !(c.Share >= 0 && c.Share <= 1) {
		return how, errors.New("tokens is a number of 0 or more, and share one from 0 to 1")
	}
	return how, nil
}

// Run compares the two.
func (c *usageReconcileCmd) Run(ctx context.Context, env *Env) (err error) {
	how, err := c.how(time.Now())
	if err != nil {
		return err
	}
	invoice, err := os.Open(c.Invoice)
	if err != nil {
		return err
	}
	defer invoice.Close()
	room, err := openLedger(ctx, c.Ledger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, room.Close(ctx)) }()
	lines, err := room.Reconcile(ctx, invoice, how)
	if err != nil {
		return err
	}
	counts := ledger.Counts(lines)
	if err := c.print(env, lines, counts); err != nil {
		return err
	}
	if counts[ledger.Match] < len(lines) {
		return errReported
	}
	return nil
}

func (c *usageReconcileCmd) print(env *Env, lines []ledger.ReconciledLine, counts map[ledger.Verdict]int) error {
	switch {
	case c.CSV:
		return ledger.WriteReconciledCSV(env.Stdout, lines)
	case c.JSON:
		return printJSON(env.Stdout, map[string]any{"lines": lines, "counts": counts})
	}
	t := tabwriter.NewWriter(env.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "DAY\tMODEL\tVERDICT\tINVOICED INPUT\tOURS\tINVOICED OUTPUT\tOURS\tINVOICED\tOURS")
	for i := range lines {
		l := &lines[i]
		if l.Verdict == ledger.Match && !c.All {
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n", l.Day, l.Model, l.Verdict,
			l.Invoiced.Input, l.Ledger.Input, l.Invoiced.Output, l.Ledger.Output, l.Invoiced.Money, l.Ledger.Money)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(env.Stdout, "%d lines: %d match, %d differ, %d are missing here, %d are missing on the invoice\n",
		len(lines), counts[ledger.Match], counts[ledger.Differs], counts[ledger.MissingHere], counts[ledger.MissingThere])
	return err
}
