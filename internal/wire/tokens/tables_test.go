package tokens

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"go/format"
	"os"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
)

var update = flag.Bool("update", false, "write the embedded tables again")

// The embedded tables are what this generator makes of the reference
// library's vocabularies and of the standard library's Unicode tables.
func TestTables(t *testing.T) {
	same(t, "o200k.bin", vocabulary(t, codec.NewO200kBase(), o200kLayout))
	same(t, "cl100k.bin", vocabulary(t, codec.NewCl100kBase(), cl100kLayout))
	same(t, "kindtable.go", kindTable(t))
	if unicode.Version != classesVersion {
		t.Skipf("this Go has Unicode %s; the classes are those of %s", unicode.Version, classesVersion)
	}
	same(t, "classes.bin", runeClasses(t))
}

// same compares a file with what it should be, or writes it.
func same(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the generator makes; run go generate", file)
	}
}

// vocabulary lays a vocabulary out as the comment of layout says.
func vocabulary(t *testing.T, from *codec.Codec, l layout) []byte {
	t.Helper()
	var names []string
	longs, longest := 0, 0
	for id := range 1 << 20 {
		name, err := from.Decode([]uint{uint(id)})
		if err != nil {
			break
		}
		names = append(names, name)
		longest = max(longest, len(name))
		if len(name) > shortMost {
			longs++
		}
	}
	if len(names) != l.tokens || longest != l.longest || longs != l.longs {
		t.Fatalf("the vocabulary has %d tokens, %d of them long, the longest of %d bytes; the layout says %d, %d and %d",
			len(names), longs, longest, l.tokens, l.longs, l.longest)
	}
	out := bytes.Repeat([]byte{0xff}, l.bytesAt())
	put := func(at int, v uint32) { binary.LittleEndian.PutUint32(out[at:], v) }
	slots, mask := l.longAt(), 1<<l.longBits-1
	var text []byte
	n := 0
	for id, name := range names {
		if len(name) == 2 {
			put((int(name[0])<<8|int(name[1]))*4, uint32(id))
		}
		if len(name) <= shortMost {
			putShort(t, out, l, []byte(name), id)
			continue
		}
		put(l.idsAt()+n*4, uint32(id))
		put(l.offsetsAt()+n*4, uint32(len(text)))
		text = append(text, name...)
		h := hash([]byte(name))
		at := int(h) & mask
		for binary.LittleEndian.Uint32(out[slots+at*4:]) != none {
			at = (at + 1) & mask
		}
		put(slots+at*4, uint32(h>>32)&tagMask|uint32(n))
		n++
	}
	put(l.offsetsAt()+n*4, uint32(len(text)))
	return append(out, text...)
}

// putShort puts a short token into its table. Where a slot is taken, the one
// that is further from its place stays, and the other moves on.
func putShort(t *testing.T, out []byte, l layout, name []byte, id int) {
	t.Helper()
	product := keyOf(name) * spreadBy & keyMask
	at := int(product >> (keyBits - l.shortBits))
	rest := product & (1<<(keyBits-l.shortBits) - 1)
	slot, mask := rest<<(distBits+l.shortBits)|uint64(id), 1<<l.shortBits-1
	for dist := 0; ; dist, at = dist+1, (at+1)&mask {
		if dist >= distMask {
			t.Fatal("a token is too far from its place; make the table larger")
		}
		slot = slot&^(distMask<<l.shortBits) | uint64(dist)<<l.shortBits
		p := out[shortAt+at*8:]
		there := binary.LittleEndian.Uint64(p)
		if there == emptySlot {
			binary.LittleEndian.PutUint64(p, slot)
			return
		}
		if other := int(there >> l.shortBits & distMask); other < dist {
			binary.LittleEndian.PutUint64(p, slot)
			slot, dist = there, other
		}
	}
}

