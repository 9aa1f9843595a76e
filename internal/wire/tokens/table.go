package tokens

import (
	"encoding/binary"
	"math/bits"
)

// none is what lookup returns of bytes that are no token, and stands above
// every rank.
const none = ^uint32(0)

// layout says where the parts of a vocabulary lie in its file. All numbers are
// little-endian, an id is the token's rank, and the parts are in this order:
//
//	pairs    65536 x uint32  the id of each token of two bytes, by first<<8|second; none where there is none
//	short    1<<shortBits x uint64  a hash table of the tokens of up to seven bytes
//	long     1<<longBits x uint32  a hash table of the others
//	ids      longs x uint32  their ids, in rising order
//	offsets  (longs+1) x uint32  where the bytes of each of them begin in bytes
//	bytes    their bytes, one behind the other
type layout struct {
	tokens    int // ids are less than this
	longs     int // tokens of eight bytes and more
	longest   int // bytes of the longest token
	shortBits int // binary logarithm of the number of slots, and bits of an id
	longBits  int
}

var (
	o200kLayout  = layout{tokens: 199998, longs: 67638, longest: 128, shortBits: 18, longBits: 17}
	cl100kLayout = layout{tokens: 100256, longs: 29778, longest: 128, shortBits: 17, longBits: 16}
)

const (
	shortAt   = 65536 * 4
	emptySlot = ^uint64(0)
)

func (l *layout) longAt() int    { return shortAt + 8<<l.shortBits }
func (l *layout) idsAt() int     { return l.longAt() + 4<<l.longBits }
func (l *layout) offsetsAt() int { return l.idsAt() + 4*l.longs }
func (l *layout) bytesAt() int   { return l.offsetsAt() + 4*(l.longs+1) }

// table is a vocabulary, read in place.
type table struct {
	bin string
	layout
}

func u32(s string, at int) uint32 {
	s = s[at : at+4]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func u64(s string, at int) uint64 {
	s = s[at : at+8]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// pair is the id of the token of the two bytes, none if there is none.
func (t *table) pair(a, b byte) uint32 { return u32(t.bin, (int(a)<<8|int(b))*4) }

// lookup is the id of the token that is exactly b[i:j], none if there is none.
// The bytes of b behind j are looked at, too, but make no difference.
func (t *table) lookup(b []byte, i, j int) uint32 {
	switch n := j - i; {
	case n > 7:
		return t.lookupLong(b[i:j])
	case n < 1:
		return none
	case i+8 <= len(b): // one load, and what is too much masked away
		key := binary.LittleEndian.Uint64(b[i:]) & (1<<(n*8&63) - 1)
		return t.lookupKey(key | uint64(n)<<56)
	}
	return t.lookupKey(keyOf(b[i:j]))
}

// keyOf is a token of up to seven bytes as a number: its bytes, and above them
// how many they are.
func keyOf(p []byte) uint64 {
	key := uint64(len(p)) << 56
	for k, c := range p {
		key |= uint64(c) << (8 * k)
	}
	return key
}

const (
	keyBits   = 59 // of keyOf: 56 and three
	distBits  = 5
	distMask  = 1<<distBits - 1
	spreadBy  = 0x9e3779b97f4a7c15 // odd, so that the product is a permutation
	keyMask   = 1<<keyBits - 1
	shortMost = 7
)

// lookupKey finds a short token. The product of its key and an odd number,
// modulo 1<<keyBits, is a permutation of the keys: its highest bits say where
// the token's slot is, and the slot needs to have only the other bits, how far
// it is from there (5 bits, below them) and the id (the lowest). So a slot of
// eight bytes is enough to be certain.
//
// Slots are filled by Robin Hood's rule: none is further from its place than
// the one that it is passed over for, which keeps the distance small and ends
// the search for what is not there early.
func (t *table) lookupKey(key uint64) uint32 {
	width := uint(t.shortBits) % 64 // which says that no shift is by more
	product := key * spreadBy & keyMask
	place := int(product >> ((keyBits - width) % 64))
	want := product << distBits << width >> width
	mask := 1<<width - 1
	for dist := uint64(0); dist < distMask; dist++ {
		slot := u64(t.bin, shortAt+((place+int(dist))&mask)*8)
		found := slot >> width
		if found == want|dist {
			return uint32(slot) & uint32(mask)
		}
		if slot == emptySlot || found&distMask < dist {
			break
		}
	}
	return none
}

// Slots of long tokens have the number of the token among them, and above it
// the highest bits of the hash, so that the bytes are hardly ever compared in
// vain.
const (
	longMask = 1<<18 - 1
	tagMask  = ^uint32(longMask)
)

func (t *table) lookupLong(p []byte) uint32 {
	if len(p) > t.longest {
		return none
	}
	h := hash(p)
	tag := uint32(h>>32) & tagMask
	mask := 1<<t.longBits - 1
	slots := t.longAt()
	for at := int(h) & mask; ; at = (at + 1) & mask {
		slot := u32(t.bin, slots+at*4)
		if slot == none {
			return none
		}
		if n := int(slot & longMask); slot&tagMask == tag && t.long(n) == string(p) {
			return u32(t.bin, t.idsAt()+4*n)
		}
	}
}

// long is the bytes of the n-th long token.
func (t *table) long(n int) string {
	at, bytes := t.offsetsAt()+4*n, t.bytesAt()
	return t.bin[bytes+int(u32(t.bin, at)) : bytes+int(u32(t.bin, at+4))]
}

// hash mixes the bytes of p, of which there must be eight at least: eight at a
// time by a multiplication to 128 bits, the last eight overlapping the ones
// before.
func hash(p []byte) uint64 {
	const k0, k1 = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93
	n := len(p)
	h := uint64(n) * k1
	for i := 0; i+8 < n; i += 8 {
		h = mix(h^binary.LittleEndian.Uint64(p[i:]), k0)
	}
	return mix(h^binary.LittleEndian.Uint64(p[n-8:]), k0)
}

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
