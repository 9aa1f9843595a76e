package ledgersql

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/llm"
)

var (
	errVersion = errors.New("the ledger's database has a record of a later version; it needs a newer headgate")
	errDamaged = errors.New("a record of the ledger's database is damaged: its checksum does not fit")
	errPack    = errors.New("a record of the ledger's database is not one that this version writes")
)

// unseal is what stands behind the header, if that fits.
func unseal(b []byte) ([]byte, error) {
	switch {
	case len(b) < packHeader:
		return nil, errPack
	case b[0] != packVersion:
		return nil, errVersion
	case crc32.Checksum(b[packHeader:], castagnoli) != binary.LittleEndian.Uint32(b[1:]):
		return nil, errDamaged
	}
	return b[packHeader:], nil
}

// numbers reads what is left of a record. Once something is wrong all is zero.
type numbers struct {
	rest []byte
	bad  bool
}

func (d *numbers) spoil() { d.rest, d.bad = nil, true }

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
func (d *numbers) upTo(most uint64) uint64 {
	n := d.uvarint()
	if n > most {
		d.spoil()
		return 0
	}
	return n
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

// unpacker reads a batch: its shapes at once, its entries one by one.
type unpacker struct {
	numbers
	shapes []shape
	left   int // entries
	at     int64
}

// record is an entry in a batch.
type record struct {
	shape  int
	at     int64 // nanoseconds since 1970
	counts [6]int64

	id, request       []byte // parts of the batch
	idHex, requestHex bool
}

// The least bytes that these have.
const (
	leastShape  = 11
	leastRecord = 10
)

func unpack(b []byte) (*unpacker, error) {
	rest, err := unseal(b)
	if err != nil {
		return nil, err
	}
	u := &unpacker{numbers: numbers{rest: rest}}
	u.left = u.many(leastRecord)
	texts := make([]string, u.many(1))
	for i := range texts {
		texts[i] = u.text()
	}
	u.shapes = make([]shape, u.many(leastShape))
	for i := range u.shapes {
		u.readShape(&u.shapes[i], texts)
	}
	if u.bad {
		return nil, errPack
	}
	return u, nil
}

func (u *unpacker) readShape(s *shape, texts []string) {
	flags := u.bytes(1)
	if u.bad {
		return
	}
	s.estimated, s.priced = flags[0]&flagEstimated != 0, flags[0]&flagPriced != 0
	s.status = int(u.upTo(ledger.MaxCount))
	for _, t := range s.texts() {
		if n := u.uvarint(); n < uint64(len(texts)) {
			*t = texts[n]
		} else {
			u.spoil()
		}
	}
}

// next reads an entry. It reports false at the end, which is one only if err is
// nil.
func (u *unpacker) next(r *record) bool {
	if u.left == 0 || u.bad {
		u.bad = u.bad || len(u.rest) > 0
		return false
	}
	u.left--
	u.at += u.varint()
	r.at = u.at
	shape := u.uvarint()
	r.id, r.idHex = u.id()
	r.request, r.requestHex = u.id()
	for i := range r.counts {
		r.counts[i] = int64(u.upTo(ledger.MaxCount))
	}
	if shape >= uint64(len(u.shapes)) || r.at < 0 {
		u.spoil()
	}
	r.shape = int(shape)
	return !u.bad
}

// err is what ended the reading.
func (u *unpacker) err() error {
	if u.bad {
		return errPack
	}
	return nil
}

func (u *unpacker) id() (b []byte, isHex bool) {
	n := u.uvarint()
	return u.bytes(n >> 1), n&1 != 0
}

// entry makes an entry of the record.
func (u *unpacker) entry(r *record) ledger.Entry {
	s := &u.shapes[r.shape]
	return ledger.Entry{
		ID: id(r.id, r.idHex), At: time.Unix(0, r.at).UTC(), RequestID: id(r.request, r.requestHex),
		Tenant: s.tenant, Key: s.key, User: s.user, Model: s.model, Provider: s.provider, Target: s.target,
		Dialect: s.dialect, Op: s.op, Outcome: s.outcome, Status: s.status, Priced: s.priced,
		Usage: llm.Usage{Input: r.counts[0], Cached: r.counts[1], CacheWrite: r.counts[2], Output: r.counts[3], Reasoning: r.counts[4], Estimated: s.estimated},
		Cost:  llm.Money(r.counts[5]),
	}
}

// addTo counts the record, whose shape has the price or not.
func (r *record) addTo(t *ledger.Totals, priced bool) {
	t.Requests++
	t.Input += r.counts[0]
	t.Cached += r.counts[1]
	t.CacheWrite += r.counts[2]
	t.Output += r.counts[3]
	t.Reasoning += r.counts[4]
	t.Cost += llm.Money(r.counts[5])
	if !priced {
		t.Unpriced++
	}
}

// matches is whether the query selects entries of the shape, by all but their
// times.
func (s *shape) matches(q *ledger.Query) bool {
	e := ledger.Entry{Tenant: s.tenant, Key: s.key, User: s.user, Model: s.model, Provider: s.provider}
	rest := ledger.Query{Tenant: q.Tenant, Key: q.Key, User: q.User, Model: q.Model, Provider: q.Provider}
	return rest.Match(&e)
}
