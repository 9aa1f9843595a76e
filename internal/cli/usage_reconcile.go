package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/llm"
)

type usageReconcileCmd struct {
	adminFlags
	Invoice  string  `arg:"" help:"The provider's invoice or usage report: CSV with names in the first line, or JSON, an object a line." type:"existingfile"`
	Ledger   string  `help:"The ledger's file; without it and without --admin it is headgate.db." placeholder:"FILE"`
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
of input_tokens, output_tokens, cached_tokens and amount_usd. Exit status 1 if a line does not match. With --admin it asks a
running gateway, whatever database it keeps its ledger in.

Examples:
  headgate usage reconcile invoice.csv --ledger headgate.db --provider openai --share 0.01
  headgate usage reconcile invoice.csv --admin http://127.0.0.1:8081`
}

// Validate makes wrong values wrong usage.
func (c *usageReconcileCmd) Validate() error {
	if c.Ledger != "" && c.Admin != "" {
		return errors.New("ledger and admin: name one of them")
	}
	if _, err := c.how(time.Now()); err != nil {
		return err
	}
	return c.check()
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
	group := c.api(env).groups
	if c.Admin == "" {
		room, err := openLedger(ctx, cmp.Or(c.Ledger, "headgate.db"))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, room.Close(ctx)) }()
		group = room.Group
	}
	lines, err := ledger.Reconcile(ctx, group, invoice, how)
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

// groups reads the ledger of a running gateway: what reconciling needs of the
// totals of each group.
func (a *adminAPI) groups(ctx context.Context, q ledger.Query, by []string) ([]ledger.Row, error) {
	v := parameters(&q, false)
	v.Set("by", strings.Join(by, ","))
	body, err := a.get(ctx, "/admin/v1/usage?"+v.Encode())
	if err != nil {
		return nil, err
	}
	var answer struct {
		Rows []groupLine `json:"rows"`
	}
	if err := read(body, &answer); err != nil {
		return nil, err
	}
	rows := make([]ledger.Row, len(answer.Rows))
	for i := range rows {
		if rows[i], err = answer.Rows[i].row(by); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// groupLine is a group as the admin API shows it.
type groupLine map[string]json.RawMessage

func (l groupLine) row(by []string) (row ledger.Row, err error) {
	row.By = make([]string, len(by))
	for i, name := range by {
		err = errors.Join(err, json.Unmarshal(l[name], &row.By[i]))
	}
	for name, to := range map[string]*int64{"input_tokens": &row.Input, "output_tokens": &row.Output, "cached_tokens": &row.Cached} {
		err = errors.Join(err, json.Unmarshal(l[name], to))
	}
	cost, wrong := llm.ParseUSD(string(l["cost_usd"]))
	if err = errors.Join(err, wrong); err != nil {
		return row, fmt.Errorf("the gateway's answer is not one of usage: %w", err)
	}
	row.Cost = cost
	return row, nil
}
