package ledgersql

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"

	"github.com/headgate-ai/headgate/internal/ledger"
)

// A batch of entries is written as
//
//	version (1) · CRC-32C of the rest (4, little endian) · the number of entries ·
//	texts · shapes · entries
//
// Numbers are varints. Requests differ in few ways: what all of a kind have in
// common is their shape, which stands once and refers to the texts. An entry is
// the time since the one before it, its shape, its two ids and its counts: about
// 80 bytes of the 250 that its texts and numbers have.
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

func shapeOf(e *ledger.Entry) shape {
	return shape{e.Tenant, e.Key, e.User, e.Model, e.Provider, e.Target, e.Dialect, e.Op, e.Outcome, e.Status, e.Usage.Estimated, e.Priced}
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

// packer writes the entries of an hour.
type packer struct {
	entries     int
	first, last int64 // nanoseconds since 1970
	before      int64 // the time of the entry before

	shapes         map[shape]uint64
	texts          map[string]uint64
	shapesB, textB []byte
	entriesB       []byte
}

func newPacker() *packer {
	return &packer{shapes: map[shape]uint64{}, texts: map[string]uint64{}}
}

func (p *packer) add(e *ledger.Entry) {
	at := e.At.UnixNano()
	if p.entries == 0 {
		p.first, p.last = at, at
	}
	p.entries++
	p.first, p.last = min(p.first, at), max(p.last, at)
	s := shapeOf(e)
	n, ok := p.shapes[s]
	if !ok {
		n = uint64(len(p.shapes))
		p.shapes[s] = n
		p.addShape(&s)
	}
	b := binary.AppendVarint(p.entriesB, at-p.before)
	p.before = at
	b = binary.AppendUvarint(b, n)
	b = appendID(appendID(b, e.ID), e.RequestID)
	u := &e.Usage
	for _, n := range [...]int64{u.Input, u.Cached, u.CacheWrite, u.Output, u.Reasoning, int64(e.Cost)} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	p.entriesB = b
}

func (p *packer) addShape(s *shape) {
	p.shapesB = append(p.shapesB, s.flags())
	p.shapesB = binary.AppendUvarint(p.shapesB, uint64(s.status))
	for _, t := range s.texts() {
		n, ok := p.texts[*t]
		if !ok {
			n = uint64(len(p.texts))
			p.texts[*t] = n
			p.textB = appendText(p.textB, *t)
		}
		p.shapesB = binary.AppendUvarint(p.shapesB, n)
	}
}

func (p *packer) bytes() []byte {
	b := make([]byte, packHeader, packHeader+3*binary.MaxVarintLen32+len(p.textB)+len(p.shapesB)+len(p.entriesB))
	b = binary.AppendUvarint(b, uint64(p.entries))
	b = append(binary.AppendUvarint(b, uint64(len(p.texts))), p.textB...)
	b = append(binary.AppendUvarint(b, uint64(len(p.shapes))), p.shapesB...)
	return seal(append(b, p.entriesB...))
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
		b = append(b, digit(s[i])<<4|digit(s[i+1]))
	}
	return b
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s)%2 == 0
}

func digit(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c - 'a' + 10
}

// id is what appendID wrote.
func id(b []byte, isHex bool) string {
	if isHex {
		return hex.EncodeToString(b)
	}
	return string(b)
}
