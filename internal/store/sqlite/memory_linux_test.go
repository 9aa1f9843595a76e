package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/ledger/ledgertest"
	"github.com/headgate-ai/headgate/lab/race"
)

// resident is how much memory of the machine the process has, in KiB.
func resident(t *testing.T) (kib int) {
	t.Helper()
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize() / 1024
}

// An idle gateway has 30 MiB in all. Until the first request the ledger's file
// has none of them, and then a few.
func TestIdleMemory(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector has memory of its own")
	}
	before := resident(t)
	s, err := Open(filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, err := s.Balances(t.Context(), 0); err != nil || got != nil {
		t.Errorf("a new ledger has the balances %v, %v", got, err)
	}
	opened := resident(t)
	for i := range 20 {
		if err := s.Insert(t.Context(), ledger.BatchOf("", []ledger.Entry{{ID: fmt.Sprint(i), At: ledgertest.Epoch}}, nil)); err != nil {
			t.Fatal(err)
		}
	}
	used := resident(t)
	t.Logf("opening takes %d KiB, and some inserts %d KiB more", opened-before, used-opened)
	if idle, grown := opened-before, used-before; idle > 2<<10 || grown > 8<<10 {
		t.Errorf("the store takes %d KiB of memory idle, and %d in use", idle, grown)
	}
}
