package ledgersql

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"sync"

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

// shape is what entries have in common.
type shape struct {
	tenant, key, user, model, provider, target, dialect, op, outcome string
	status                                                           int
	estimated, priced                                                bool
}

// texts are the shape's texts, in their order in a batch.
func (s *shape) texts() [9]*string {
	return [...]*string{&s.tenant, &s.key, &s.user, &s.model, &s.provider, &s.target, &s.dialect, &s.op, &s.outcome}
}

const (
	flagEstimated = 1 << iota
	flagPriced
)

func (s *shape) flags() (b byte) {
	if s.estimated {
		b |= flagEstimated
	}
	if s.priced {
		b |= flagPriced
	}
	return b
}

// counted is a shape and the sums of its entries.
type counted struct {
	shape
	sums sums
}

// packer writes the entries of an hour.
type packer struct {
	first, last int64 // nanoseconds since 1970
	before      int64 // the time of the entry before

	number  map[shape]int
	shapes  []counted
	entries int
	data    []byte
	texts   map[string]uint64 // of head
}

// packers are used again, but for those that one large batch made large.
var packers = sync.Pool{New: func() any {
	return &packer{number: map[shape]int{}, texts: map[string]uint64{}}
}}

// mostKept is how many bytes a packer may have to be used again.
const mostKept = 1 << 20

func newPacker() *packer { return packers.Get().(*packer) }

// free gives the packer back. What head and body returned is not used any more.
func (p *packer) free() {
	if cap(p.data) > mostKept {
		return
	}
	clear(p.number)
	clear(p.texts)
	clear(p.shapes)
	*p = packer{number: p.number, texts: p.texts, shapes: p.shapes[:0], data: p.data[:0]}
	packers.Put(p)
}

func (p *packer) add(e *ledger.Entry) {
	at := e.At.UnixNano()
	if p.entries == 0 {
		p.first, p.last = at, at
		p.data = append(p.data[:0], make([]byte, packHeader)...)
	}
	p.entries++
	p.first, p.last = min(p.first, at), max(p.last, at)
	s := shape{e.Tenant, e.Key, e.User, e.Model, e.Provider, e.Target, e.Dialect, e.Op, e.Outcome, e.Status, e.Usage.Estimated, e.Priced}
	n, ok := p.number[s]
	if !ok {
		n = len(p.shapes)
		p.number[s] = n
		p.shapes = append(p.shapes, counted{shape: s})
	}
	u := &e.Usage
	counts := counts{u.Input, u.Cached, u.CacheWrite, u.Output, u.Reasoning, int64(e.Cost)}
	p.shapes[n].sums.count(&counts, e.Priced)

	b := binary.AppendVarint(p.data, at-p.before)
	p.before = at
	b = binary.AppendUvarint(b, uint64(n))
	b = appendID(appendID(b, e.ID), e.RequestID)
	for _, n := range counts {
		b = binary.AppendUvarint(b, uint64(n))
	}
	p.data = b
}

// body is the record of the entries.
func (p *packer) body() []byte { return seal(p.data) }

// head is the record of the shapes.
func (p *packer) head() []byte {
	var texts, shapes []byte
	for i := range p.shapes {
		s := &p.shapes[i]
		shapes = append(shapes, s.flags())
		shapes = binary.AppendUvarint(shapes, uint64(s.status))
		for _, t := range s.texts() {
			n, ok := p.texts[*t]
			if !ok {
				n = uint64(len(p.texts))
				p.texts[*t] = n
				texts = appendText(texts, *t)
			}
			shapes = binary.AppendUvarint(shapes, n)
		}
		for _, n := range s.sums[:unpriced] {
			shapes = binary.AppendUvarint(shapes, uint64(n))
		}
	}
	b := make([]byte, packHeader, packHeader+2*binary.MaxVarintLen32+len(texts)+len(shapes))
	b = append(binary.AppendUvarint(b, uint64(len(p.texts))), texts...)
	b = append(binary.AppendUvarint(b, uint64(len(p.shapes))), shapes...)
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
func appendID(b []byte, s string) []byte {
	if !isHex(s) {
		return append(binary.AppendUvarint(b, uint64(len(s))<<1), s...)
	}
	b = binary.AppendUvarint(b, uint64(len(s)/2)<<1|1)
	for i := 0; i < len(s); i += 2 {
		b = append(b, digits[s[i]]<<4|digits[s[i+1]])
	}
	return b
}

func isHex(s string) bool {
	for i := range len(s) {
		if digits[s[i]] > 15 {
			return false
		}
	}
	return len(s)%2 == 0
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
