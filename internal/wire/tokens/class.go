package tokens

import (
	_ "embed"
	"unicode/utf8"
)

// The classes of characters that the splitters' patterns tell apart, as bits, so
// that a set of them is one mask. Every character has exactly one.
const (
	upper   = 1 << iota // Lu, Lt
	lower               // Ll
	other               // Lm, Lo: letters without case
	mark                // M
	number              // N
	blank               // \s: White_Space
	symbol              // everything else, and bytes that are not UTF-8
	lineEnd = 1 << 7    // CR and LF, which are also blank

	letters = upper | lower | other
	heads   = upper | other | mark // what the first part of an o200k word is made of
	tails   = lower | other | mark // what the second part is made of
)

// classesVersion is the Unicode version of the tables in classes.bin.
const classesVersion = "17.0.0"

// classesBin has the class of every code point in two stages: which block of
// 128 code points is like which, then the blocks.
//
//go:embed classes.bin
var classesBin string

const (
	blockBits  = 7
	blockCount = (utf8.MaxRune + 1) >> blockBits
)

// classAt is the class of the character that begins at i, and its size in
// bytes. i must be less than len(b).
func classAt(b []byte, i int) (class uint8, size int) {
	if c := ascii[b[i]]; c != 0 {
		return c, 1
	}
	return classBeyond(b, i)
}

// classBeyond is classAt of what is no ASCII.
func classBeyond(b []byte, i int) (class uint8, size int) {
	r, size := utf8.DecodeRune(b[i:])
	if r == utf8.RuneError {
		return symbol, size
	}
	return classOf(r), size
}

func classOf(r rune) uint8 {
	block := int(classesBin[r>>blockBits])
	return classesBin[blockCount+block<<blockBits+int(r)&(1<<blockBits-1)]
}

// run is where the characters from i on end that are in the set.
func run(b []byte, i int, set uint8) int {
	for i < len(b) {
		class, size := ascii[b[i]], 1 // classAt, which is too much to inline
		if class == 0 {
			class, size = classBeyond(b, i)
		}
		if class&set == 0 {
			break
		}
		i += size
	}
	return i
}

// ascii has the classes of the first 128 characters, and none of bytes that are not
// ASCII.
var ascii = [256]uint8{
	'\t': blank, '\n': blank | lineEnd, '\v': blank, '\f': blank, '\r': blank | lineEnd, ' ': blank,

	'0': number, '1': number, '2': number, '3': number, '4': number,
	'5': number, '6': number, '7': number, '8': number, '9': number,

	'A': upper, 'B': upper, 'C': upper, 'D': upper, 'E': upper, 'F': upper, 'G': upper, 'H': upper, 'I': upper,
	'J': upper, 'K': upper, 'L': upper, 'M': upper, 'N': upper, 'O': upper, 'P': upper, 'Q': upper, 'R': upper,
	'S': upper, 'T': upper, 'U': upper, 'V': upper, 'W': upper, 'X': upper, 'Y': upper, 'Z': upper,

	'a': lower, 'b': lower, 'c': lower, 'd': lower, 'e': lower, 'f': lower, 'g': lower, 'h': lower, 'i': lower,
	'j': lower, 'k': lower, 'l': lower, 'm': lower, 'n': lower, 'o': lower, 'p': lower, 'q': lower, 'r': lower,
	's': lower, 't': lower, 'u': lower, 'v': lower, 'w': lower, 'x': lower, 'y': lower, 'z': lower,

	0x00: symbol, 0x01: symbol, 0x02: symbol, 0x03: symbol, 0x04: symbol, 0x05: symbol, 0x06: symbol, 0x07: symbol,
	0x08: symbol, 0x0e: symbol, 0x0f: symbol, 0x10: symbol, 0x11: symbol, 0x12: symbol, 0x13: symbol, 0x14: symbol,
	0x15: symbol, 0x16: symbol, 0x17: symbol, 0x18: symbol, 0x19: symbol, 0x1a: symbol, 0x1b: symbol, 0x1c: symbol,
	0x1d: symbol, 0x1e: symbol, 0x1f: symbol, 0x7f: symbol,

	'!': symbol, '"': symbol, '#': symbol, '$': symbol, '%': symbol, '&': symbol, '\'': symbol, '(': symbol,
	')': symbol, '*': symbol, '+': symbol, ',': symbol, '-': symbol, '.': symbol, '/': symbol, ':': symbol,
	';': symbol, '<': symbol, '=': symbol, '>': symbol, '?': symbol, '@': symbol, '[': symbol, '\\': symbol,
	']': symbol, '^': symbol, '_': symbol, '`': symbol, '{': symbol, '|': symbol, '}': symbol, '~': symbol,
}
