package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headgate-ai/headgate/internal/llm"
)

// A record of the spool is a frame:
//
//	magic (4) · length (4, little endian) · CRC-32C of length and payload (4) · payload
//
// The magic holds bytes that UTF-8 has no use for, and all texts are UTF-8: a
// reader that looks for the next record behind a damaged one cannot be led to
// one that a client wrote into a name.
const (
	magic      = "\xff\xfehg"
	headerSize = len(magic) + 8
	// maxPayload is more than any entry needs that check lets pass.
	maxPayload = 64 << 10
	version    = 1
)

// The bounds of an entry.
const (
	MaxID   = 64
	MaxText = 512
	// MaxScope is the longest scope of a charge, and MaxCharges their number.
	MaxScope   = 512
	MaxCharges = 64
	// MaxCount keeps sums of absurd reports within 64 bits; tokens and money
	// beyond it are recorded as it.
	MaxCount = 1 << 53
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// endOfTime is the last year whose nanoseconds since 1970 fit in 64 bits, less
// some.
const endOfTime = 2260

// check is whether the entry can be kept.
func (e *Entry) check() error {
	if e.ID == "" || len(e.ID) > MaxID {
		return fmt.Errorf("ledger: the entry's ID has %d bytes; it needs 1 to %d", len(e.ID), MaxID)
	}
	if y := e.At.UTC().Year(); y < 1970 || y > endOfTime {
		return fmt.Errorf("ledger: the entry's time is in the year %d; it must be from 1970 to %d", y, endOfTime)
	}
	if len(e.Charges) > MaxCharges {
		return fmt.Errorf("ledger: the entry has %d charges; it may have %d", len(e.Charges), MaxCharges)
	}
	for i := range e.Charges {
		if n := len(e.Charges[i].Scope); n > MaxScope {
			return fmt.Errorf("ledger: a charge's scope has %d bytes; it may have %d", n, MaxScope)
		}
	}
	return nil
}

// clean is the entry as a store will have it.
func (e *Entry) clean() (Entry, error) {
	if err := e.check(); err != nil {
		return Entry{}, err
	}
	return decodePayload(appendPayload(nil, e))
}

// appendFrame writes the entry as a frame.
func appendFrame(b []byte, e *Entry) []byte {
	start := len(b)
	b = append(b, magic+"\x00\x00\x00\x00\x00\x00\x00\x00"...)
	b = appendPayload(b, e)
	frame := b[start:]
	binary.LittleEndian.PutUint32(frame[4:], uint32(len(frame)-headerSize))
	binary.LittleEndian.PutUint32(frame[8:], checksum(frame))
	return b
}

func checksum(frame []byte) uint32 {
	return crc32.Update(crc32.Checksum(frame[4:8], castagnoli), castagnoli, frame[headerSize:])
}

const (
	flagPriced = 1 << iota
	flagEstimated
)

// texts are the entry's texts, in their order in a payload.
func (e *Entry) texts() [11]*string {
	return [...]*string{&e.ID, &e.RequestID, &e.Key, &e.Tenant, &e.User, &e.Model, &e.Provider, &e.Target, &e.Dialect, &e.Op, &e.Outcome}
}

// counts are the entry's counts, in their order in a payload.
func (e *Entry) counts() [6]*int64 {
	u := &e.Usage
	return [...]*int64{&u.Input, &u.Cached, &u.CacheWrite, &u.Output, &u.Reasoning, (*int64)(&e.Cost)}
}

func appendPayload(b []byte, e *Entry) []byte {
	var flags byte
	if e.Priced {
		flags |= flagPriced
	}
	if e.Usage.Estimated {
		flags |= flagEstimated
	}
	b = append(b, version, flags)
	b = binary.AppendVarint(b, e.At.UnixNano())
	b = binary.AppendUvarint(b, uint64(min(max(0, e.Status), 999)))
	for _, n := range e.counts() {
		b = appendCount(b, *n)
	}
	for _, s := range e.texts() {
		b = appendText(b, *s)
	}
	b = binary.AppendUvarint(b, uint64(len(e.Charges)))
	for i := range e.Charges {
		c := &e.Charges[i]
		b = appendText(b, c.Scope)
		b = binary.AppendVarint(b, c.Period)
		b = appendCount(b, c.Amount)
	}
	return b
}

func appendCount(b []byte, n int64) []byte {
	return binary.AppendUvarint(b, uint64(min(max(0, n), MaxCount)))
}

// appendText writes a text that every store takes: PostgreSQL has no zero byte
// and nothing that is not UTF-8 in its texts.
func appendText(b []byte, s string) []byte {
	if !plain(s) && (strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s)) {
		s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	}
	if len(s) > MaxText {
		cut := MaxText
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// plain is whether the text is ASCII without a zero byte. Most are, and this is
// faster than to ask for each of the two.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c == 0 || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// found is what lies at the beginning of some bytes.
type found uint8

const (
	whole   found = iota // a frame
	partial              // the beginning of a frame, perhaps
	broken               // no frame
)

// cutFrame finds the frame at the beginning of b, and its size.
func cutFrame(b []byte) (payload []byte, size int, is found) {
	if n := min(len(b), len(magic)); string(b[:n]) != magic[:n] {
		return nil, 0, broken
	}
	if len(b) < headerSize {
		return nil, 0, partial
	}
	n := binary.LittleEndian.Uint32(b[4:])
	if n > maxPayload {
		return nil, 0, broken
	}
	size = headerSize + int(n)
	if len(b) < size {
		return nil, 0, partial
	}
	if checksum(b[:size]) != binary.LittleEndian.Uint32(b[8:]) {
		return nil, 0, broken
	}
	return b[headerSize:size], size, whole
}

// skip is how many bytes of b to pass over to where the next frame may begin.
// At least one is passed over.
func skip(b []byte) int {
	for at := 1; at < len(b); at++ {
		next := bytes.IndexByte(b[at:], magic[0])
		if next < 0 {
			break
		}
		at += next
		if n := min(len(b)-at, len(magic)); string(b[at:at+n]) == magic[:n] {
			return at
		}
	}
	return len(b)
}

var (
	errPayload = errors.New("the record is not one that this version writes")
	errVersion = errors.New("the record is of a later version; it needs a newer headgate")
)

// decodePayload reads an entry back.
func decodePayload(b []byte) (Entry, error) {
	if len(b) < 2 {
		return Entry{}, errPayload
	}
	if b[0] != version {
		return Entry{}, errVersion
	}
	// One copy, which all the texts are parts of.
	d := payload{rest: string(b[2:])}
	e := Entry{Priced: b[1]&flagPriced != 0, At: time.Unix(0, d.varint()).UTC(), Status: int(d.count())}
	e.Usage.Estimated = b[1]&flagEstimated != 0
	for _, n := range e.counts() {
		*n = d.count()
	}
	for _, s := range e.texts() {
		*s = d.text()
	}
	if n := d.count(); n > MaxCharges {
		d.bad = true
	} else if n > 0 {
		e.Charges = make([]llm.Charge, n)
	}
	for i := range e.Charges {
		e.Charges[i] = llm.Charge{Scope: d.text(), Period: d.varint(), Amount: d.count()}
	}
	if d.bad || d.rest != "" || e.ID == "" {
		return Entry{}, errPayload
	}
	return e, nil
}

// payload is what is left to read of one. Once something is wrong all is zero.
type payload struct {
	rest string
	bad  bool
}

func (d *payload) uvarint() uint64 {
	var n uint64
	for i := 0; i < len(d.rest) && i < binary.MaxVarintLen64; i++ {
		c := d.rest[i]
		n |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			d.rest = d.rest[i+1:]
			return n
		}
	}
	d.bad, d.rest = true, ""
	return 0
}

func (d *payload) varint() int64 {
	n := d.uvarint()
	return int64(n>>1) ^ -int64(n&1)
}

func (d *payload) count() int64 {
	n := d.uvarint()
	d.bad = d.bad || n > MaxCount
	return int64(min(n, MaxCount))
}

func (d *payload) text() string {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.bad, d.rest = true, ""
		return ""
	}
	s := d.rest[:n]
	d.rest = d.rest[n:]
	return s
}
