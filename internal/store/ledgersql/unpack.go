package ledgersql

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"time"

	"github.com/headgate-ai/headgate/internal/ledger"
)

var (
	errVersion = errors.New("the ledger's database has a record of a later version; it needs a newer headgate")
	errDamaged = errors.New("a record of the ledger's database is damaged: its checksum does not fit")
	errPack    = errors.New("a record of the ledger's database is not one that this version writes")
)

// numbers reads what is left of a record. Once something is wrong all is zero.
type numbers struct {
	rest []byte
	bad  bool
}

// unseal reads a record whose header fits.
func unseal(b []byte) (numbers, error) {
	switch {
	case len(b) < packHeader:
		return numbers{}, errPack
	case b[0] != packVersion:
		return numbers{}, errVersion
	case crc32.Checksum(b[packHeader:], castagnoli) != binary.LittleEndian.Uint32(b[1:]):
		return numbers{}, errDamaged
	}
	return numbers{rest: b[packHeader:]}, nil
}

func (d *numbers) spoil() { d.rest, d.bad = nil, true }

// end is what is wrong with a record of which all should have been read.
func (d *numbers) end() error {
	if d.bad || len(d.rest) > 0 {
		return errPack
	}
	return nil
}

func (d *numbers) uvarint() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.spoil()
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *numbers) varint() int64 {
	n := d.uvarint()
	return int64(n>>1) ^ -int64(n&1)
}

// upTo reads a number of at most most; a larger one is wrong.
func (d *numbers) upTo(most uint64) int64 {
	n := d.uvarint()
	if n > most {
		d.spoil()
		return 0
	}
	return int64(n)
}

// many reads how many things follow, which have at least so many bytes each: no
// more are made room for than can be there.
func (d *numbers) many(size int) int {
	return int(d.upTo(uint64(len(d.rest) / size)))
}

func (d *numbers) bytes(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.spoil()
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *numbers) text() string { return string(d.bytes(d.uvarint())) }

// counted is a shape and the sums of its entries.
type counted struct {
	shape
	sums sums
}

// leastShape is how many bytes a shape has at least.
const leastShape = 18

// unpackHead reads what packer.head wrote.
func unpackHead(b []byte) ([]counted, error) {
	d, err := unseal(b)
	if err != nil {
		return nil, err
	}
	texts := make([]string, d.many(1))
	for i := range texts {
		texts[i] = d.text()
	}
	shapes := make([]counted, d.many(leastShape))
	for i := range shapes {
		d.shape(&shapes[i], texts)
	}
	return shapes, d.end()
}

func (d *numbers) shape(s *counted, texts []string) {
	flags := d.bytes(1)
	if d.bad {
		return
	}
	s.Estimated, s.Priced = flags[0]&flagEstimated != 0, flags[0]&flagPriced != 0
	s.Status = int(d.upTo(ledger.MaxCount))
	for _, t := range s.texts() {
		if n := d.uvarint(); n < uint64(len(texts)) {
			*t = texts[n]
		} else {
			d.spoil()
		}
	}
	for i := range s.sums[:unpriced] {
		s.sums[i] = d.upTo(math.MaxInt64)
	}
	if !s.Priced {
		s.sums[unpriced] = s.sums[requests]
	}
}

// unpacker reads entries one by one.
type unpacker struct {
	numbers
	shapes []counted
	at     int64
}

// record is an entry in a batch.
type record struct {
	shape   int
	at      int64 // nanoseconds since 1970
	numbers ledger.Numbers

	id, request       []byte // parts of the batch
	idHex, requestHex bool
}

// unpackBody begins to read what packer.body wrote.
func unpackBody(shapes []counted, b []byte) (unpacker, error) {
	d, err := unseal(b)
	return unpacker{numbers: d, shapes: shapes}, err
}

// next reads an entry. It reports false at the end, which is a good one if end
// says so.
func (u *unpacker) next(r *record) bool {
	if len(u.rest) == 0 {
		return false
	}
	u.at += u.varint()
	r.at = u.at
	shape := u.uvarint()
	r.id, r.idHex = u.id()
	r.request, r.requestHex = u.id()
	for i := range r.numbers {
		r.numbers[i] = u.upTo(ledger.MaxCount)
	}
	if shape >= uint64(len(u.shapes)) || r.at < 0 {
		u.spoil()
	}
	r.shape = int(shape)
	return !u.bad
}

func (u *unpacker) id() (b []byte, isHex bool) {
	n := u.uvarint()
	return u.bytes(n >> 1), n&1 != 0
}

// entry makes an entry of the record.
func (u *unpacker) entry(r *record) ledger.Entry {
	return ledger.EntryOf((*ledger.Kind)(&u.shapes[r.shape].shape), id(r.id, r.idHex), id(r.request, r.requestHex), r.at, &r.numbers)
}

// matches is whether the query selects entries of the shape, by all but their
// times.
func (s *shape) matches(q *ledger.Query) bool {
	rest := *q
	rest.From, rest.Until = time.Time{}, time.Time{}
	return rest.Match(&ledger.Entry{Tenant: s.Tenant, Key: s.Key, User: s.User, Model: s.Model, Provider: s.Provider})
}
