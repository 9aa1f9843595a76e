package ledgersql

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"sync/atomic"

	"github.com/headgate-ai/headgate/internal/ledger"
)

// Requests differ in few ways. What all of a kind have in common is their shape.
// A batch is written as two records:
//
//	head: texts · shapes, each with references to its texts, and its sums
//	data: entries, each the time since the one before, its shape, its ids and counts
//
// An entry so has about 70 bytes of the 250 that its texts and numbers have, and
// whoever wants sums of the whole batch needs its head only. Each record begins
// with
//
//	version (1) · CRC-32C of the rest (4, little endian)
//
// and all numbers are varints.
const (
	packVersion = 1
	packHeader  = 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// shape is a kind as it is packed.
type shape ledger.Kind

// texts are the shape's texts, in their order in a batch.
func (s *shape) texts() [9]*string {
	return [...]*string{&s.Tenant, &s.Key, &s.User, &s.Model, &s.Provider, &s.Target, &s.Dialect, &s.Op, &s.Outcome}
}

const (
	flagEstimated = 1 << iota
	flagPriced
)

func (s *shape) flags() (b byte) {
	if s.Estimated {
		b |= flagEstimated
	}
	if s.Priced {
		b |= flagPriced
	}
	return b
}

// tally is a kind and the sums of its entries.
type tally struct {
	*ledger.Kind
	sums sums
}

// packer writes the entries of an hour.
type packer struct {
	first, last int64 // nanoseconds since 1970
	before      int64 // the time of the entry before

	number  map[*ledger.Kind]int
	kinds   []tally
	entries int
	data    []byte
	texts   map[string]uint64 // of head
}

// spare is a packer to be used again. There is one at a time, and it is kept: a
// pool is emptied by each collection of garbage, of which there are several between
// two batches, and a packer that grows anew costs as much as what it packs.
type spare struct{ atomic.Pointer[packer] }

func (s *spare) get() *packer {
	if p := s.Swap(nil); p != nil {
		return p
	}
	return &packer{number: map[*ledger.Kind]int{}, texts: map[string]uint64{}}
}

// A packer that has had more bytes or kinds than these is not kept.
const (
	mostBytes = 2 << 20
	mostKinds = 16 << 10
)

// put gives a packer back. What head and body returned is not used any more.
func (s *spare) put(p *packer) {
	if cap(p.data) > mostBytes || cap(p.kinds) > mostKinds {
		return
	}
	clear(p.number)
	clear(p.texts)
	clear(p.kinds)
	*p = packer{number: p.number, texts: p.texts, kinds: p.kinds[:0], data: p.data[:0]}
	s.Store(p)
}

func (p *packer) add(r *ledger.Record) {
	if p.entries == 0 {
		p.first, p.last = r.At, r.At
		p.data = append(p.data[:0], make([]byte, packHeader)...)
	}
	p.entries++
	p.first, p.last = min(p.first, r.At), max(p.last, r.At)
	n, ok := p.number[r.Kind]
	if !ok {
		n = len(p.kinds)
		p.number[r.Kind] = n
		p.kinds = append(p.kinds, tally{Kind: r.Kind})
	}
	p.kinds[n].sums.count(&r.Numbers, r.Priced)

	b := binary.AppendVarint(p.data, r.At-p.before)
	p.before = r.At
	b = binary.AppendUvarint(b, uint64(n))
	b = appendID(appendID(b, r.ID), r.RequestID)
	for _, n := range r.Numbers {
		b = binary.AppendUvarint(b, uint64(n))
	}
	p.data = b
}

// body is the record of the entries.
func (p *packer) body() []byte { return seal(p.data) }

// head is the record of the shapes.
func (p *packer) head() []byte {
	var texts, shapes []byte
	for i := range p.kinds {
		k := &p.kinds[i]
		s := (*shape)(k.Kind)
		shapes = append(shapes, s.flags())
		shapes = binary.AppendUvarint(shapes, uint64(s.Status))
		for _, t := range s.texts() {
			n, ok := p.texts[*t]
			if !ok {
				n = uint64(len(p.texts))
				p.texts[*t] = n
				texts = appendText(texts, *t)
			}
			shapes = binary.AppendUvarint(shapes, n)
		}
		for _, n := range k.sums[:unpriced] {
			shapes = binary.AppendUvarint(shapes, uint64(n))
		}
	}
	b := make([]byte, packHeader, packHeader+2*binary.MaxVarintLen32+len(texts)+len(shapes))
	b = append(binary.AppendUvarint(b, uint64(len(p.texts))), texts...)
	b = append(binary.AppendUvarint(b, uint64(len(p.kinds))), shapes...)
	return seal(b)
}

// seal fills in the header of what begins with room for it.
func seal(b []byte) []byte {
	b[0] = packVersion
	binary.LittleEndian.PutUint32(b[1:], crc32.Checksum(b[packHeader:], castagnoli))
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendID writes a text, of which the lowest bit of the length says whether it
// is bytes in hexadecimal, as ids often are, and stands as the bytes.
func appendID(b, s []byte) []byte {
	start := len(b)
	b = binary.AppendUvarint(b, uint64(len(s)/2)<<1|1)
	if b, ok := appendHex(b, s); ok {
		return b
	}
	return append(binary.AppendUvarint(b[:start], uint64(len(s))<<1), s...)
}

// appendHex writes the bytes that a text is in hexadecimal, in small letters. It
// reports false if it is not.
func appendHex(b, s []byte) ([]byte, bool) {
	if len(s)%2 != 0 {
		return b, false
	}
	for ; len(s) >= 8; s = s[8:] {
		n, ok := fourBytes(binary.LittleEndian.Uint64(s))
		if !ok {
			return b, false
		}
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	for ; len(s) > 0; s = s[2:] {
		high, low := digits[s[0]], digits[s[1]]
		if high > 15 || low > 15 {
			return b, false
		}
		b = append(b, high<<4|low)
	}
	return b, true
}

// fourBytes reads eight digits at once, the first in the lowest byte.
func fourBytes(s uint64) (n uint32, ok bool) {
	const ones = 0x0101010101010101
	// The bit 6 is that of letters, of which the first is 1 in the lower bits.
	d := s&(0x0f*ones) + 9*(s>>6&ones)
	// What these values would be written as is what was read, or it was no digits.
	letters := (d + 6*ones) >> 4 & ones
	if d&(0xf0*ones) != 0 || d+'0'*ones+('a'-'0'-10)*letters != s {
		return 0, false
	}
	d = (d<<4 | d>>8) & 0x00ff00ff00ff00ff
	d = (d | d>>8) & 0x0000ffff0000ffff
	return uint32(d | d>>16), true
}

// digits are the values of hexadecimal digits, the small ones only, as they are
// written back; of what is none, a value beyond.
var digits = func() (all [256]byte) {
	for i := range all {
		all[i] = 255
	}
	for i, c := range "0123456789abcdef" {
		all[c] = byte(i)
	}
	return all
}()

// id is what appendID wrote.
func id(b []byte, isHex bool) string {
	if isHex {
		return hex.EncodeToString(b)
	}
	return string(b)
}
