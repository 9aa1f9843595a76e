package sqlite

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/ledger/ledgertest"
)

// BenchmarkInsert inserts full batches of the ingester's, of 500 rows, with IDs
// by chance and times that go forward.
func BenchmarkInsert(b *testing.B) {
	s, err := Open(filepath.Join(b.TempDir(), "ledger.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	r := rand.New(rand.NewPCG(1, 1))
	at := ledgertest.Epoch
	b.ReportAllocs()
	for b.Loop() {
		batch := make([]ledger.Entry, 500)
		for i := range batch {
			batch[i] = ledgertest.Random(r, fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64()))
			at = at.Add(10 * time.Millisecond)
			batch[i].At = at
		}
		if err := s.Insert(b.Context(), ledger.Batch{Entries: batch}); err != nil {
			b.Fatal(err)
		}
	}
}