// runeClasses has the two stages of classesBin.
func runeClasses(t *testing.T) []byte {
	t.Helper()
	var stage1, stage2 []byte
	seen := map[string]int{}
	for block := range blockCount {
		var b [1 << blockBits]byte
		for k := range b {
			b[k] = slowClass(rune(int(block)<<blockBits + k))
		}
		at, ok := seen[string(b[:])]
		if !ok {
			at = len(seen)
			seen[string(b[:])] = at
			stage2 = append(stage2, b[:]...)
		}
		if at > 255 {
			t.Fatal("more than 256 different blocks; make them larger")
		}
		stage1 = append(stage1, byte(at))
	}
	return append(stage1, stage2...)
}

// slowClass is the class of a character by the standard library's tables.
func slowClass(r rune) uint8 {
	switch {
	case r == '\r' || r == '\n':
		return blank | lineEnd
	case unicode.IsSpace(r):
		return blank
	case unicode.In(r, unicode.Lu, unicode.Lt):
		return upper
	case unicode.Is(unicode.Ll, r):
		return lower
	case unicode.In(r, unicode.Lm, unicode.Lo):
		return other
	case unicode.Is(unicode.M, r):
		return mark
	case unicode.Is(unicode.N, r):
		return number
	}
	return symbol
}

func TestASCIIClasses(t *testing.T) {
	for r := range rune(utf8.RuneSelf) {
		if ascii[r] != slowClass(r) || classOf(r) != slowClass(r) {
			t.Errorf("%q has the classes %#x and %#x, want %#x", r, ascii[r], classOf(r), slowClass(r))
		}
	}
}

// What the tables cost the binary.
func TestTablesAreSmall(t *testing.T) {
	const most = 8 << 20
	if n := len(o200kBin) + len(cl100kBin) + len(classesBin); n > most {
		t.Errorf("the tables have %d bytes, more than %d", n, most)
	} else {
		t.Logf("the tables have %d bytes", n)
	}
}

// kindRanges are the kinds of the bytes that are no ASCII, each up to a byte.
var kindRanges = []struct{ last, kind uint8 }{
	{0xbf, kindTail}, {0xc1, kindInvalid}, {0xcb, kindLatin}, {0xcd, kindCombining}, {0xcf, kindGreek},
	{0xd3, kindCyrillic}, {0xd7, kindHebrew}, {0xdf, kindArabic}, {0xe0, kindIndic}, {0xe1, kindE1},
	{0xe2, kindGeneral}, {0xe3, kindKana}, {0xe9, kindHan}, {0xed, kindHangul}, {0xef, kindWide},
	{0xf4, kindEmoji}, {0xff, kindInvalid},
}

func kindOfByte(c byte) uint8 {
	switch c {
	case 'a', 'e', 'i', 'o', 'u':
		return kindVowel
	case 'n', 'r', 's', 't', 'l', 'd', 'h', 'c', 'm':
		return kindConsonant
	case ' ':
		return kindSpace
	case '\n', '\r':
		return kindLine
	case '\t':
		return kindTab
	case ',', '.', ':', ';', '!', '?':
		return kindStop
	case '"', '`':
		return kindQuote
	case '\'':
		return kindApostrophe
	case '(', '[', '{', '<':
		return kindOpen
	case ')', ']', '}', '>':
		return kindClose
	case '_', '-', '/', '\\', '@':
		return kindJoin
	}
	switch {
	case c >= 'a' && c <= 'z':
		return kindRare
	case c >= 'A' && c <= 'Z':
		return kindUpper
	case c >= '0' && c <= '9':
		return kindDigit
	case c < ' ' || c == 0x7f:
		return kindControl
	case c < 0x80:
		return kindOperator
	}
	for _, r := range kindRanges {
		if c <= r.last {
			return r.kind
		}
	}
	return kindInvalid
}

// kindTable is the source of kindtable.go.
func kindTable(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("// Code generated by TestTables -update; DO NOT EDIT.\n\npackage tokens\n\n// kindOf is the kind of a byte.\nvar kindOf = [256]uint8{")
	for c := range 256 {
		if c%16 == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%d, ", kindOfByte(byte(c)))
	}
	b.WriteString("\n}\n")
	out, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return out
}
