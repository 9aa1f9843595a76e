package ledgersql

import (
	"cmp"
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
		var place int64
		if b.Source != "" {
			if err := tx.StmtContext(ctx, s.prepared.place).QueryRowContext(ctx, b.Source).Scan(&place); err != nil {
				return err
			}
		}
		entries, err = s.insertBatches(ctx, b, place, tx.StmtContext(ctx, s.prepared.batch), tx.StmtContext(ctx, s.prepared.pending))
		return err
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

// insertBatches adds what the batch has behind the place with the two statements,
// one row for each hour that entries are of, and says how many those were.
func (s *Store) insertBatches(ctx context.Context, b ledger.Batch, place int64, batch, pending *sql.Stmt) (entries int, err error) {
	hours, err := s.pack(b, place)
	defer hours.free()
	if err != nil || hours.entries == 0 {
		return 0, err
	}
	source := cmp.Or(b.Source, rand.Text())
	for at, p := range hours.all {
		if _, err := batch.ExecContext(ctx, source, hours.ends, at, p.first, p.last, p.entries, p.head(), p.body()); err != nil {
			return 0, err
		}
	}
	_, err = pending.ExecContext(ctx, source, hours.ends, packCharges(hours.charges))
	return hours.entries, err
}

// hours are entries by hours, and what they are charged for.
type hours struct {
	spare   *spare
	all     map[int64]*packer // by when they begin, in seconds since 1970
	charges map[*ledger.Account]int64
	entries int
	ends    int64
}

// pack packs what the batch has behind the place.
func (s *Store) pack(b ledger.Batch, place int64) (*hours, error) {
	h := &hours{spare: &s.spare, all: map[int64]*packer{}, charges: map[*ledger.Account]int64{}}
	for r, err := range b.Records(place) {
		if err != nil {
			return h, err
		}
		h.of(r.At / hour * 3600).add(r)
		for _, c := range r.Charges {
			h.charges[c.Account] = ledger.AddCapped(h.charges[c.Account], c.Amount)
		}
		h.entries, h.ends = h.entries+1, r.End
	}
	return h, nil
}

func (h *hours) of(at int64) *packer {
	p := h.all[at]
	if p == nil {
		p = h.spare.get()
		h.all[at] = p
	}
	return p
}

// free gives the packers back.
func (h *hours) free() {
	for _, p := range h.all {
		h.spare.put(p)
	}
}
