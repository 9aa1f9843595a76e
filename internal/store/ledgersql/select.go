package ledgersql

import (
	"context"
	"database/sql"
	"math"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/ledger"
)

// span is a query's time: whole hours, whose sums are kept, and the hours that
// it has a part of, whose entries must be looked at.
type span struct {
	from, until           int64 // nanoseconds since 1970
	firstHour, behindHour int64 // the whole hours, in hours since 1970
	parts                 []int64
}

// lastHour is when the last whole hour ends that nanoseconds can tell of.
const lastHour = math.MaxInt64 / hour

func spanOf(q *ledger.Query) span {
	s := span{until: lastHour * hour}
	if !q.From.IsZero() {
		s.from = min(s.until, nanos(q.From))
	}
	if !q.Until.IsZero() {
		s.until = min(s.until, nanos(q.Until))
	}
	s.firstHour, s.behindHour = (s.from+hour-1)/hour, s.until/hour
	if s.from >= s.until {
		s.behindHour = s.firstHour
		return s
	}
	if s.from%hour != 0 {
		s.parts = append(s.parts, s.from/hour)
	}
	if s.until%hour != 0 && (s.parts == nil || s.parts[0] != s.behindHour) {
		s.parts = append(s.parts, s.behindHour)
	}
	return s
}

// nanos is the time as it is stored; one that no entry can have is the nearest.
func nanos(t time.Time) int64 {
	switch s := t.Unix(); {
	case s < 0:
		return 0
	case s > math.MaxInt64/int64(time.Second)-1:
		return math.MaxInt64
	}
	return t.UnixNano()
}

// where is the condition for the sums of the query's whole hours.
func (s *span) where(q *ledger.Query) (string, []any) {
	cond, args := "hour >= ? AND hour < ?", []any{s.firstHour * 3600, s.behindHour * 3600}
	for _, f := range [...]struct{ column, value string }{
		{"tenant", q.Tenant}, {"key_name", q.Key}, {"user_name", q.User}, {"model", q.Model}, {"provider", q.Provider},
	} {
		if f.value != "" {
			cond, args = cond+" AND "+f.column+" = ?", append(args, f.value)
		}
	}
	return cond, args
}

// totals are the sums over some rows of usage_by_hour.
var totals = "COALESCE(SUM(" + strings.Join(sumColumns[sumKeys:], "), 0), COALESCE(SUM(") + "), 0)"

// snapshot runs f in a transaction that sees one state of the database.
func (s *Store) snapshot(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing was changed
	return f(tx)
}

// Sum implements ledger.Store.
func (s *Store) Sum(ctx context.Context, q ledger.Query) (t ledger.Totals, err error) {
	rows, err := s.Group(ctx, q, nil)
	if err != nil || len(rows) == 0 {
		return t, err
	}
	return rows[0].Totals, nil
}

// Group implements ledger.Store. By nothing, it is all in one row, or none.
func (s *Store) Group(ctx context.Context, q ledger.Query, by []string) ([]ledger.Row, error) {
	if ok, err := s.readable(ctx); !ok {
		return nil, err
	}
	g := groups{query: q, by: by, span: spanOf(&q), all: map[string]*group{}}
	err := s.snapshot(ctx, func(tx *sql.Tx) error {
		if err := s.groupSums(ctx, tx, &g); err != nil {
			return err
		}
		return s.groupBatches(ctx, tx, &g)
	})
	return g.rows(), err
}

// groupSums adds the sums of whole hours.
func (s *Store) groupSums(ctx context.Context, tx *sql.Tx, g *groups) error {
	exprs := make([]string, len(g.by))
	for i, d := range g.by {
		exprs[i] = expressions[d]
	}
	list := strings.Join(exprs, ", ")
	cond, args := g.span.where(&g.query)
	query := "SELECT " + totals + " FROM usage_by_hour WHERE " + cond
	if list != "" {
		query = "SELECT " + totals + ", " + list + " FROM usage_by_hour WHERE " + cond + " GROUP BY " + list
	}
	rows, err := tx.QueryContext(ctx, s.bind(query), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := g.addRow(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

const (
	// The pending batches of whole hours, which the sums do not have yet.
	pendingHeads = `SELECT b.hour, b.head FROM pending_batches p JOIN entry_batches b ON b.source = p.source AND b.ends = p.ends
		WHERE b.hour >= ? AND b.hour < ?`
	// The batches of an hour that are within a time as a whole, and those that
	// have something of it and something else.
	wholeHeads = "SELECT hour, head FROM entry_batches WHERE hour = ? AND first_at >= ? AND last_at < ?"
	cutBatches = `SELECT hour, head, data FROM entry_batches WHERE hour = ? AND last_at >= ? AND first_at < ?
		AND (first_at < ? OR last_at >= ?)`
)

// groupBatches adds what the sums do not have.
func (s *Store) groupBatches(ctx context.Context, tx *sql.Tx, g *groups) error {
	rows, err := tx.QueryContext(ctx, s.bind(pendingHeads), g.span.firstHour*3600, g.span.behindHour*3600)
	if err != nil {
		return err
	}
	if err := eachHead(rows, g.addShapes); err != nil {
		return err
	}
	for _, part := range g.span.parts {
		rows, err := tx.QueryContext(ctx, s.bind(wholeHeads), part*3600, g.span.from, g.span.until)
		if err != nil {
			return err
		}
		if err := eachHead(rows, g.addShapes); err != nil {
			return err
		}
		if rows, err = tx.QueryContext(ctx, s.bind(cutBatches), part*3600, g.span.from, g.span.until, g.span.from, g.span.until); err != nil {
			return err
		}
		if err := g.addCut(rows); err != nil {
			return err
		}
	}
	return nil
}

// Balances implements ledger.Store.
func (s *Store) Balances(ctx context.Context, since int64) (all []ledger.Balance, err error) {
	if ok, err := s.readable(ctx); !ok {
		return nil, err
	}
	c := charges{}
	err = s.snapshot(ctx, func(tx *sql.Tx) error {
		if err := s.balances(ctx, tx, c, since); err != nil {
			return err
		}
		return pendingCharges(ctx, tx, c)
	})
	if err != nil {
		return nil, err
	}
	for k, used := range c {
		if k.Period == 0 || k.Period >= since {
			all = append(all, ledger.Balance{Scope: k.Scope, Period: k.Period, Used: used})
		}
	}
	return all, nil
}

func (s *Store) balances(ctx context.Context, tx *sql.Tx, c charges, since int64) error {
	rows, err := tx.QueryContext(ctx, s.bind("SELECT scope, period, used FROM balances WHERE period = 0 OR period >= ?"), since)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var k ledger.Account
		var used int64
		if err := rows.Scan(&k.Scope, &k.Period, &used); err != nil {
			return err
		}
		c.add(k, used)
	}
	return rows.Err()
}

func pendingCharges(ctx context.Context, tx *sql.Tx, c charges) error {
	rows, err := tx.QueryContext(ctx, "SELECT charges FROM pending_batches")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var b sql.RawBytes
		if err := rows.Scan(&b); err != nil {
			return err
		}
		if err := c.unpack(b); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Prune implements ledger.Store. What is pending would bring a balance back.
func (s *Store) Prune(ctx context.Context, before int64) error {
	if ok, err := s.readable(ctx); !ok {
		return err
	}
	if err := s.Fold(ctx); err != nil {
		return err
	}
	_, err := s.write.ExecContext(ctx, s.bind("DELETE FROM balances WHERE period <> 0 AND period < ?"), before)
	return err
}
