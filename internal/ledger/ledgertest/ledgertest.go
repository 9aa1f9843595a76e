// Package ledgertest is the suite that every store of the ledger passes: random
// histories, held against the store in memory. Only tests of stores use it.
package ledgertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/llm"
)

// Run runs the suite. open makes an empty store, which the suite closes.
func Run(t *testing.T, open func(t *testing.T) ledger.Store) {
	for name, test := range map[string]func(*testing.T, ledger.Store){
		"history": history, "once": once, "atomic": atomic, "charges": charges, "stop": stop, "pages": pages, "absurd": absurd, "together": together, "odd": odd,
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			defer func() {
				if err := s.Close(); err != nil {
					t.Error("cannot close: ", err)
				}
			}()
			test(t, s)
		})
	}
}

// Epoch is around when random entries happen.
var Epoch = time.Date(2026, 3, 30, 22, 0, 0, 0, time.UTC)

// Random makes an entry with the given ID.
func Random(r *rand.Rand, id string) ledger.Entry {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	e := ledger.Entry{
		ID: id,
		// A few share their time to the nanosecond.
		At:        Epoch.Add(time.Duration(r.IntN(400)) * 12 * time.Minute).Add(time.Duration(r.IntN(2))),
		RequestID: fmt.Sprintf("req_%x", r.Uint32()),
		Key:       pick("web", "batch"),
		Tenant:    pick("acme", "other", "Zoë", "'; DROP TABLE entries; --"),
		User:      pick("", "ann", "bob"),
		Model:     pick("gpt-4", "gpt-4o", "claude"),
		Provider:  pick("openai", "anthropic"),
		Target:    pick("openai/gpt-4", "anthropic/claude-5"), Dialect: "openai", Op: "chat", Outcome: pick("ok", "error"),
		Usage:  llm.Usage{Input: r.Int64N(1e6), Cached: r.Int64N(100), CacheWrite: r.Int64N(9), Output: r.Int64N(1e5), Reasoning: r.Int64N(50), Estimated: r.IntN(2) == 0},
		Cost:   llm.Money(r.Int64N(1e12)),
		Priced: r.IntN(5) > 0,
		Status: 200,
	}
	for range r.IntN(3) {
		e.Charges = append(e.Charges, llm.Charge{Scope: pick("b/usd/acme", "b/tokens/acme", "c/usd/Zoë"), Period: int64(r.IntN(4)) * 3600, Amount: r.Int64N(1e9)})
	}
	return e
}

func randomQuery(r *rand.Rand) (q ledger.Query) {
	some := func(s ...string) string { return s[r.IntN(len(s))] }
	if r.IntN(2) == 0 {
		q.From = Epoch.Add(time.Duration(r.IntN(400)) * 12 * time.Minute)
	}
	if r.IntN(2) == 0 {
		q.Until = Epoch.Add(time.Duration(r.IntN(500)) * 12 * time.Minute)
	}
	q.Tenant = some("", "", "acme", "Zoë", "'; DROP TABLE entries; --", "nobody")
	q.Key = some("", "", "web")
	q.User = some("", "", "ann")
	q.Model = some("", "", "gpt-4")
	q.Provider = some("", "", "openai")
	return q
}

// batches makes the batches of three sources. Some begin again where the store
// has been already, as after a crash, and end elsewhere than the one before.
func batches(r *rand.Rand) func(r *rand.Rand) ledger.Batch {
	var sources [3]struct {
		name    string
		entries []ledger.Entry
		ends    []int64
	}
	for i := range sources {
		s := &sources[i]
		s.name = fmt.Sprintf("%x-%d", r.Uint64(), i)
		end := int64(0)
		for range 2000 {
			end += 1 + r.Int64N(300)
			s.entries, s.ends = append(s.entries, Random(r, fmt.Sprintf("%016x", r.Uint64()))), append(s.ends, end)
		}
	}
	var read [3]int
	return func(r *rand.Rand) ledger.Batch {
		i := r.IntN(len(sources))
		s := &sources[i]
		from := read[i]
		if r.IntN(4) == 0 {
			from = r.IntN(from + 1)
		}
		until := min(len(s.entries), from+r.IntN(140))
		read[i] = max(read[i], until)
		return ledger.BatchOf(s.name, s.entries[from:until], s.ends[from:until])
	}
}

