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

// groups are the sums of a query's groups.
type groups struct {
	query ledger.Query
	span  span
	by    []string
	all   map[string]*group
}

type group struct {
	values []string
	sums
}

func (g *groups) add(values []string, s *sums) {
	if s[requests] == 0 {
		return
	}
	name := strings.Join(values, "\x00") // no text holds a zero byte
	if g.all[name] == nil {
		g.all[name] = &group{values: values}
	}
	g.all[name].add(s)
}

// addRow adds a row of sums and of the dimensions' values.
func (g *groups) addRow(rows *sql.Rows) error {
	var s sums
	var to []any
	for i := range s {
		to = append(to, &s[i])
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
	g.add(values, &s)
	return nil
}

// addShapes adds the sums of a batch, which is of the hour.
func (g *groups) addShapes(hour int64, shapes []counted) {
	for i := range shapes {
		if s := &shapes[i]; s.matches(&g.query) {
			g.add(s.values(g.by, hour), &s.sums)
		}
	}
}

// addCut adds of batches the entries that are of the query's time.
func (g *groups) addCut(rows *sql.Rows) error {
	defer rows.Close()
	for rows.Next() {
		var hour int64
		var head, data sql.RawBytes
		if err := rows.Scan(&hour, &head, &data); err != nil {
			return err
		}
		shapes, err := unpackHead(head)
		if err != nil {
			return err
		}
		for i := range shapes {
			shapes[i].sums = sums{}
		}
		u, err := unpackBody(shapes, data)
		if err != nil {
			return err
		}
		for r := (record{}); u.next(&r); {
			if s := &shapes[r.shape]; r.at >= g.span.from && r.at < g.span.until {
				s.sums.count(&r.numbers, s.Priced)
			}
		}
		if err := end(&u.Reader); err != nil {
			return err
		}
		g.addShapes(hour, shapes)
	}
	return rows.Err()
}

// values are the shape's values of the dimensions.
func (s *shape) values(by []string, hour int64) []string {
	values := make([]string, len(by))
	for i, d := range by {
		switch d {
		case "key":
			values[i] = s.Key
		case "tenant":
			values[i] = s.Tenant
		case "user":
			values[i] = s.User
		case "model":
			values[i] = s.Model
		case "provider":
			values[i] = s.Provider
		case "target":
			values[i] = s.Target
		default:
			values[i] = ledger.Period(d, time.Unix(hour, 0))
		}
	}
	return values
}

// rows are the groups by their values: databases sort texts by their own rules.
func (g *groups) rows() []ledger.Row {
	rows := make([]ledger.Row, 0, len(g.all))
	for _, one := range g.all {
		rows = append(rows, ledger.Row{By: one.values, Totals: one.totals()})
	}
	ledger.SortRows(rows)
	return rows
}
