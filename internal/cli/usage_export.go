package cli

import (
	"bufio"
	"context"
	"errors"
	"time"

	"github.com/headgate-ai/headgate/internal/app"
	"github.com/headgate-ai/headgate/internal/ledger"
)

type usageExportCmd struct {
	usageQuery
	JSON bool `help:"Print as JSON, as it does without a format." xor:"format"`
	CSV  bool `name:"csv" help:"Print as CSV." xor:"format"`
}

// Help is the rest of the command's manual.
func (usageExportCmd) Help() string {
	return `Without --ledger it asks the gateway at --admin, by default http://127.0.0.1:8081, whatever database it keeps its ledger in.
Entries come in the order in which the requests began. JSON is an array, an entry a line; it is not closed if the reading fails.

Examples:
  headgate usage export --from 24h --tenant acme
  headgate usage export --ledger headgate.db --csv > entries.csv`
}

// Validate makes wrong values wrong usage.
func (c *usageExportCmd) Validate() error { return c.valid() }

// Run prints the entries while they are read.
func (c *usageExportCmd) Run(ctx context.Context, env *Env) (err error) {
	q, err := c.query(time.Now())
	if err != nil {
		return err
	}
	if c.Ledger == "" {
		return c.api(env).copy(ctx, "/admin/v1/usage/entries?"+parameters(&q, c.CSV).Encode(), env.Stdout)
	}
	room, err := openLedger(ctx, c.Ledger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, room.Close(ctx)) }()
	source := func(f func(ledger.Entry) error) error { return app.UsageEntries(ctx, room, q, f) }
	w := bufio.NewWriter(env.Stdout)
	if c.CSV {
		err = ledger.WriteCSV(w, source)
	} else {
		err = ledger.WriteJSON(w, source)
	}
	return errors.Join(err, w.Flush())
}
