package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/headgate-ai/headgate/internal/ledger/ledgertest"
)

// K12.
func TestTenantsAreApart(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	ledgertest.Isolation(t, s)
}
