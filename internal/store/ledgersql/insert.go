package ledgersql

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/headgate-ai/headgate/internal/ledger"
)

// chunk is how many rows one statement inserts: enough that the statements do
// not count, and few enough for either database's bound on parameters.
const chunk = 50

// columns are in the order of args and scan.
var columns = strings.Fields(`id at request_id key_name tenant user_name model provider target dialect op outcome status
	input_tokens cached_tokens cache_write_tokens output_tokens reasoning_tokens estimated cost priced`)

func (s *Store) insertSQL(rows int) string {
	row := "(?" + strings.Repeat(",?", len(columns)-1) + ")"
	return s.bind("INSERT INTO entries (" + strings.Join(columns, ",") + ") VALUES " + row + strings.Repeat(","+row, rows-1) +
		" ON CONFLICT (id) DO NOTHING RETURNING id")
}

func appendArgs(args []any, e *ledger.Entry) []any {
	u := &e.Usage
	return append(args, e.ID, e.At.UnixNano(), e.RequestID, e.Key, e.Tenant, e.User, e.Model, e.Provider, e.Target, e.Dialect, e.Op, e.Outcome, e.Status,
		u.Input, u.Cached, u.CacheWrite, u.Output, u.Reasoning, bit(u.Estimated), int64(e.Cost), bit(e.Priced))
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Insert implements ledger.Store.
func (s *Store) Insert(ctx context.Context, entries []ledger.Entry) error {
	if err := s.migrate(ctx); err != nil {
		return err
	}
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // says only that the commit was done
	c := charges{}
	for part := range slices.Chunk(entries, chunk) {
		fresh, err := s.insertChunk(ctx, tx, part)
		if err != nil {
			return err
		}
		c.add(part, fresh)
	}
	if err := s.charge(ctx, tx, c); err != nil {
		return err
	}
	return tx.Commit()
}

// insertChunk inserts what is not there, and gives the IDs of that.
func (s *Store) insertChunk(ctx context.Context, tx *sql.Tx, part []ledger.Entry) (map[string]bool, error) {
	query := s.insert
	if len(part) < chunk {
		query = s.insertSQL(len(part))
	}
	args := make([]any, 0, len(part)*len(columns))
	for i := range part {
		args = appendArgs(args, &part[i])
	}
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	fresh := make(map[string]bool, len(part))
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		fresh[id] = true
	}
	return fresh, rows.Err()
}

type scopeIn struct {
	scope  string
	period int64
}

// charges are what a batch adds to the balances.
type charges map[scopeIn]int64

// add counts the charges of fresh entries, of those that stand twice in the
// part only the first.
func (c charges) add(part []ledger.Entry, fresh map[string]bool) {
	for i := range part {
		e := &part[i]
		if !fresh[e.ID] {
			continue
		}
		delete(fresh, e.ID)
		for _, ch := range e.Charges {
			k := scopeIn{ch.Scope, ch.Period}
			c[k] = ledger.AddCapped(c[k], ch.Amount)
		}
	}
}

// charge adds to the balances, always in the same order: two gateways that
// charge the same budgets would otherwise lock each other out.
func (s *Store) charge(ctx context.Context, tx *sql.Tx, c charges) error {
	keys := make([]scopeIn, 0, len(c))
	for k := range c {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b scopeIn) int {
		if n := strings.Compare(a.scope, b.scope); n != 0 {
			return n
		}
		return int(max(-1, min(1, a.period-b.period)))
	})
	for _, k := range keys {
		if _, err := tx.ExecContext(ctx, s.bind(upsert), k.scope, k.period, c[k]); err != nil {
			return err
		}
	}
	return nil
}

// upsert stops at the largest number, as ledger.AddCapped does.
const upsert = `INSERT INTO balances (scope, period, used) VALUES (?, ?, ?) ON CONFLICT (scope, period) DO UPDATE SET used =
	CASE WHEN balances.used > 9223372036854775807 - excluded.used THEN 9223372036854775807 ELSE balances.used + excluded.used END`
