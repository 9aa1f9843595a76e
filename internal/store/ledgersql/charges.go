package ledgersql

import (
	"cmp"
	"encoding/binary"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/headgate-ai/headgate/internal/ledger"
)

// charges are what batches add to the balances.
type charges map[ledger.Account]int64

func (c charges) add(a ledger.Account, amount int64) { c[a] = ledger.AddCapped(c[a], amount) }

// rows are those of balances, always in the same order: two gateways that add to
// the same ones would otherwise lock each other out.
func (c charges) rows() iter.Seq[[]any] {
	keys := slices.SortedFunc(maps.Keys(c), func(a, b ledger.Account) int {
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Period, b.Period))
	})
	return func(yield func([]any) bool) {
		for _, k := range keys {
			if !yield([]any{k.Scope, k.Period, c[k]}) {
				return
			}
		}
	}
}

// packCharges writes charges behind the same header as entries have. An account
// may be among them several times.
func packCharges(c map[*ledger.Account]int64) []byte {
	b := binary.AppendUvarint(make([]byte, packHeader, packHeader+32*len(c)+1), uint64(len(c)))
	for a, amount := range c {
		b = appendText(b, a.Scope)
		b = binary.AppendVarint(b, a.Period)
		b = binary.AppendUvarint(b, uint64(amount))
	}
	return seal(b)
}

// unpack adds what packCharges wrote.
func (c charges) unpack(b []byte) error {
	d, err := unseal(b)
	if err != nil {
		return err
	}
	for range d.Many(3) {
		c.add(ledger.Account{Scope: string(d.Text()), Period: d.Varint()}, d.UpTo(math.MaxInt64))
	}
	return end(&d)
}
