package ledgersql

import (
	"context"
	"crypto/rand"
	"database/sql"
	"time"

	"github.com/headgate-ai/headgate/internal/ledger"
)

// hour is the unit of what is summed and of what stands in one batch.
const hour = int64(time.Hour)

// Insert implements ledger.Store.
func (s *Store) Insert(ctx context.Context, b ledger.Batch) error {
	if err := s.migrate(ctx); err != nil {
		return err
	}
	n, err := s.insert(ctx, b)
	if err != nil {
		return err
	}
	if s.due(n) {
		return s.Fold(ctx)
	}
	return nil
}

// statements are what every batch needs, prepared once: SQLite takes longer to
// understand them than to do them.
type statements struct{ place, batch, pending *sql.Stmt }

func (s *Store) prepare(ctx context.Context) (err error) {
	for _, p := range [...]struct {
		to    **sql.Stmt
		query string
	}{
		{&s.prepared.place, "SELECT COALESCE(MAX(ends), 0) FROM entry_batches WHERE source = ?"},
		{&s.prepared.batch, insertBatch},
		{&s.prepared.pending, insertPending},
	} {
		if *p.to, err = s.write.PrepareContext(ctx, s.bind(p.query)); err != nil {
			return err
		}
	}
	return nil
}

// insert adds what is not there, and says how much that was.
func (s *Store) insert(ctx context.Context, b ledger.Batch) (entries int, err error) {
	err = s.change(ctx, func(tx *sql.Tx) error {
		if b.Source != "" {
			var place int64
			if err := tx.StmtContext(ctx, s.prepared.place).QueryRowContext(ctx, b.Source).Scan(&place); err != nil {
				return err
			}
			b = b.After(place)
		}
		entries = len(b.Entries)
		return insertBatches(ctx, b, tx.StmtContext(ctx, s.prepared.batch), tx.StmtContext(ctx, s.prepared.pending))
	})
	return entries, err
}

// change runs f in a transaction that writes.
func (s *Store) change(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // says only that the commit was done
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

const (
	insertBatch   = "INSERT INTO entry_batches (source, ends, hour, first_at, last_at, entries, head, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
	insertPending = "INSERT INTO pending_batches (source, ends, charges) VALUES (?, ?, ?)"
)

// insertBatches adds entries with the two statements, one row for each hour that
// they are of.
func insertBatches(ctx context.Context, b ledger.Batch, batch, pending *sql.Stmt) error {
	if len(b.Entries) == 0 {
		return nil
	}
	source, ends := rand.Text(), int64(0)
	if b.Source != "" {
		source, ends = b.Source, b.Ends[len(b.Ends)-1]
	}
	hours, c := pack(b.Entries)
	for at, p := range hours {
		_, err := batch.ExecContext(ctx, source, ends, at, p.first, p.last, p.entries, p.head(), p.body())
		p.free()
		if err != nil {
			return err
		}
	}
	_, err := pending.ExecContext(ctx, source, ends, c.pack())
	return err
}

// pack packs the entries by hours, which are named in seconds since 1970, and
// adds up their charges.
func pack(entries []ledger.Entry) (map[int64]*packer, charges) {
	hours, c := map[int64]*packer{}, charges{}
	for i := range entries {
		e := &entries[i]
		at := e.At.UnixNano() / hour * 3600
		if hours[at] == nil {
			hours[at] = newPacker()
		}
		hours[at].add(e)
		for _, ch := range e.Charges {
			c.add(ch.Scope, ch.Period, ch.Amount)
		}
	}
	return hours, c
}