// history inserts batches, some of which come again, and asks.
func history(t *testing.T, s ledger.Store) {
	r := rand.New(rand.NewPCG(7, 9))
	oracle := ledger.NewMemory(0)
	next := batches(r)
	ctx := t.Context()
	for step := range 40 {
		batch := next(r)
		for _, to := range []ledger.Store{s, oracle} {
			if err := to.Insert(ctx, batch); err != nil {
				t.Fatal(err)
			}
		}
		for range 4 {
			compare(t, s, oracle, randomQuery(r), randomBy(r))
		}
		compareBalances(t, s, oracle, int64(r.IntN(5))*3600)
		if step%8 == 7 {
			before := int64(r.IntN(3)) * 3600
			for _, to := range []ledger.Store{s, oracle} {
				if err := to.Prune(ctx, before); err != nil {
					t.Fatal(err)
				}
			}
			compareBalances(t, s, oracle, 0)
		}
	}
	compare(t, s, oracle, ledger.Query{}, []string{"tenant"})
}

func randomBy(r *rand.Rand) []string {
	by := slices.Clone(ledger.Dimensions)
	r.Shuffle(len(by), func(i, j int) { by[i], by[j] = by[j], by[i] })
	return by[:1+r.IntN(3)]
}

func compare(t *testing.T, s, oracle ledger.Store, q ledger.Query, by []string) {
	t.Helper()
	ctx := t.Context()
	got, err := s.Sum(ctx, q)
	want, _ := oracle.Sum(ctx, q)
	if err != nil || got != want {
		t.Fatalf("%+v: the sum is %+v (%v), want %+v", q, got, err, want)
	}
	rows, err := s.Group(ctx, q, by)
	wantRows, _ := oracle.Group(ctx, q, by)
	if err != nil || len(rows) != len(wantRows) || len(rows) > 0 && !reflect.DeepEqual(rows, wantRows) {
		t.Fatalf("%+v by %v: %v (%v), want %v", q, by, rows, err, wantRows)
	}
	entries, wantEntries := all(t, s, q), all(t, oracle, q)
	if !reflect.DeepEqual(entries, wantEntries) {
		t.Fatalf("%+v: %d entries %v, want %d %v", q, len(entries), entries, len(wantEntries), wantEntries)
	}
}

func all(t *testing.T, s ledger.Store, q ledger.Query) (entries []ledger.Entry) {
	t.Helper()
	if err := s.Each(t.Context(), q, func(e ledger.Entry) error { entries = append(entries, e); return nil }); err != nil {
		t.Fatal(err)
	}
	return entries
}

func compareBalances(t *testing.T, s, oracle ledger.Store, since int64) {
	t.Helper()
	if got, want := balances(t, s, since), balances(t, oracle, since); !slices.Equal(got, want) {
		t.Fatalf("balances since %d are %v, want %v", since, got, want)
	}
}

func balances(t *testing.T, s ledger.Store, since int64) []ledger.Balance {
	t.Helper()
	all, err := s.Balances(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b ledger.Balance) int {
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Period, b.Period))
	})
	return all
}

func insert(t *testing.T, s ledger.Store, entries ...ledger.Entry) {
	t.Helper()
	if err := s.Insert(t.Context(), ledger.BatchOf("", entries, nil)); err != nil {
		t.Fatal(err)
	}
}

