package ledger

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
)

// logged is a log that tests read.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), s)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// open opens a room on a folder, with a store that is not closed with it.
func open(t testing.TB, dir string, s Store, l *logged) *Room {
	t.Helper()
	c := Default()
	c.Spool = dir
	r, err := Open(t.Context(), Options{Config: c, Store: s, Log: l.logger()})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func entry(i int) Entry {
	return Entry{ID: fmt.Sprintf("%08x", i), At: time.Unix(int64(i), 0).UTC(), Key: "web", Tenant: "acme", Model: "gpt-4o", Provider: "openai", Target: "openai/gpt-4o",
		Dialect: "openai", Op: "chat", Outcome: "ok", Status: 200, Usage: llm.Usage{Input: int64(i), Output: 7}, Cost: llm.Money(i), Priced: true,
		Charges: []llm.Charge{{Scope: "month/usd/acme", Period: 1_700_000_000, Amount: int64(i)}}}
}

func mustAppend(t testing.TB, r *Room, e Entry) {
	t.Helper()
	if err := r.Append(&e); err != nil {
		t.Fatal(err)
	}
}

func ids(t testing.TB, s Store) (all []string) {
	t.Helper()
	if err := s.Each(t.Context(), Query{}, func(e Entry) error { all = append(all, e.ID); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// write makes a segment as a process that was killed would leave it.
func write(t testing.TB, dir string, b []byte) string {
	t.Helper()
	path := filepath.Join(dir, "0000000000000007-LEFTBEHIND.seg")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func encode(n int) (b []byte, starts []int) {
	for i := range n {
		starts = append(starts, len(b))
		e := entry(i)
		b = append(b, new(framer).write(&e)...)
	}
	return b, append(starts, len(b))
}

// What an earlier version left is refused, and stays as it is.
func TestEarlierVersion(t *testing.T) {
	for _, name := range []string{"0000000000000001.seg", "0000000000000001-LEFTBEHIND.seg"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(earlierMagic+"\x07\x00\x00\x00"), 0o600); err != nil {
			t.Fatal(err)
		}
		c := Default()
		c.Spool = dir
		_, err := Open(t.Context(), Options{Config: c, Store: NewMemory(0)})
		if err == nil || !strings.Contains(err.Error(), name+" is of an earlier version") {
			t.Errorf("%v", err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func TestTornRecordIsDropped(t *testing.T) {
	b, starts := encode(4)
	for _, ahead := range []int{0, 1, 5000, viewSize} {
		for cut := starts[3]; cut < starts[4]; cut++ {
			testTornRecord(t, b[:cut:cut], make([]byte, ahead), cut > starts[3])
			if ahead == viewSize {
				cut += 10
			}
		}
	}
}

// testTornRecord reads a segment whose fourth record is cut off or missing, with
// so many zeros written ahead.
func testTornRecord(t *testing.T, b, ahead []byte, isTorn bool) {
	cut := len(b)
	dir, l, s := t.TempDir(), &logged{}, NewMemory(0)
	path := write(t, dir, append(b, ahead...))
	r := open(t, dir, s, l)
	if n := r.spool.come(true); n > int64(cut) {
		t.Fatalf("cut at %d: %d bytes are counted", cut, n)
	}
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	torn := 0
	if isTorn {
		torn = 1
	}
	if got := ids(t, s); len(got) != 3 || l.count("cut off") != torn || l.count("level=ERROR") != 0 {
		t.Fatalf("cut at %d: %v, log %q", cut, got, l.b.String())
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Fatalf("cut at %d: the segment is still there: %v", cut, err)
	}
}

func TestDamageIsReportedAndKept(t *testing.T) {
	b, starts := encode(4)
	b[starts[1]+20] ^= 1
	dir, l, s := t.TempDir(), &logged{}, NewMemory(0)
	path := write(t, dir, b)
	r := open(t, dir, s, l)
	mustAppend(t, r, entry(9))
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, s); !slices.Equal(got, []string{"00000000", "00000002", "00000003", "00000009"}) || l.count("damaged") != 1 || l.count(fmt.Sprint("offset=", starts[1])) != 1 {
		t.Errorf("%v, log %q", got, l.b.String())
	}
	if kept, err := os.ReadFile(path + ".damaged"); err != nil || !bytes.Equal(kept, b) {
		t.Errorf("the damaged segment was not kept: %v", err)
	}
	// Its number is not used again, and what was kept is not read again.
	r = open(t, dir, s, l)
	mustAppend(t, r, entry(10))
	if name := r.spool.active.path; !strings.Contains(name, "0008-") && !strings.Contains(name, "0009-") {
		t.Errorf("the next segment is %s", name)
	}
	if err := r.Close(t.Context()); err != nil || l.count("damaged") != 1 {
		t.Errorf("%v, log %q", err, l.b.String())
	}
}

// Random damage takes the records that it touches and no others, and nothing is
// read that was not written.
func TestDamageAgainstOracle(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		b, starts := encode(60)
		hit := map[int]bool{}
		for range rnd.IntN(6) {
			from := rnd.IntN(len(b))
			for at := from; at < min(len(b), from+1+rnd.IntN(200)); at++ {
				b[at] ^= byte(1 + rnd.IntN(255))
				i, _ := slices.BinarySearch(starts, at+1)
				hit[i-1] = true
			}
		}
		dir, l := t.TempDir(), &logged{}
		write(t, dir, b)
		s, err := openSpool(dir, time.Second, 1<<30, l.logger())
		if err != nil {
			t.Fatal(err)
		}
		var got []Entry
		for {
			b, err := s.next(s.come(true))
			if err != nil {
				t.Fatal(err)
			}
			if b.segment == nil {
				break
			}
			for r, err := range b.Records(0) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, r.Entry())
			}
			s.done(b)
		}
		var want []Entry
		for i := range 60 {
			if !hit[i] {
				want = append(want, entry(i))
			}
		}
		if !reflect.DeepEqual(got, want) || int64(len(got)) != s.records || s.lag() != (Lag{}) {
			t.Fatalf("%d entries, want %d; %d counted, %d bytes left", len(got), len(want), s.records, s.lag().Bytes)
		}
		if said := l.count("level="); (said > 0) != (len(hit) > 0) {
			t.Fatalf("%d records hit, log %q", len(hit), l.b.String())
		}
		s.lock.Close()
	}
}

func TestOneProcessPerSpool(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, NewMemory(0), &logged{})
	c := Default()
	c.Spool = dir
	if _, err := Open(t.Context(), Options{Config: c, Store: NewMemory(0)}); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("%v", err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := open(t, dir, NewMemory(0), &logged{}).Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// With Sync 0 each entry is on the disk before Append returns.
func TestSyncEach(t *testing.T) {
	c := Default()
	c.Spool, c.Sync = t.TempDir(), 0
	r, err := Open(t.Context(), Options{Config: c, Store: &flaky{Memory: NewMemory(0), down: true}})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 20 {
				e := entry(w<<8 + i)
				if err := r.Append(&e); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if a := r.spool.active; a.synced != a.size || a.size == 0 {
		t.Errorf("%d of %d bytes are on the disk", a.synced, a.size)
	}
	if err := r.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "80 entries of the ledger wait in the spool") {
		t.Errorf("%v", err)
	}
}

func TestWhatCannotBeAppended(t *testing.T) {
	memory := Default()
	memory.Kind = KindMemory
	inMemory, err := Open(t.Context(), Options{Config: memory})
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, t.TempDir(), NewMemory(0), &logged{})
	for _, room := range []*Room{r, inMemory} {
		for want, change := range map[string]func(*Entry){
			"ID has 0 bytes":        func(e *Entry) { e.ID = "" },
			"ID has 65 bytes":       func(e *Entry) { e.ID = strings.Repeat("a", 65) },
			"in the year 1;":        func(e *Entry) { e.At = time.Time{} },
			"has 65 charges":        func(e *Entry) { e.Charges = make([]llm.Charge, 65) },
			"scope has 513 bytes":   func(e *Entry) { e.Charges = []llm.Charge{{Scope: strings.Repeat("s", 513)}} },
			"in the year 9999; it ": func(e *Entry) { e.At = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) },
		} {
			e := entry(1)
			change(&e)
			if err := room.Append(&e); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		if got, err := room.Sum(t.Context(), Query{}); err != nil || got.Requests != 0 {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	e := entry(1)
	if err := r.Append(&e); err == nil {
		t.Error("a closed room takes entries")
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNone(t *testing.T) {
	r, err := Open(t.Context(), Options{Config: Config{Kind: KindNone}})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, r, entry(1))
	if _, err := r.Sum(t.Context(), Query{}); err == nil || !strings.Contains(err.Error(), "set ledger.kind") {
		t.Errorf("%v", err)
	}
	if b, err := r.Balances(t.Context(), 0); err != nil || b != nil {
		t.Errorf("%v, %v", b, err)
	}
	if err := r.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestMemoryForgets(t *testing.T) {
	m := NewMemory(100)
	for i := range 1000 {
		if err := m.Insert(t.Context(), BatchOf("", []Entry{entry(i)}, nil)); err != nil {
			t.Fatal(err)
		}
	}
	got := ids(t, m)
	if n := len(got); n < 100 || n > 125 || got[n-1] != "000003e7" {
		t.Errorf("%d entries, the last is %s", n, got[n-1])
	}
	if b, err := m.Balances(t.Context(), 0); err != nil || len(b) != 1 || b[0].Used != 999*1000/2 {
		t.Errorf("%v, %v", b, err)
	}
}
