package ledgertest

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/headgate-ai/headgate/internal/ledger"
)

// Old makes the ledger as it was when each entry had a row of its own, in an
// empty database. What it gives must be found there once the store of today has
// opened it. The migrations are those beside the caller's package.
func Old(t *testing.T, db *sql.DB, d goose.Dialect) *ledger.Memory {
	t.Helper()
	p, err := goose.NewProvider(d, db, os.DirFS("../ledgersql/migrations"), goose.WithTableName("headgate_schema"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // says only that the commit was done
	oracle := ledger.NewMemory(0)
	r := rand.New(rand.NewPCG(5, 5))
	for i := range 9000 {
		e := Random(r, fmt.Sprint("old-", i))
		e.Charges = nil
		if err := insertOld(t, tx, &e); err != nil {
			t.Fatal(err)
		}
		insert(t, oracle, e)
	}
	if _, err := tx.ExecContext(t.Context(), "INSERT INTO balances (scope, period, used) VALUES ('b/usd/acme', 3600, 7)"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	return oracle
}

func insertOld(t *testing.T, tx *sql.Tx, e *ledger.Entry) error {
	bit := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	u := &e.Usage
	_, err := tx.ExecContext(t.Context(), `INSERT INTO entries (id, at, request_id, key_name, tenant, user_name, model, provider, target, dialect, op, outcome,
		status, input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, estimated, cost, priced)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)`,
		e.ID, e.At.UnixNano(), e.RequestID, e.Key, e.Tenant, e.User, e.Model, e.Provider, e.Target, e.Dialect, e.Op, e.Outcome,
		e.Status, u.Input, u.Cached, u.CacheWrite, u.Output, u.Reasoning, bit(u.Estimated), int64(e.Cost), bit(e.Priced))
	return err
}

// Moved holds a store on what Old made against it, and goes on with it.
func Moved(t *testing.T, s ledger.Store, oracle *ledger.Memory) {
	t.Helper()
	if got := balances(t, s, 0); len(got) != 1 || got[0] != (ledger.Balance{Scope: "b/usd/acme", Period: 3600, Used: 7}) {
		t.Errorf("the balances are %v", got)
	}
	r := rand.New(rand.NewPCG(6, 6))
	for i := range 6 {
		compare(t, s, oracle, randomQuery(r), randomBy(r))
		if i == 3 {
			more := Random(r, "new")
			more.Charges = nil
			insert(t, s, more)
			insert(t, oracle, more)
			if err := s.Prune(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
}
