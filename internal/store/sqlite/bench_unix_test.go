//go:build unix

package sqlite

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/ledger/ledgertest"
	"github.com/headgate-ai/headgate/internal/llm"
)

// cpu is the processor time that the process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkEntry is what an entry costs, from Append to its commit and into the
// sums: cpu-ns/op is the processor time of all threads. So many entries are
// brought over at once: 4000 come in the time that the ingester waits, at a
// thousand a second. Each is of one of so many users with a budget of tokens and
// one of money.
func BenchmarkEntry(b *testing.B) {
	for _, batch := range []int{100, 1000, 4000, 16_000} {
		for _, users := range []int{1, 10, 1000, 10_000} {
			b.Run(fmt.Sprintf("batch=%d/users=%d", batch, users), func(b *testing.B) { benchmarkEntry(b, batch, users) })
		}
	}
}

func benchmarkEntry(b *testing.B, batch, users int) {
	c := ledger.Default()
	c.Kind, c.Path = ledger.KindSQLite, filepath.Join(b.TempDir(), "ledger.db")
	s, err := Open(c.Path)
	if err != nil {
		b.Fatal(err)
	}
	room, err := ledger.Open(b.Context(), ledger.Options{Config: c, Store: s, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	entries := someEntries(users)
	at, n := ledgertest.Epoch, 0
	flush := func() {
		if err := room.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	begin := cpu(b)
	b.ReportAllocs()
	for b.Loop() {
		e := entries[n%len(entries)]
		at = at.Add(time.Millisecond)
		e.At = at
		if err := room.Append(&e); err != nil {
			b.Fatal(err)
		}
		if n++; n%batch == 0 {
			flush()
		}
	}
	flush()
	b.ReportMetric(float64(cpu(b)-begin)/float64(n), "cpu-ns/op")
	if t, err := room.Sum(b.Context(), ledger.Query{}); err != nil || t.Requests != int64(n) {
		b.Fatalf("%d of %d entries, %v", t.Requests, n, err)
	}
	if err := room.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// someEntries are of users who each belong to a tenant and have a key, and call
// one of three models.
func someEntries(users int) []ledger.Entry {
	r := rand.New(rand.NewPCG(1, 1))
	models := []string{"gpt-4", "gpt-4o", "claude"}
	providers := []string{"openai", "openai", "anthropic"}
	entries := make([]ledger.Entry, 30_000)
	for i := range entries {
		e := ledgertest.Random(r, fmt.Sprintf("%016x%016x%016x", r.Uint64(), r.Uint64(), r.Uint64()))
		user, m := r.IntN(users), r.IntN(len(models))
		e.User, e.Tenant, e.Key = fmt.Sprint("user-", user), fmt.Sprint("tenant-", user%100), fmt.Sprint("key-", user%200)
		e.Model, e.Provider, e.Target = models[m], providers[m], providers[m]+"/"+models[m]
		e.RequestID = fmt.Sprintf("req_%016x%016x", r.Uint64(), r.Uint64())
		e.Usage.Estimated, e.Priced, e.Outcome = false, true, "ok"
		e.Charges = []llm.Charge{{Scope: "month/tokens|" + e.User, Period: 1_700_000_000, Amount: 100}, {Scope: "month/money|" + e.User, Period: 1_700_000_000, Amount: 100}}
		entries[i] = e
	}
	return entries
}
