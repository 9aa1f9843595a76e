package ledgersql

import (
	"cmp"
	"encoding/binary"
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

// sorted are the scopes, always in the same order: two gateways that charge the
// same budgets would otherwise lock each other out.
func (c charges) sorted() []scopeIn {
	return slices.SortedFunc(maps.Keys(c), func(a, b scopeIn) int {
		return cmp.Or(cmp.Compare(a.scope, b.scope), cmp.Compare(a.period, b.period))
	})
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
	rest, err := unseal(b)
	if err != nil {
		return err
	}
	d := numbers{rest: rest}
	for range d.many(3) {
		c.add(d.text(), d.varint(), int64(d.upTo(math.MaxInt64)))
	}
	if d.bad || len(d.rest) > 0 {
		return errPack
	}
	return nil
}