// once: an entry of a source that comes twice, in the same batch or in another,
// counts once and charges once; the same place in another source is another.
func once(t *testing.T, s ledger.Store) {
	e := Random(rand.New(rand.NewPCG(1, 1)), "aa")
	e.Charges = []llm.Charge{{Scope: "b", Period: 60, Amount: 5}, {Scope: "b", Period: 60, Amount: 2}}
	other := e
	other.ID, other.At = "bb", e.At.Add(30*time.Hour)
	for _, b := range []ledger.Batch{
		ledger.BatchOf("x", []ledger.Entry{e}, []int64{9}),
		ledger.BatchOf("x", []ledger.Entry{e}, []int64{9}),
		ledger.BatchOf("x", []ledger.Entry{e, other}, []int64{9, 12}),
		ledger.BatchOf("x", []ledger.Entry{other}, []int64{12}),
		ledger.BatchOf("y", []ledger.Entry{other}, []int64{9}),
	} {
		if err := s.Insert(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, e := range all(t, s, ledger.Query{}) {
		got = append(got, e.ID)
	}
	if !slices.Equal(got, []string{"aa", "bb", "bb"}) {
		t.Errorf("the entries are %v", got)
	}
	if got := balances(t, s, 0); !slices.Equal(got, []ledger.Balance{{Scope: "b", Period: 60, Used: 21}}) {
		t.Errorf("balances are %v", got)
	}
}

// atomic: a batch that is broken off leaves nothing behind.
func atomic(t *testing.T, s ledger.Store) {
	if _, memory := s.(*ledger.Memory); memory {
		t.Skip("memory does not break off")
	}
	r := rand.New(rand.NewPCG(1, 1))
	var entries []ledger.Entry
	var ends []int64
	for i := range 500 {
		entries, ends = append(entries, Random(r, fmt.Sprintf("%04x", i))), append(ends, int64(i+1))
	}
	batch := ledger.BatchOf("segment", entries, ends)
	for _, patience := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := s.Insert(ctx, batch)
		cancel()
		n := len(all(t, s, ledger.Query{}))
		if err == nil {
			if n != len(entries) {
				t.Fatalf("%d entries after an insert of %d", n, len(entries))
			}
			break
		}
		// A commit whose answer was not waited for may have succeeded.
		if n != 0 && n != len(entries) {
			t.Fatalf("%d entries of %d after %v", n, len(entries), err)
		}
	}
	oracle := ledger.NewMemory(0)
	for _, to := range []ledger.Store{s, oracle} {
		if err := to.Insert(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	compareBalances(t, s, oracle, 0)
	compare(t, s, oracle, ledger.Query{}, []string{"user"})
}

// charges: balances are kept by scope and period; the period 0 never ends, and
// a balance stops at the largest number.
func charges(t *testing.T, s ledger.Store) {
	const largest = 1<<63 - 1
	e := Random(rand.New(rand.NewPCG(1, 1)), "a")
	e.Charges = []llm.Charge{{Scope: "once", Amount: 3}, {Scope: "m", Period: 100, Amount: largest - 5}, {Scope: "m", Period: 200, Amount: 1}}
	insert(t, s, e)
	e.ID, e.Charges = "b", []llm.Charge{{Scope: "m", Period: 100, Amount: 6}}
	insert(t, s, e)
	want := []ledger.Balance{{Scope: "m", Period: 100, Used: largest}, {Scope: "m", Period: 200, Used: 1}, {Scope: "once", Used: 3}}
	if got := balances(t, s, 100); !slices.Equal(got, want) {
		t.Errorf("since 100: %v", got)
	}
	if got := balances(t, s, 101); !slices.Equal(got, want[1:]) {
		t.Errorf("since 101: %v", got)
	}
	if err := s.Prune(t.Context(), 200); err != nil {
		t.Fatal(err)
	}
	if got := balances(t, s, 0); !slices.Equal(got, want[1:]) {
		t.Errorf("after pruning: %v", got)
	}
	if n := len(all(t, s, ledger.Query{})); n != 2 {
		t.Errorf("%d entries after pruning", n)
	}
}

// stop: Each ends with its caller's error, and goes over many.
func stop(t *testing.T, s ledger.Store) {
	r := rand.New(rand.NewPCG(1, 1))
	var batch []ledger.Entry
	for i := range 2500 {
		e := Random(r, fmt.Sprintf("%04x", i))
		e.At = Epoch.Add(time.Duration(i/7) * time.Second)
		batch = append(batch, e)
	}
	for part := range slices.Chunk(batch, 500) {
		insert(t, s, part...)
	}
	enough := errors.New("enough")
	var seen []string
	err := s.Each(t.Context(), ledger.Query{}, func(e ledger.Entry) error {
		if seen = append(seen, e.ID); len(seen) == 2300 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || len(seen) != 2300 || !slices.IsSorted(seen) {
		t.Errorf("%v after %d entries, sorted %v", err, len(seen), slices.IsSorted(seen))
	}
}

// pages: the entries of an hour that come in an order of their own, as those of
// long and short requests do, are read in pages, each entry once and in order.
func pages(t *testing.T, s ledger.Store) {
	r := rand.New(rand.NewPCG(1, 1))
	oracle := ledger.NewMemory(0)
	for b := range 12 {
		var batch []ledger.Entry
		for i := range 1000 {
			e := Random(r, fmt.Sprintf("%04x-%02x", i, b))
			// Many share their time with others, also of other batches.
			e.At = Epoch.Add(time.Duration(b)*5*time.Minute - time.Duration(r.IntN(100))*6*time.Second)
			batch = append(batch, e)
		}
		insert(t, s, batch...)
		insert(t, oracle, batch...)
	}
	compare(t, s, oracle, ledger.Query{}, []string{"hour"})
	compare(t, s, oracle, ledger.Query{User: "ann", From: Epoch.Add(10*time.Minute + 1), Until: Epoch.Add(50 * time.Minute)}, []string{"user", "day"})
}

// absurd: what no provider can mean does not keep the ledger from going on. Sums
// of it stop at the largest number.
func absurd(t *testing.T, s ledger.Store) {
	if _, memory := s.(*ledger.Memory); memory {
		t.Skip("the sums in memory are plain")
	}
	e := ledger.Entry{At: Epoch, Usage: llm.Usage{Input: ledger.MaxCount}}
	for part := range 3 {
		var batch []ledger.Entry
		for i := range 600 {
			e.ID = fmt.Sprint(part, "-", i)
			batch = append(batch, e)
		}
		insert(t, s, batch...)
		if err := s.Prune(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		want := int64(600*(part+1)) * ledger.MaxCount
		if part > 0 {
			want = math.MaxInt64
		}
		if got, err := s.Sum(t.Context(), ledger.Query{}); err != nil || got.Input != want || got.Requests != int64(600*(part+1)) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// together: several write and read at once.
func together(t *testing.T, s ledger.Store) {
	const writers, batches, rows = 4, 10, 20
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for b := range batches {
				var batch []ledger.Entry
				for i := range rows {
					e := Random(r, fmt.Sprintf("%02x%02x%02x", w, b, i))
					e.Charges = []llm.Charge{{Scope: "all", Amount: 1}, {Scope: fmt.Sprint(w), Amount: 1}}
					batch = append(batch, e)
				}
				if err := s.Insert(t.Context(), ledger.BatchOf("", batch, nil)); err != nil {
					t.Error(err)
				}
				if _, err := s.Sum(t.Context(), ledger.Query{Tenant: "acme"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got := balances(t, s, 0)
	if n := len(all(t, s, ledger.Query{})); n != writers*batches*rows || len(got) != writers+1 {
		t.Fatalf("%d entries, balances %v", n, got)
	}
	for _, b := range got {
		if want := int64(batches * rows); b.Used != want && b.Scope != "all" || b.Scope == "all" && b.Used != want*writers {
			t.Errorf("balance %+v", b)
		}
	}
}

// odd: what lies at the edges of an entry comes back as it was.
func odd(t *testing.T, s ledger.Store) {
	e := ledger.Entry{ID: "edge", At: time.Unix(0, 1).UTC(), Model: "=cmd|' /C calc'!A0", Tenant: "a\nb\t\"c\"\u2028", Usage: llm.Usage{Input: ledger.MaxCount}, Cost: ledger.MaxCount}
	insert(t, s)
	insert(t, s, e)
	if got := all(t, s, ledger.Query{}); !reflect.DeepEqual(got, []ledger.Entry{e}) {
		t.Errorf("%+v, want %+v", got, e)
	}
	for _, q := range []ledger.Query{
		{From: time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)}, {Until: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		if got := all(t, s, q); len(got) != 1 {
			t.Errorf("%+v: %v", q, got)
		}
	}
	if got := all(t, s, ledger.Query{Tenant: e.Tenant}); len(got) != 1 {
		t.Errorf("by tenant: %v", got)
	}
}
