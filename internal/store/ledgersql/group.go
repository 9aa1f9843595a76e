package ledgersql

import (
	"database/sql"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/ledger"
)

// units are the dimensions of time, in seconds.
var units = map[string]int64{ledger.Day: 24 * 3600, ledger.Hour: 3600}

// expressions are the dimensions in SQL. Times are never before 1970, so that
// division rounds down in either database.
var expressions = map[string]string{
	"key": "key_name", "tenant": "tenant", "user": "user_name", "model": "model", "provider": "provider", "target": "target",
	ledger.Day: "hour / 86400", ledger.Hour: "hour / 3600",
}

// groups are the totals of a query's groups.
type groups struct {
	query ledger.Query
	span  span
	by    []string
	rows  map[string]*ledger.Row
}

func (g *groups) add(values []string, t *ledger.Totals) {
	if t.Requests == 0 {
		return
	}
	name := strings.Join(values, "\x00") // no text holds a zero byte
	if g.rows[name] == nil {
		g.rows[name] = &ledger.Row{By: values}
	}
	addTotals(&g.rows[name].Totals, t)
}

// addRow adds a row of totals and of the dimensions' values.
func (g *groups) addRow(rows *sql.Rows) error {
	var t ledger.Totals
	var to []any
	for _, f := range fields(&t) {
		to = append(to, f)
	}
	values, periods := make([]string, len(g.by)), make([]int64, len(g.by))
	for i, d := range g.by {
		if units[d] > 0 {
			to = append(to, &periods[i])
		} else {
			to = append(to, &values[i])
		}
	}
	if err := rows.Scan(to...); err != nil {
		return err
	}
	for i, d := range g.by {
		if unit := units[d]; unit > 0 {
			values[i] = ledger.Period(d, time.Unix(periods[i]*unit, 0))
		}
	}
	g.add(values, &t)
	return nil
}

// addBatch adds the entries of a batch that the query selects, which are all of
// the hour.
func (g *groups) addBatch(hour int64, u *unpacker) error {
	totals := make([]ledger.Totals, len(u.shapes))
	for r := (record{}); u.next(&r); {
		if r.at >= g.span.from && r.at < g.span.until {
			r.addTo(&totals[r.shape], u.shapes[r.shape].priced)
		}
	}
	for i := range totals {
		if s := &u.shapes[i]; totals[i].Requests > 0 && s.matches(&g.query) {
			g.add(s.values(g.by, hour), &totals[i])
		}
	}
	return u.err()
}

// values are the shape's values of the dimensions.
func (s *shape) values(by []string, hour int64) []string {
	values := make([]string, len(by))
	for i, d := range by {
		switch d {
		case "key":
			values[i] = s.key
		case "tenant":
			values[i] = s.tenant
		case "user":
			values[i] = s.user
		case "model":
			values[i] = s.model
		case "provider":
			values[i] = s.provider
		case "target":
			values[i] = s.target
		default:
			values[i] = ledger.Period(d, time.Unix(hour, 0))
		}
	}
	return values
}

// sorted are the groups by their values: databases sort texts by their own
// rules.
func (g *groups) sorted() []ledger.Row {
	all := make([]ledger.Row, 0, len(g.rows))
	for _, r := range g.rows {
		all = append(all, *r)
	}
	ledger.SortRows(all)
	return all
}
