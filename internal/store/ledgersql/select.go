package ledgersql

import (
	"context"
	"database/sql"
	"math"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/ledger"
)

// where is a query's condition and its arguments.
func where(q *ledger.Query) (string, []any) {
	var terms []string
	var args []any
	add := func(term string, arg any) { terms, args = append(terms, term), append(args, arg) }
	if !q.From.IsZero() {
		add("at >= ?", nanos(q.From))
	}
	if !q.Until.IsZero() {
		add("at < ?", nanos(q.Until))
	}
	for _, f := range [...]struct{ column, value string }{
		{"tenant", q.Tenant}, {"key_name", q.Key}, {"user_name", q.User}, {"model", q.Model}, {"provider", q.Provider},
	} {
		if f.value != "" {
			add(f.column+" = ?", f.value)
		}
	}
	if len(terms) == 0 {
		return "1 = 1", nil
	}
	return strings.Join(terms, " AND "), args
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

const totals = `COUNT(*), COALESCE(SUM(input_tokens), 0), COALESCE(SUM(cached_tokens), 0), COALESCE(SUM(cache_write_tokens), 0),
	COALESCE(SUM(output_tokens), 0), COALESCE(SUM(reasoning_tokens), 0), COALESCE(SUM(cost), 0), COALESCE(SUM(1 - priced), 0)`

func fields(t *ledger.Totals) []any {
	return []any{&t.Requests, &t.Input, &t.Cached, &t.CacheWrite, &t.Output, &t.Reasoning, (*int64)(&t.Cost), &t.Unpriced}
}

// Sum implements ledger.Store.
func (s *Store) Sum(ctx context.Context, q ledger.Query) (t ledger.Totals, err error) {
	if ok, err := s.readable(ctx); !ok {
		return t, err
	}
	cond, args := where(&q)
	err = s.read.QueryRowContext(ctx, s.bind("SELECT "+totals+" FROM entries WHERE "+cond), args...).Scan(fields(&t)...)
	return t, err
}

// units are the dimensions of time, which are whole numbers in SQL.
var units = map[string]time.Duration{ledger.Day: 24 * time.Hour, ledger.Hour: time.Hour}

// expressions are the dimensions in SQL. Times are never before 1970, so that
// division rounds down in either database.
var expressions = map[string]string{
	"key": "key_name", "tenant": "tenant", "user": "user_name", "model": "model", "provider": "provider", "target": "target",
	ledger.Day: "at / 86400000000000", ledger.Hour: "at / 3600000000000",
}

// Group implements ledger.Store.
func (s *Store) Group(ctx context.Context, q ledger.Query, by []string) ([]ledger.Row, error) {
	if ok, err := s.readable(ctx); !ok {
		return nil, err
	}
	exprs := make([]string, len(by))
	for i, d := range by {
		exprs[i] = expressions[d]
	}
	list := strings.Join(exprs, ", ")
	cond, args := where(&q)
	rows, err := s.read.QueryContext(ctx, s.bind("SELECT "+list+", "+totals+" FROM entries WHERE "+cond+" GROUP BY "+list), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []ledger.Row{}
	for rows.Next() {
		r, err := scanRow(rows, by)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	// Databases sort texts by their own rules.
	ledger.SortRows(all)
	return all, rows.Err()
}

func scanRow(rows *sql.Rows, by []string) (r ledger.Row, err error) {
	r.By = make([]string, len(by))
	periods := make([]int64, len(by))
	to := make([]any, 0, len(by)+8)
	for i, d := range by {
		if units[d] > 0 {
			to = append(to, &periods[i])
		} else {
			to = append(to, &r.By[i])
		}
	}
	if err = rows.Scan(append(to, fields(&r.Totals)...)...); err != nil {
		return r, err
	}
	for i, d := range by {
		if unit := units[d]; unit > 0 {
			r.By[i] = ledger.Period(d, time.Unix(0, periods[i]*int64(unit)))
		}
	}
	return r, nil
}

// page is how many entries are read at once. A reader that takes its time, such
// as a slow client, then holds neither a transaction nor a connection.
const page = 1000

// Each implements ledger.Store.
func (s *Store) Each(ctx context.Context, q ledger.Query, f func(ledger.Entry) error) error {
	if ok, err := s.readable(ctx); !ok {
		return err
	}
	cond, args := where(&q)
	query := s.bind("SELECT " + strings.Join(columns, ", ") + " FROM entries WHERE " + cond + " AND (at, id) > (?, ?) ORDER BY at, id LIMIT ?")
	at, id := int64(-1), ""
	for {
		entries, err := s.page(ctx, query, append(args[:len(args):len(args)], at, id, page))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := f(e); err != nil {
				return err
			}
		}
		if len(entries) < page {
			return nil
		}
		last := &entries[page-1]
		at, id = last.At.UnixNano(), last.ID
	}
}

func (s *Store) page(ctx context.Context, query string, args []any) (entries []ledger.Entry, err error) {
	rows, err := s.read.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var e ledger.Entry
		var at int64
		var estimated, priced int
		u := &e.Usage
		if err := rows.Scan(&e.ID, &at, &e.RequestID, &e.Key, &e.Tenant, &e.User, &e.Model, &e.Provider, &e.Target, &e.Dialect, &e.Op, &e.Outcome, &e.Status,
			&u.Input, &u.Cached, &u.CacheWrite, &u.Output, &u.Reasoning, &estimated, (*int64)(&e.Cost), &priced); err != nil {
			return nil, err
		}
		e.At, u.Estimated, e.Priced = time.Unix(0, at).UTC(), estimated != 0, priced != 0
		entries = append(entries, e)
	}
	return entries, rows.Err()
}

// Balances implements ledger.Store.
func (s *Store) Balances(ctx context.Context, since int64) (all []ledger.Balance, err error) {
	if ok, err := s.readable(ctx); !ok {
		return nil, err
	}
	rows, err := s.read.QueryContext(ctx, s.bind("SELECT scope, period, used FROM balances WHERE period = 0 OR period >= ?"), since)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var b ledger.Balance
		if err := rows.Scan(&b.Scope, &b.Period, &b.Used); err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, rows.Err()
}

// Prune implements ledger.Store.
func (s *Store) Prune(ctx context.Context, before int64) error {
	if ok, err := s.readable(ctx); !ok {
		return err
	}
	_, err := s.write.ExecContext(ctx, s.bind("DELETE FROM balances WHERE period <> 0 AND period < ?"), before)
	return err
}
