package app

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/admin"
	"github.com/headgate-ai/headgate/internal/ledger"
)

// UsageRows sums the ledger's entries for each value of the dimensions, or all
// in one row where there are none. The query's model may be named as clients do,
// or as its provider does, with the provider's name before it or without.
func UsageRows(ctx context.Context, room *ledger.Room, q ledger.Query, by []string) ([]ledger.Row, error) {
	switch {
	case q.Model != "":
		return rowsOf(ctx, room, q, by)
	case len(by) > 0:
		return room.Group(ctx, q, by)
	}
	t, err := room.Sum(ctx, q)
	return []ledger.Row{{Totals: t}}, err
}

// rowsOf asks for all models and keeps those of the name.
func rowsOf(ctx context.Context, room *ledger.Room, q ledger.Query, by []string) ([]ledger.Row, error) {
	model := q.Model
	q.Model = ""
	wide := slices.Clone(by)
	for _, d := range []string{"model", "target"} {
		if !slices.Contains(wide, d) {
			wide = append(wide, d)
		}
	}
	asked, target := slices.Index(wide, "model"), slices.Index(wide, "target")
	rows, err := room.Group(ctx, q, wide)
	if err != nil {
		return nil, err
	}
	groups := map[string]*ledger.Row{}
	if len(by) == 0 {
		groups[""] = &ledger.Row{}
	}
	for _, r := range rows {
		if !named(model, r.By[asked], r.By[target]) {
			continue
		}
		values := r.By[:len(by)]
		name := strings.Join(values, "\x00") // no text holds a zero byte
		if groups[name] == nil {
			groups[name] = &ledger.Row{By: values}
		}
		add(&groups[name].Totals, &r.Totals)
	}
	sums := make([]ledger.Row, 0, len(groups))
	for _, g := range groups {
		sums = append(sums, *g)
	}
	ledger.SortRows(sums)
	return sums, nil
}

// named is whether the name is the one that the client called or the target's,
// with the provider's name before it or without.
func named(model, asked, target string) bool {
	_, short, _ := strings.Cut(target, "/")
	return model == asked || model == target || model == short
}

// UsageEntries calls f for each entry of the ledger that the query selects, in
// the order of time. The model may be named as UsageRows lets it be.
func UsageEntries(ctx context.Context, room *ledger.Room, q ledger.Query, f func(ledger.Entry) error) error {
	model := q.Model
	q.Model = ""
	return room.Each(ctx, q, func(e ledger.Entry) error {
		if model != "" && !named(model, e.Model, e.Target) {
			return nil
		}
		return f(e)
	})
}

func add(t, more *ledger.Totals) {
	t.Requests += more.Requests
	t.Input += more.Input
	t.Cached += more.Cached
	t.CacheWrite += more.CacheWrite
	t.Output += more.Output
	t.Reasoning += more.Reasoning
	t.Cost += more.Cost
	t.Unpriced += more.Unpriced
}

// ParseTime reads a time as the admin API does: RFC 3339, or a date.
func ParseTime(text string) (time.Time, error) { return admin.ParseTime(text) }
