package ledgersql

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"time"

	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/ledger/unpack"
)

var (
	errVersion = errors.New("the ledger's database has a record of a later version; it needs a newer headgate")
	errDamaged = errors.New("a record of the ledger's database is damaged: its checksum does not fit")
	errPack    = errors.New("a record of the ledger's database is not one that this version writes")
)

// unseal reads a record whose header fits.
func unseal(b []byte) (unpack.Reader, error) {
	switch {
	case len(b) < packHeader:
		return unpack.Reader{}, errPack
	case b[0] != packVersion:
		return unpack.Reader{}, errVersion
	case crc32.Checksum(b[packHeader:], castagnoli) != binary.LittleEndian.Uint32(b[1:]):
		return unpack.Reader{}, errDamaged
	}
	return unpack.Reader{Rest: b[packHeader:]}, nil
}

// end is what is wrong with a record of which all should have been read.
func end(r *unpack.Reader) error {
	if !r.Whole() {
		return errPack
	}
	return nil
}

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
	texts := make([]string, d.Many(1))
	for i := range texts {
		texts[i] = string(d.Text())
	}
	shapes := make([]counted, d.Many(leastShape))
	for i := range shapes {
		shapes[i].read(&d, texts)
	}
	return shapes, end(&d)
}

func (s *counted) read(d *unpack.Reader, texts []string) {
	flags := d.Bytes(1)
	if d.Bad {
		return
	}
	s.Estimated, s.Priced = flags[0]&flagEstimated != 0, flags[0]&flagPriced != 0
	s.Status = int(d.UpTo(ledger.MaxCount))
	for _, t := range s.texts() {
		if n := d.Uvarint(); n < uint64(len(texts)) {
			*t = texts[n]
		} else {
			d.Spoil()
		}
	}
	for i := range s.sums[:unpriced] {
		s.sums[i] = d.UpTo(math.MaxInt64)
	}
	if !s.Priced {
		s.sums[unpriced] = s.sums[requests]
	}
}

// unpacker reads entries one by one.
type unpacker struct {
	unpack.Reader
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
	return unpacker{Reader: d, shapes: shapes}, err
}

// next reads an entry. It reports false at the end, which is a good one if end
// says so.
func (u *unpacker) next(r *record) bool {
	if len(u.Rest) == 0 {
		return false
	}
	u.at += u.Varint()
	r.at = u.at
	shape := u.Uvarint()
	r.id, r.idHex = u.id()
	r.request, r.requestHex = u.id()
	for i := range r.numbers {
		r.numbers[i] = u.UpTo(ledger.MaxCount)
	}
	if shape >= uint64(len(u.shapes)) || r.at < 0 {
		u.Spoil()
	}
	r.shape = int(shape)
	return !u.Bad
}

func (u *unpacker) id() (b []byte, isHex bool) {
	n := u.Uvarint()
	return u.Bytes(n >> 1), n&1 != 0
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
