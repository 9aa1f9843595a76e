package ledger

import (
	"encoding/binary"
	"errors"

	"github.com/headgate-ai/headgate/internal/ledger/unpack"
)

var (
	errPayload = errors.New("the record is not one that this version writes")
	errVersion = errors.New("the record is of a later version; it needs a newer headgate")
)

// decoder reads payloads. What many have in common, their kinds and accounts, it
// takes apart once and knows again by its bytes.
type decoder struct {
	kinds    map[string]*Kind
	accounts map[string]*Account
}

// mostKnown is how many kinds and accounts are kept from one batch to the next.
const mostKnown = 8192

// begin begins a batch.
func (d *decoder) begin() {
	if d.kinds == nil {
		d.kinds, d.accounts = map[string]*Kind{}, map[string]*Account{}
	}
}

// end ends it.
func (d *decoder) end() {
	if len(d.kinds)+len(d.accounts) > mostKnown {
		*d = decoder{}
	}
}

// decode reads a payload, of which the record then has parts.
func (d *decoder) decode(payload []byte, r *Record) error {
	if len(payload) < 3 {
		return errPayload
	}
	if payload[0] != version {
		return errVersion
	}
	p := unpack.Reader{Rest: payload[1:]}
	kind := p.Bytes(uint64(binary.LittleEndian.Uint16(p.Bytes(2))))
	if r.Kind = d.kind(kind); r.Kind == nil {
		return errPayload
	}
	if at := p.Bytes(8); at != nil {
		r.At = int64(binary.LittleEndian.Uint64(at))
	}
	r.ID, r.RequestID = p.Text(), p.Text()
	for i := range r.Numbers {
		r.Numbers[i] = p.UpTo(MaxCount)
	}
	d.charges(&p, r)
	if !p.Whole() || len(r.ID) == 0 || r.At < 0 {
		return errPayload
	}
	return nil
}

// kind finds or reads a kind. It is nil if that is none.
func (d *decoder) kind(b []byte) *Kind {
	if k := d.kinds[string(b)]; k != nil || len(b) == 0 {
		return k
	}
	// One copy, which all the texts are parts of.
	whole := string(b)
	p := unpack.Reader{Rest: b[1:]}
	k := &Kind{Priced: b[0]&flagPriced != 0, Estimated: b[0]&flagEstimated != 0, Status: int(p.UpTo(MaxCount))}
	for _, to := range k.texts() {
		n := len(p.Text())
		end := len(whole) - len(p.Rest)
		*to = whole[end-n : end]
	}
	if !p.Whole() {
		return nil
	}
	if d.kinds != nil {
		d.kinds[whole] = k
	}
	return k
}

func (d *decoder) charges(p *unpack.Reader, r *Record) {
	r.Charges = r.Charges[:0]
	n := p.UpTo(MaxCount)
	if n > MaxCharges {
		p.Spoil()
		return
	}
	for range n {
		r.Charges = append(r.Charges, Charge{d.account(p), p.UpTo(MaxCount)})
	}
}

func (d *decoder) account(p *unpack.Reader) *Account {
	b := p.Rest
	scope, period := p.Text(), p.Varint()
	b = b[:len(b)-len(p.Rest)]
	if a := d.accounts[string(b)]; a != nil {
		return a
	}
	a := &Account{string(scope), period}
	if d.accounts != nil && !p.Bad {
		d.accounts[string(b)] = a
	}
	return a
}
