package ledger

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
)

// mostInMemory is how many entries the kind memory keeps.
const mostInMemory = 100_000

// Memory is a Store that ends with the process: the simple one, which the
// others are held against.
type Memory struct {
	most int // entries; 0 is no bound

	mu       sync.Mutex
	entries  []Entry          // in the order in which they came
	places   map[string]int64 // how far it has come with each source
	balances map[Account]int64
}

var _ Store = (*Memory)(nil)

// NewMemory makes a store of the latest entries, or of all if most is 0.
func NewMemory(most int) *Memory {
	return &Memory{most: most, places: map[string]int64{}, balances: map[Account]int64{}}
}

// Insert implements Store, but for the loss of power.
func (m *Memory) Insert(_ context.Context, b Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, place := len(m.entries), m.places[b.Source]
	var charges []Charge
	for r, err := range b.Records(place) {
		if err != nil {
			m.entries = slices.Delete(m.entries, before, len(m.entries))
			return err
		}
		e := r.Entry()
		e.Charges = nil
		m.entries = append(m.entries, e)
		charges = append(charges, r.Charges...)
		place = r.End
	}
	if b.Source != "" {
		m.places[b.Source] = place
	}
	for _, c := range charges {
		m.balances[*c.Account] = AddCapped(m.balances[*c.Account], c.Amount)
	}
	m.forget()
	return nil
}

// forget drops the oldest, a quarter at a time, so that it seldom copies.
func (m *Memory) forget() {
	if m.most == 0 || len(m.entries) <= m.most+m.most/4 {
		return
	}
	m.entries = slices.Delete(m.entries, 0, len(m.entries)-m.most)
}

// AddCapped adds an amount of at least 0 to a balance; what exceeds 64 bits is
// the largest number.
func AddCapped(used, amount int64) int64 {
	if used > math.MaxInt64-amount {
		return math.MaxInt64
	}
	return used + amount
}

func (m *Memory) matching(q *Query) (all []Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.entries {
		if q.Match(&m.entries[i]) {
			all = append(all, m.entries[i])
		}
	}
	return all
}

// Sum implements Store.
func (m *Memory) Sum(_ context.Context, q Query) (t Totals, _ error) {
	for _, e := range m.matching(&q) {
		t.Add(&e)
	}
	return t, nil
}

// Group implements Store.
func (m *Memory) Group(_ context.Context, q Query, by []string) ([]Row, error) {
	groups := map[string]*Row{}
	for _, e := range m.matching(&q) {
		values := make([]string, len(by))
		for i, d := range by {
			values[i] = e.dimension(d)
		}
		name := strings.Join(values, "\x00") // no text holds a zero byte
		if groups[name] == nil {
			groups[name] = &Row{By: values}
		}
		groups[name].Add(&e)
	}
	rows := make([]Row, 0, len(groups))
	for _, r := range groups {
		rows = append(rows, *r)
	}
	SortRows(rows)
	return rows, nil
}

func (e *Entry) dimension(d string) string {
	switch d {
	case "key":
		return e.Key
	case "tenant":
		return e.Tenant
	case "user":
		return e.User
	case "model":
		return e.Model
	case "provider":
		return e.Provider
	case "target":
		return e.Target
	}
	return Period(d, e.At)
}

// Each implements Store.
func (m *Memory) Each(ctx context.Context, q Query, f func(Entry) error) error {
	all := m.matching(&q)
	slices.SortFunc(all, func(a, b Entry) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	for _, e := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}

// Balances implements Store.
func (m *Memory) Balances(_ context.Context, since int64) ([]Balance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Balance
	for k, used := range m.balances {
		if k.Period == 0 || k.Period >= since {
			all = append(all, Balance{k.Scope, k.Period, used})
		}
	}
	return all, nil
}

// Prune implements Store.
func (m *Memory) Prune(_ context.Context, before int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.balances {
		if k.Period != 0 && k.Period < before {
			delete(m.balances, k)
		}
	}
	return nil
}

// Close implements Store.
func (m *Memory) Close() error { return nil }
