package app

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/store/postgres"
	"github.com/headgate-ai/headgate/internal/store/sqlite"
)

// openLedger opens the ledger that the configuration names; nil where none is
// kept.
func (a *App) openLedger(ctx context.Context, c *ledger.Config) (*ledger.Room, error) {
	var store ledger.Store
	switch c.Kind {
	case ledger.KindNone:
		return nil, nil
	case ledger.KindSQLite:
		s, err := sqlite.Open(c.Path)
		if err != nil {
			return nil, fmt.Errorf("cannot open the ledger (ledger.path): %w", err)
		}
		store = s
	case ledger.KindPostgres:
		address, err := c.URL.Resolve()
		if err != nil {
			return nil, fmt.Errorf("cannot open the ledger (ledger.url): %w", err)
		}
		s, err := postgres.Open(address)
		if err != nil {
			return nil, fmt.Errorf("cannot open the ledger (ledger.url): %w", err)
		}
		store = s
	}
	room, err := ledger.Open(ctx, ledger.Options{Config: *c, Store: store, Log: a.log})
	if err != nil && store != nil {
		_ = store.Close()
	}
	return room, err
}

// restoreTime bounds the reading of the ledger at the start. A gateway that does
// not know what has been used must not let calls in: they could use it twice.
const restoreTime = 30 * time.Second

// restore gives every budget what has been used of its running period. What was
// only reserved when a process ended has ended with it.
func (a *App) restore(ctx context.Context) error {
	if a.gateway.Ledger == nil || !a.gateway.Snapshot().Quota.Budgeted() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, restoreTime)
	defer cancel()
	balances, err := a.gateway.Ledger.Balances(ctx, time.Now().Add(-longestPeriod).Unix())
	if err != nil {
		return fmt.Errorf("cannot read from the ledger what budgets have been used: %w", err)
	}
	now := time.Now()
	for _, b := range balances {
		a.gateway.Quota.Restore(&a.gateway.Snapshot().Quota, b.Scope, b.Period, b.Used, now)
	}
	return nil
}

// longestPeriod is more than a budget's longest period that ends, a month.
const longestPeriod = 40 * 24 * time.Hour

// closeLedger brings what is still on its way into the store.
func (a *App) closeLedger(ctx context.Context) {
	if a.gateway.Ledger == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lastWords)
	defer cancel()
	if err := a.gateway.Ledger.Close(ctx); err != nil {
		a.log.Error("the ledger's last entries wait in its spool for the next start", "error", err.Error())
	}
}

// sweepEvery is how often what nobody uses any more is forgotten; every
// pruneEvery times that, what is long past in the ledger is, too.
const (
	sweepEvery = time.Minute
	pruneEvery = 60
)

func (a *App) sweep(ctx context.Context) {
	defer a.started.Done()
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			a.gateway.Quota.Sweep(&a.gateway.Snapshot().Quota, now)
			if n%pruneEvery == 0 && a.gateway.Ledger != nil {
				if err := a.gateway.Ledger.Prune(ctx, now.Add(-longestPeriod).Unix()); err != nil && ctx.Err() == nil {
					a.log.Warn("balances of periods long past stay in the ledger until the next try", "error", err.Error())
				}
			}
		}
	}
}
