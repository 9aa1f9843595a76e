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

type scopeIn struct {
	scope  string
	period int64
}

// charges are what batches add to the balances.
type charges map[scopeIn]int64

func (c charges) add(scope string, period, amount int64) {
	k := scopeIn{scope, period}
	c[k] = ledger.AddCapped(c[k], amount)
}

// rows are those of balances, always in the same order: two gateways that add to
// the same ones would otherwise lock each other out.
func (c charges) rows() iter.Seq[[]any] {
	keys := slices.SortedFunc(maps.Keys(c), func(a, b scopeIn) int {
		return cmp.Or(cmp.Compare(a.scope, b.scope), cmp.Compare(a.period, b.period))
	})
	return func(yield func([]any) bool) {
		for _, k := range keys {
			if !yield([]any{k.scope, k.period, c[k]}) {
				return
			}
		}
	}
}

// pack writes the charges behind the same header as entries have.
func (c charges) pack() []byte {
	b := binary.AppendUvarint(make([]byte, packHeader, packHeader+32*len(c)+1), uint64(len(c)))
	for k, amount := range c {
		b = appendText(b, k.scope)
		b = binary.AppendVarint(b, k.period)
		b = binary.AppendUvarint(b, uint64(amount))
	}
	return seal(b)
}

// unpack adds what pack wrote.
func (c charges) unpack(b []byte) error {
	d, err := unseal(b)
	if err != nil {
		return err
	}
	for range d.many(3) {
		c.add(d.text(), d.varint(), d.upTo(math.MaxInt64))
	}
	return d.end()
}
