package ledgertest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/llm"
)

// isolated are tenants whose names could be taken for each other's by a store
// that compares carelessly.
var isolated = []string{"alpha", "Alpha", "alph_", "alpha'", "alpha|tenant=beta"}

// Isolation enters the same requests for several tenants: the same request ids,
// keys, users, models and times. What a store tells of a tenant is what it would
// tell if there were no other. The suite closes the store.
func Isolation(t *testing.T, s ledger.Store) {
	t.Helper()
	defer func() {
		if err := s.Close(); err != nil {
			t.Error("cannot close: ", err)
		}
	}()
	r := rand.New(rand.NewPCG(12, 3))
	alone := map[string]ledger.Store{}
	for _, tenant := range isolated {
		alone[tenant] = ledger.NewMemory(0)
	}
	entries := 0
	for range 12 {
		var batch []ledger.Entry
		for range 120 {
			e := Random(r, "")
			for i, tenant := range isolated {
				if r.IntN(4) == 0 {
					continue // this one did not ask
				}
				mine := ofTenant(e, tenant, fmt.Sprintf("%d-%d", entries, i))
				batch, entries = append(batch, mine), entries+1
				if err := alone[tenant].Insert(t.Context(), ledger.BatchOf("", []ledger.Entry{mine}, nil)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := s.Insert(t.Context(), ledger.BatchOf("", batch, nil)); err != nil {
			t.Fatal(err)
		}
		for _, tenant := range isolated {
			q := randomQuery(r)
			q.Tenant = tenant
			compare(t, s, alone[tenant], q, randomBy(r))
		}
	}
	for _, tenant := range isolated {
		compare(t, s, alone[tenant], ledger.Query{Tenant: tenant}, []string{"tenant", "user"})
		compareCharges(t, s, alone[tenant], tenant)
	}
}

// ofTenant is the entry as it is when this tenant asks: charged to its own
// budgets.
func ofTenant(e ledger.Entry, tenant, id string) ledger.Entry {
	e.ID, e.Tenant = id, tenant
	charges := make([]llm.Charge, len(e.Charges))
	for i, c := range e.Charges {
		c.Scope = scopeOf(tenant, i)
		charges[i] = c
	}
	e.Charges = charges
	return e
}

func scopeOf(tenant string, n int) string { return fmt.Sprintf("budget%d/money|tenant=%s$", n, tenant) }

// compareCharges holds what was charged to a tenant's budgets against what it was
// charged alone.
func compareCharges(t *testing.T, s, alone ledger.Store, tenant string) {
	t.Helper()
	of := func(s ledger.Store) map[string]int64 {
		balances, err := s.Balances(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		used := map[string]int64{}
		for _, b := range balances {
			if strings.HasSuffix(b.Scope, "|tenant="+tenant+"$") {
				used[fmt.Sprint(b.Scope, " ", b.Period)] = b.Used
			}
		}
		return used
	}
	if got, want := of(s), of(alone); len(want) == 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("%s is charged %v, alone %v", tenant, got, want)
	}
}
