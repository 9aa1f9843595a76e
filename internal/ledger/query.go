package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
)

// Query selects entries. What is empty selects all.
type Query struct {
	From, Until                        time.Time // From is included, Until is not
	Tenant, Key, User, Model, Provider string
}

// Match is whether the query selects the entry.
func (q *Query) Match(e *Entry) bool {
	return (q.From.IsZero() || !e.At.Before(q.From)) && (q.Until.IsZero() || e.At.Before(q.Until)) &&
		same(q.Tenant, e.Tenant) && same(q.Key, e.Key) && same(q.User, e.User) && same(q.Model, e.Model) && same(q.Provider, e.Provider)
}

func same(want, is string) bool { return want == "" || want == is }

// Totals are sums over entries.
type Totals struct {
	Requests                                     int64
	Input, Cached, CacheWrite, Output, Reasoning int64
	Cost                                         llm.Money
	// Unpriced is how many of the requests no row of the price table matched.
	Unpriced int64
}

// Add counts one entry.
func (t *Totals) Add(e *Entry) {
	t.Requests++
	t.Input += e.Usage.Input
	t.Cached += e.Usage.Cached
	t.CacheWrite += e.Usage.CacheWrite
	t.Output += e.Usage.Output
	t.Reasoning += e.Usage.Reasoning
	t.Cost += e.Cost
	if !e.Priced {
		t.Unpriced++
	}
}

// Row is the totals of one group.
type Row struct {
	// By is the group's values, in the order of the dimensions asked for. A day
	// is as 2006-01-02, an hour as 2006-01-02T15:00Z, both UTC.
	By []string
	Totals
}

// The dimensions of time; the others are the fields of an entry.
const (
	Day  = "day"
	Hour = "hour"
)

// Dimensions are what entries can be grouped by.
var Dimensions = []string{"key", "tenant", "user", "model", "provider", "target", Day, Hour}

// CheckBy says what is wrong with a list of dimensions.
func CheckBy(by []string) error {
	if len(by) == 0 {
		return fmt.Errorf("nothing to group by; write some of %s", strings.Join(Dimensions, ", "))
	}
	for i, d := range by {
		if !slices.Contains(Dimensions, d) {
			return fmt.Errorf("entries cannot be grouped by %q; write some of %s", d, strings.Join(Dimensions, ", "))
		}
		if slices.Contains(by[:i], d) {
			return fmt.Errorf("%q stands twice in what to group by; write each once", d)
		}
	}
	return nil
}

// layouts are how the dimensions of time are written.
var layouts = map[string]string{Day: time.DateOnly, Hour: "2006-01-02T15:00Z"}

// Period writes a day or an hour.
func Period(dimension string, t time.Time) string { return t.UTC().Format(layouts[dimension]) }

// SortRows sorts groups by their values.
func SortRows(rows []Row) {
	slices.SortFunc(rows, func(a, b Row) int { return slices.Compare(a.By, b.By) })
}
