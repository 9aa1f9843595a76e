package ledgersql

import (
	"context"
	"database/sql"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/llm"
)

// moveEntries is the migration to batches of the entries that have a row each.
// Their charges are in the balances already.
func (s *Store) moveEntries() *goose.Migration {
	return goose.NewGoMigration(3, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		batch, err := tx.PrepareContext(ctx, s.bind(insertBatch))
		if err != nil {
			return err
		}
		defer batch.Close()
		pending, err := tx.PrepareContext(ctx, s.bind(insertPending))
		if err != nil {
			return err
		}
		defer pending.Close()
		at, id := int64(-1), ""
		for {
			entries, err := s.oldEntries(ctx, tx, at, id)
			if err != nil {
				return err
			}
			if len(entries) == 0 {
				break
			}
			if _, err := s.insertBatches(ctx, ledger.BatchOf("", entries, nil), 0, batch, pending); err != nil {
				return err
			}
			last := &entries[len(entries)-1]
			at, id = last.At.UnixNano(), last.ID
		}
		_, err = tx.ExecContext(ctx, "DROP TABLE entries")
		return err
	}}, nil)
}

const oldEntries = `SELECT id, at, request_id, key_name, tenant, user_name, model, provider, target, dialect, op, outcome, status,
	input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens, estimated, cost, priced
	FROM entries WHERE (at, id) > (?, ?) ORDER BY at, id LIMIT ?`

func (s *Store) oldEntries(ctx context.Context, tx *sql.Tx, at int64, id string) (entries []ledger.Entry, err error) {
	rows, err := tx.QueryContext(ctx, s.bind(oldEntries), at, id, page)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var e ledger.Entry
		var at, cost int64
		var estimated, priced int
		u := &e.Usage
		if err := rows.Scan(&e.ID, &at, &e.RequestID, &e.Key, &e.Tenant, &e.User, &e.Model, &e.Provider, &e.Target, &e.Dialect, &e.Op, &e.Outcome, &e.Status,
			&u.Input, &u.Cached, &u.CacheWrite, &u.Output, &u.Reasoning, &estimated, &cost, &priced); err != nil {
			return nil, err
		}
		e.At, u.Estimated, e.Cost, e.Priced = time.Unix(0, at).UTC(), estimated != 0, llm.Money(cost), priced != 0
		entries = append(entries, e)
	}
	return entries, rows.Err()
}
