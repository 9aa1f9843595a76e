package ledgersql

import (
	"context"
	"crypto/rand"
	"database/sql"
	"slices"
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

// insert adds what is not there, and says how much that was.
func (s *Store) insert(ctx context.Context, b ledger.Batch) (entries int, err error) {
	err = s.change(ctx, func(tx *sql.Tx) error {
		if b.Source != "" {
			var place int64
			if err := tx.QueryRowContext(ctx, s.bind("SELECT COALESCE(MAX(ends), 0) FROM entry_batches WHERE source = ?"), b.Source).Scan(&place); err != nil {
				return err
			}
			b = b.After(place)
		}
		entries = len(b.Entries)
		return s.insertBatch(ctx, tx, b)
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
	insertBatch   = "INSERT INTO entry_batches (source, ends, hour, first_at, last_at, entries, data) VALUES (?, ?, ?, ?, ?, ?, ?)"
	insertPending = "INSERT INTO pending_batches (source, ends, charges) VALUES (?, ?, ?)"
)

// insertBatch adds entries, one row for each hour that they are of.
func (s *Store) insertBatch(ctx context.Context, tx *sql.Tx, b ledger.Batch) error {
	if len(b.Entries) == 0 {
		return nil
	}
	source, ends := rand.Text(), int64(0)
	if b.Source != "" {
		source, ends = b.Source, b.Ends[len(b.Ends)-1]
	}
	c := charges{}
	hours := map[int64]*packer{}
	for i := range b.Entries {
		e := &b.Entries[i]
		at := e.At.UnixNano() / hour
		if hours[at] == nil {
			hours[at] = newPacker()
		}
		hours[at].add(e)
		for _, ch := range e.Charges {
			c.add(ch.Scope, ch.Period, ch.Amount)
		}
	}
	for at, p := range hours {
		if _, err := tx.ExecContext(ctx, s.bind(insertBatch), source, ends, at*3600, p.first, p.last, p.entries, p.bytes()); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, s.bind(insertPending), source, ends, c.pack())
	return err
}

// Pending batches are summed when so many entries have come or so long after
// they were summed last. They are read whenever sums are asked for; summed
// together, entries of the same hour and kind need one row.
const (
	foldEntries = 64 << 10
	foldEvery   = time.Minute
)

// due is whether pending batches should be summed, now that some entries have
// been added. They are at the first use, too: a former process may have left
// some.
func (s *Store) due(entries int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unfolded += entries
	return s.unfolded >= foldEntries || time.Since(s.folded) >= foldEvery
}

// Fold adds the pending batches to the sums by hour and to the balances. Insert
// and Prune do so by themselves.
func (s *Store) Fold(ctx context.Context) error {
	err := s.change(ctx, func(tx *sql.Tx) error {
		sums, c := hourly{}, charges{}
		gone, err := s.takePending(ctx, tx, c)
		if err != nil {
			return err
		}
		for _, p := range gone {
			if err := s.sum(ctx, tx, p, sums); err != nil {
				return err
			}
		}
		if err := s.addSums(ctx, tx, sums); err != nil {
			return err
		}
		return s.addBalances(ctx, tx, c)
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.unfolded, s.folded = 0, time.Now()
	s.mu.Unlock()
	return nil
}

type pending struct {
	source string
	ends   int64
}

// takePending takes away what is pending; of those who try at the same time one
// gets it.
func (s *Store) takePending(ctx context.Context, tx *sql.Tx, c charges) (gone []pending, err error) {
	rows, err := tx.QueryContext(ctx, "DELETE FROM pending_batches RETURNING source, ends, charges")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var p pending
		var b sql.RawBytes
		if err := rows.Scan(&p.source, &p.ends, &b); err != nil {
			return nil, err
		}
		if err := c.unpack(b); err != nil {
			return nil, err
		}
		gone = append(gone, p)
	}
	return gone, rows.Err()
}

// sum adds the entries of a batch to the sums.
func (s *Store) sum(ctx context.Context, tx *sql.Tx, p pending, sums hourly) error {
	rows, err := tx.QueryContext(ctx, s.bind("SELECT hour, data FROM entry_batches WHERE source = ? AND ends = ?"), p.source, p.ends)
	if err != nil {
		return err
	}
	return eachBatch(rows, sums.add)
}

// eachBatch goes over rows of a number and a batch.
func eachBatch(rows *sql.Rows, f func(hour int64, u *unpacker) error) error {
	defer rows.Close()
	for rows.Next() {
		var at int64
		var b sql.RawBytes
		if err := rows.Scan(&at, &b); err != nil {
			return err
		}
		u, err := unpack(b)
		if err != nil {
			return err
		}
		if err := f(at, u); err != nil {
			return err
		}
	}
	return rows.Err()
}

// chunk is how many rows one statement adds to: enough that the statements do
// not count, and few enough for either database's bound on parameters.
const chunk = 50

// addSums adds to the sums by hour, in the same order always.
func (s *Store) addSums(ctx context.Context, tx *sql.Tx, sums hourly) error {
	for part := range slices.Chunk(sums.sorted(), chunk) {
		query := s.sumsOf
		if len(part) < chunk {
			query = s.sumsSQL(len(part))
		}
		args := make([]any, 0, len(part)*len(sumColumns))
		for _, k := range part {
			args = append(args, k.hour, k.tenant, k.key, k.user, k.model, k.provider, k.target)
			for _, n := range fields(sums[k]) {
				args = append(args, n)
			}
		}
		if _, err := tx.ExecContext(ctx, query, args...); err != nil {
			return err
		}
	}
	return nil
}

// addBalances adds to the balances, in the same order always.
func (s *Store) addBalances(ctx context.Context, tx *sql.Tx, c charges) error {
	for part := range slices.Chunk(c.sorted(), chunk) {
		args := make([]any, 0, 3*len(part))
		for _, k := range part {
			args = append(args, k.scope, k.period, c[k])
		}
		query := s.bind("INSERT INTO balances (scope, period, used) VALUES " + rowsOf(3, len(part)) +
			" ON CONFLICT (scope, period) DO UPDATE SET used = " + added("balances", "used"))
		if _, err := tx.ExecContext(ctx, query, args...); err != nil {
			return err
		}
	}
	return nil
}
