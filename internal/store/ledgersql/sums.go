package ledgersql

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/llm"
)

// sumColumns are those of usage_by_hour: seven that name a row, and its sums.
var sumColumns = strings.Fields(`hour tenant key_name user_name model provider target
	requests input_tokens cached_tokens cache_write_tokens output_tokens reasoning_tokens cost unpriced`)

const sumKeys = 7

// sums are totals in the order of their columns, which are also named here where
// the code needs them. They stop at the largest number.
type sums [8]int64

const (
	requests = 0
	unpriced = 7
)

// count adds an entry, whose numbers are in the order of the sums between those.
func (s *sums) count(all *ledger.Numbers, priced bool) {
	s[requests]++
	for i, n := range all {
		s[1+i] = ledger.AddCapped(s[1+i], n)
	}
	if !priced {
		s[unpriced]++
	}
}

func (s *sums) add(more *sums) {
	for i, n := range more {
		s[i] = ledger.AddCapped(s[i], n)
	}
}

func (s *sums) totals() ledger.Totals {
	return ledger.Totals{Requests: s[0], Input: s[1], Cached: s[2], CacheWrite: s[3], Output: s[4], Reasoning: s[5], Cost: llm.Money(s[6]), Unpriced: s[7]}
}

// sumKey is what usage is summed by: all that can be grouped by and filtered.
type sumKey struct {
	hour                                       int64 // when it begins, in seconds since 1970
	tenant, key, user, model, provider, target string
}

// hourly are sums by hour.
type hourly map[sumKey]*sums

// add adds the sums of a batch, which is of the hour.
func (h hourly) add(hour int64, shapes []counted) {
	for i := range shapes {
		s := &shapes[i]
		k := sumKey{hour, s.Tenant, s.Key, s.User, s.Model, s.Provider, s.Target}
		if h[k] == nil {
			h[k] = new(sums)
		}
		h[k].add(&s.sums)
	}
}

// rows are those of usage_by_hour, always in the same order: see charges.rows.
func (h hourly) rows() iter.Seq[[]any] {
	keys := slices.SortedFunc(maps.Keys(h), func(a, b sumKey) int {
		return cmp.Or(cmp.Compare(a.hour, b.hour), cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.key, b.key), cmp.Compare(a.user, b.user),
			cmp.Compare(a.model, b.model), cmp.Compare(a.provider, b.provider), cmp.Compare(a.target, b.target))
	})
	return func(yield func([]any) bool) {
		row := make([]any, 0, len(sumColumns))
		for _, k := range keys {
			row = append(row[:0], k.hour, k.tenant, k.key, k.user, k.model, k.provider, k.target)
			for _, n := range h[k] {
				row = append(row, n)
			}
			if !yield(row) {
				return
			}
		}
	}
}

// sumsSQL adds so many rows to usage_by_hour.
func sumsSQL(rows int) string {
	var set []string
	for _, c := range sumColumns[sumKeys:] {
		set = append(set, c+" = "+added("usage_by_hour", c))
	}
	return "INSERT INTO usage_by_hour (" + strings.Join(sumColumns, ", ") + ") VALUES " + rowsOf(len(sumColumns), rows) +
		" ON CONFLICT (" + strings.Join(sumColumns[:sumKeys], ", ") + ") DO UPDATE SET " + strings.Join(set, ", ")
}

// balancesSQL adds to so many balances.
func balancesSQL(rows int) string {
	return "INSERT INTO balances (scope, period, used) VALUES " + rowsOf(3, rows) +
		" ON CONFLICT (scope, period) DO UPDATE SET used = " + added("balances", "used")
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
