package ledgersql

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/headgate-ai/headgate/internal/ledger"
)

// sumKey is what usage is summed by: all that can be grouped by and filtered.
type sumKey struct {
	hour                                       int64 // when it begins, in seconds since 1970
	tenant, key, user, model, provider, target string
}

// hourly are sums by hour.
type hourly map[sumKey]*ledger.Totals

// add adds the entries of a batch, which are all of the hour.
func (h hourly) add(hour int64, u *unpacker) error {
	totals := make([]ledger.Totals, len(u.shapes))
	for r := (record{}); u.next(&r); {
		r.addTo(&totals[r.shape], u.shapes[r.shape].priced)
	}
	for i := range totals {
		if totals[i].Requests == 0 {
			continue
		}
		s := &u.shapes[i]
		k := sumKey{hour, s.tenant, s.key, s.user, s.model, s.provider, s.target}
		if h[k] == nil {
			h[k] = &ledger.Totals{}
		}
		addTotals(h[k], &totals[i])
	}
	return u.err()
}

func (h hourly) sorted() []sumKey {
	return slices.SortedFunc(maps.Keys(h), func(a, b sumKey) int {
		return cmp.Or(cmp.Compare(a.hour, b.hour), strings.Compare(a.tenant, b.tenant), strings.Compare(a.key, b.key), strings.Compare(a.user, b.user),
			strings.Compare(a.model, b.model), strings.Compare(a.provider, b.provider), strings.Compare(a.target, b.target))
	})
}

// fields are the parts of totals, in the order of their columns.
func fields(t *ledger.Totals) [8]*int64 {
	return [...]*int64{&t.Requests, &t.Input, &t.Cached, &t.CacheWrite, &t.Output, &t.Reasoning, (*int64)(&t.Cost), &t.Unpriced}
}

func addTotals(to, t *ledger.Totals) {
	add := fields(t)
	for i, n := range fields(to) {
		*n += *add[i]
	}
}

// sumColumns are those of usage_by_hour: seven that name a row, and the totals.
var sumColumns = strings.Fields(`hour tenant key_name user_name model provider target
	requests input_tokens cached_tokens cache_write_tokens output_tokens reasoning_tokens cost unpriced`)

const sumKeys = 7

// sumsSQL adds so many rows to usage_by_hour.
func (s *Store) sumsSQL(rows int) string {
	var set []string
	for _, c := range sumColumns[sumKeys:] {
		set = append(set, c+" = "+added("usage_by_hour", c))
	}
	return s.bind("INSERT INTO usage_by_hour (" + strings.Join(sumColumns, ", ") + ") VALUES " + rowsOf(len(sumColumns), rows) +
		" ON CONFLICT (" + strings.Join(sumColumns[:sumKeys], ", ") + ") DO UPDATE SET " + strings.Join(set, ", "))
}

// rowsOf are the placeholders of rows.
func rowsOf(columns, rows int) string {
	row := "(?" + strings.Repeat(",?", columns-1) + ")"
	return row + strings.Repeat(","+row, rows-1)
}

// added is a column's value and what is to be added to it. It stops at the
// largest number, as ledger.AddCapped does: PostgreSQL would refuse the whole
// batch, and SQLite go over to fractions.
func added(table, column string) string {
	is, add := table+"."+column, "excluded."+column
	return "CASE WHEN " + is + " > 9223372036854775807 - " + add + " THEN 9223372036854775807 ELSE " + is + " + " + add + " END"
}
