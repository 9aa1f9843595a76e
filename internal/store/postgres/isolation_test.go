package postgres

import (
	"testing"

	"github.com/headgate-ai/headgate/internal/ledger/ledgertest"
)

// K12.
func TestTenantsAreApart(t *testing.T) {
	ledgertest.Isolation(t, mustOpen(t, start(t).address(t, "apart")))
}
