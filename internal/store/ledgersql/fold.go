package ledgersql

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"time"
)

// Pending batches are folded into the sums and balances when so many entries
// have come, or so long after they were folded last. Until then their heads are
// read whenever sums are asked for. Folded together, entries of the same hour and
// kind need one row, and a row costs as much as some entries do.
const (
	foldEntries = 256 << 10
	foldEvery   = 5 * time.Minute
)

// due is whether to fold, now that some entries have been added. It is at the
// first use, too: a former process may have left something.
func (s *Store) due(entries int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unfolded += entries
	return s.unfolded >= foldEntries || time.Since(s.folded) >= foldEvery
}

// Fold adds the pending batches to the sums by hour and to the balances. Insert
// and Prune do so by themselves.
func (s *Store) Fold(ctx context.Context) error {
	if err := s.migrate(ctx); err != nil {
		return err
	}
	err := s.change(ctx, func(tx *sql.Tx) error {
		f := folding{store: s, tx: tx, sums: hourly{}, charges: charges{}}
		all, err := f.pending(ctx)
		if err != nil {
			return err
		}
		for _, p := range all {
			if err := f.fold(ctx, p); err != nil {
				return err
			}
		}
		return f.write(ctx)
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.unfolded, s.folded = 0, time.Now()
	s.mu.Unlock()
	return nil
}

// mostFolding is how many rows come together in memory, more or less.
const mostFolding = 64 << 10

// folding is a Fold under way, in its transaction.
type folding struct {
	store   *Store
	tx      *sql.Tx
	sums    hourly
	charges charges
}

// pending is the name of a batch.
type pending struct {
	source string
	ends   int64
}

func (f *folding) pending(ctx context.Context) (all []pending, err error) {
	rows, err := f.tx.QueryContext(ctx, "SELECT source, ends FROM pending_batches")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var p pending
		if err := rows.Scan(&p.source, &p.ends); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, rows.Err()
}

const takePending = "DELETE FROM pending_batches WHERE source = ? AND ends = ? RETURNING charges"

// fold takes a batch, unless another gateway has just done so, and adds what it
// comes to.
func (f *folding) fold(ctx context.Context, p pending) error {
	var b []byte
	switch err := f.tx.QueryRowContext(ctx, f.store.bind(takePending), p.source, p.ends).Scan(&b); {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	if err := f.charges.unpack(b); err != nil {
		return err
	}
	rows, err := f.tx.QueryContext(ctx, f.store.bind("SELECT hour, head FROM entry_batches WHERE source = ? AND ends = ?"), p.source, p.ends)
	if err != nil {
		return err
	}
	if err := eachHead(rows, f.sums.add); err != nil {
		return err
	}
	if len(f.sums)+len(f.charges) > mostFolding {
		return f.write(ctx)
	}
	return nil
}

// eachHead goes over rows of an hour and a head.
func eachHead(rows *sql.Rows, f func(hour int64, shapes []counted)) error {
	defer rows.Close()
	for rows.Next() {
		var at int64
		var b sql.RawBytes
		if err := rows.Scan(&at, &b); err != nil {
			return err
		}
		shapes, err := unpackHead(b)
		if err != nil {
			return err
		}
		f(at, shapes)
	}
	return rows.Err()
}

// write writes what has come together, and begins anew.
func (f *folding) write(ctx context.Context) error {
	if err := f.rows(ctx, sumsSQL, f.sums.rows()); err != nil {
		return err
	}
	if err := f.rows(ctx, balancesSQL, f.charges.rows()); err != nil {
		return err
	}
	clear(f.sums)
	clear(f.charges)
	return nil
}

// chunk is how many rows one statement adds to: enough that the round trips to a
// server do not count, and few enough for either database's bound on parameters.
const chunk = 50

// rows adds rows with statements for so many at once.
func (f *folding) rows(ctx context.Context, statement func(rows int) string, rows iter.Seq[[]any]) error {
	var args []any
	var full *sql.Stmt
	n := 0
	for row := range rows {
		args = append(args, row...)
		if n++; n < chunk {
			continue
		}
		if full == nil {
			var err error
			if full, err = f.tx.PrepareContext(ctx, f.store.bind(statement(chunk))); err != nil {
				return err
			}
			defer full.Close()
		}
		if _, err := full.ExecContext(ctx, args...); err != nil {
			return err
		}
		args, n = args[:0], 0
	}
	if n == 0 {
		return nil
	}
	_, err := f.tx.ExecContext(ctx, f.store.bind(statement(n)), args...)
	return err
}
