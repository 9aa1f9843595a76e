package ledger

import (
	"encoding/binary"
	"errors"
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
	p := pieces{rest: payload[1:]}
	kind := p.bytes(uint64(binary.LittleEndian.Uint16(p.bytes(2))))
	if r.Kind = d.kind(kind); r.Kind == nil {
		return errPayload
	}
	if at := p.bytes(8); at != nil {
		r.At = int64(binary.LittleEndian.Uint64(at))
	}
	r.ID, r.RequestID = p.text(), p.text()
	for i := range r.Numbers {
		r.Numbers[i] = p.count()
	}
	d.charges(&p, r)
	if p.bad || len(p.rest) > 0 || len(r.ID) == 0 || r.At < 0 {
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
	p := pieces{rest: b[1:]}
	k := &Kind{Priced: b[0]&flagPriced != 0, Estimated: b[0]&flagEstimated != 0, Status: int(p.count())}
	for _, to := range k.texts() {
		n := len(p.text())
		end := len(whole) - len(p.rest)
		*to = whole[end-n : end]
	}
	if p.bad || len(p.rest) > 0 {
		return nil
	}
	if d.kinds != nil {
		d.kinds[whole] = k
	}
	return k
}

func (d *decoder) charges(p *pieces, r *Record) {
	r.Charges = r.Charges[:0]
	n := p.count()
	if n > MaxCharges {
		p.spoil()
		return
	}
	for range n {
		r.Charges = append(r.Charges, Charge{d.account(p), p.count()})
	}
}

func (d *decoder) account(p *pieces) *Account {
	b := p.rest
	scope, period := p.text(), p.varint()
	b = b[:len(b)-len(p.rest)]
	if a := d.accounts[string(b)]; a != nil {
		return a
	}
	a := &Account{string(scope), period}
	if d.accounts != nil && !p.bad {
		d.accounts[string(b)] = a
	}
	return a
}

// pieces is what is left to read of a payload. Once something is wrong all is
// zero.
type pieces struct {
	rest []byte
	bad  bool
}

func (p *pieces) spoil() { p.bad, p.rest = true, nil }

func (p *pieces) uvarint() uint64 {
	if len(p.rest) > 0 && p.rest[0] < 0x80 { // most are so small
		n := uint64(p.rest[0])
		p.rest = p.rest[1:]
		return n
	}
	n, size := binary.Uvarint(p.rest)
	if size <= 0 {
		p.spoil()
		return 0
	}
	p.rest = p.rest[size:]
	return n
}

func (p *pieces) varint() int64 {
	n := p.uvarint()
	return int64(n>>1) ^ -int64(n&1)
}

func (p *pieces) count() int64 {
	n := p.uvarint()
	if n > MaxCount {
		p.spoil()
		return 0
	}
	return int64(n)
}

func (p *pieces) bytes(n uint64) []byte {
	if n > uint64(len(p.rest)) {
		p.spoil()
		return nil
	}
	b := p.rest[:n]
	p.rest = p.rest[n:]
	return b
}

func (p *pieces) text() []byte { return p.bytes(p.uvarint()) }
