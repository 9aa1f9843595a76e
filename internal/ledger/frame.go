package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"unicode/utf8"
)

// A record of the spool is a frame:
//
//	magic (4) · CRC-32C of what follows (4) · length of the payload (4) · payload
//
// with numbers in little endian.
//
// The magic holds bytes that UTF-8 has no use for, and all texts are UTF-8: a
// reader that looks for the next record behind a damaged one cannot be led to
// one that a client wrote into a name.
const (
	magic        = "\xff\xfeh2"
	earlierMagic = "\xff\xfehg"
	headerSize   = len(magic) + 8
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

// lastYear is the last whose nanoseconds since 1970 fit in 64 bits, less some;
// endOfTime is when it ends, in seconds since 1970.
const (
	lastYear  = 2260
	endOfTime = 9_183_110_400
)

// check is whether the entry can be kept.
func (e *Entry) check() error {
	if e.ID == "" || len(e.ID) > MaxID {
		return fmt.Errorf("ledger: the entry's ID has %d bytes; it needs 1 to %d", len(e.ID), MaxID)
	}
	if at := e.At.Unix(); at < 0 || at >= endOfTime {
		return fmt.Errorf("ledger: the entry's time is in the year %d; it must be from 1970 to %d", e.At.UTC().Year(), lastYear)
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
	var d decoder
	var r Record
	if err := d.decode(new(framer).write(e)[headerSize:], &r); err != nil {
		return Entry{}, err
	}
	return r.Entry(), nil
}

// A payload is
//
//	version (1) · length of the kind (2) · kind · time (8) · ids · numbers · charges
//
// The kind stands together and in front, so that neither who writes many entries
// nor who reads them need take it apart each time. Numbers without a length here
// are varints.

// framer writes entries as frames. What it wrote last it uses again, as far as the
// next entry is of the same kind.
type framer struct {
	frame []byte
	kind  Kind
	upTo  int // where the kind ends; 0 where there is none yet
}

const beforeKind = headerSize + 3

// write makes a frame, which the framer keeps.
func (f *framer) write(e *Entry) []byte {
	if k := e.kind(); f.upTo == 0 || k != f.kind {
		f.frame = append(f.frame[:0], magic+"\x00\x00\x00\x00\x00\x00\x00\x00"...)
		f.frame = k.append(append(f.frame, version, 0, 0))
		f.kind, f.upTo = k, len(f.frame)
		binary.LittleEndian.PutUint16(f.frame[beforeKind-2:], uint16(f.upTo-beforeKind))
	}
	b := binary.LittleEndian.AppendUint64(f.frame[:f.upTo], uint64(e.At.UnixNano()))
	b = appendText(b, e.ID)
	b = appendText(b, e.RequestID)
	for _, n := range e.numbers() {
		b = appendCount(b, n)
	}
	b = binary.AppendUvarint(b, uint64(len(e.Charges)))
	for i := range e.Charges {
		c := &e.Charges[i]
		b = appendText(b, c.Scope)
		b = binary.AppendVarint(b, c.Period)
		b = appendCount(b, c.Amount)
	}
	binary.LittleEndian.PutUint32(b[8:], uint32(len(b)-headerSize))
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
	f.frame = b
	return b
}

const (
	flagPriced = 1 << iota
	flagEstimated
)

func (k *Kind) append(b []byte) []byte {
	var flags byte
	if k.Priced {
		flags |= flagPriced
	}
	if k.Estimated {
		flags |= flagEstimated
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, uint64(min(max(0, k.Status), 999)))
	for _, s := range k.texts() {
		b = appendText(b, *s)
	}
	return b
}

func appendCount(b []byte, n int64) []byte {
	return binary.AppendUvarint(b, uint64(min(max(0, n), MaxCount)))
}

// appendText writes a text that every store takes: PostgreSQL has no zero byte
// and nothing that is not UTF-8 in its texts.
func appendText(b []byte, s string) []byte {
	if len(s) < utf8.RuneSelf && plain(s) { // as most are
		return append(append(b, byte(len(s))), s...)
	}
	if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
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

// plain is whether the text is ASCII without a zero byte.
func plain(s string) bool {
	const ones = 0x0101010101010101
	for ; len(s) >= 8; s = s[8:] {
		w := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		// The highest bit of a byte is set in w where it is not ASCII, and in w less
		// one in each byte where one of them is zero.
		if (w|(w-ones))&(ones<<7) != 0 {
			return false
		}
	}
	for i := range len(s) {
		if s[i]-1 >= utf8.RuneSelf-1 {
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
	n := binary.LittleEndian.Uint32(b[8:])
	if n > maxPayload {
		return nil, 0, broken
	}
	size = headerSize + int(n)
	if len(b) < size {
		return nil, 0, partial
	}
	if crc32.Checksum(b[8:size], castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
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
