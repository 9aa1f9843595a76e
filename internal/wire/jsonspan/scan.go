package jsonspan

import (
	"encoding/binary"
	"math/bits"
)

// The scanning functions take a text and the offset where to begin, and return
// the offset after what they read; or, with a problem, the offset of the byte
// that is wrong, len(b) if the text ends too early.

// space returns the offset of the first byte from i on that is not white space.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks the bytes of x that can not stand for themselves in a string, a
// quote, a backslash or a control character, in their highest bits.
//
// With its second bit turned over, a quote (0x22) is the neighbour of the
// control characters, so that one comparison finds both. A subtraction borrows
// only out of a byte that matches, so a false match can only lie above a true
// one, and the lowest match is always true.
func special(x uint64) uint64 {
	quote, slash := x^0x02*ones, x^'\\'*ones
	return ((quote - 0x21*ones) | (slash - ones)) &^ x & highs
}

// plain returns the offset of the first byte from i on that is special. It
// looks at eight bytes at a time, and where those are the beginning of a long
// text, as prompts are, at 32.
func plain(b []byte, i int) int {
	for short := min(i+32, len(b)); i+8 <= short; i += 8 {
		if hit := special(binary.LittleEndian.Uint64(b[i:])); hit != 0 {
			return i + bits.TrailingZeros64(hit)>>3
		}
	}
	for ; i+32 <= len(b); i += 32 {
		c := b[i : i+32 : i+32]
		if special(binary.LittleEndian.Uint64(c))|special(binary.LittleEndian.Uint64(c[8:]))|
			special(binary.LittleEndian.Uint64(c[16:]))|special(binary.LittleEndian.Uint64(c[24:])) != 0 {
			break
		}
	}
	for ; i+8 <= len(b); i += 8 {
		if hit := special(binary.LittleEndian.Uint64(b[i:])); hit != 0 {
			return i + bits.TrailingZeros64(hit)>>3
		}
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= 0x20 {
		i++
	}
	return i
}

// scanString reads the string whose opening quote is b[i].
func scanString(b []byte, i int) (end int, escaped bool, p problem) {
	for i++; ; {
		i = plain(b, i)
		switch {
		case i >= len(b):
			return i, escaped, openString
		case b[i] == '"':
			return i + 1, escaped, fine
		case b[i] != '\\':
			return i, escaped, controlChar
		}
		escaped = true
		if i+1 < len(b) && letters[b[i+1]] != 0 {
			i += 2
			continue
		}
		if i, p = scanEscape(b, i); p != fine {
			return i, escaped, p
		}
	}
}

// letters are the escapes of one letter, with what each stands for.
var letters = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// scanEscape reads the escape whose backslash is b[i].
func scanEscape(b []byte, i int) (int, problem) {
	i++
	if i >= len(b) {
		return i, openString
	}
	if letters[b[i]] != 0 {
		return i + 1, fine
	}
	if b[i] != 'u' {
		return i, badEscape
	}
	i++
	for n := 0; n < 4; n, i = n+1, i+1 {
		if i >= len(b) {
			return i, openString
		}
		if _, ok := hex(b[i]); !ok {
			return i, badHex
		}
	}
	return i, fine
}

// hex is the value of a hexadecimal digit.
func hex(c byte) (rune, bool) {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0'), true
	case 'a' <= c && c <= 'f':
		return rune(c-'a') + 10, true
	case 'A' <= c && c <= 'F':
		return rune(c-'A') + 10, true
	}
	return 0, false
}

// digits reads zero or more digits.
func digits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

// scanNumber reads the number that begins with b[i], a minus or a digit. A
// zero that another digit follows ends there, and the digit is then what the
// caller did not expect.
func scanNumber(b []byte, i int) (int, problem) {
	if b[i] == '-' {
		i++
	}
	start := i
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = digits(b, i); i == start {
		return i, badNumber
	}
	if i < len(b) && b[i] == '.' {
		start = i + 1
		if i = digits(b, start); i == start {
			return i, badNumber
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		start = i
		if i = digits(b, start); i == start {
			return i, badNumber
		}
	}
	return i, fine
}

// scanLiteral reads the given word.
func scanLiteral(b []byte, i int, word string) (int, problem) {
	for n := 0; n < len(word); n, i = n+1, i+1 {
		if i >= len(b) || b[i] != word[n] {
			return i, badLiteral
		}
	}
	return i, fine
}

// scanValue reads any value that begins with b[i]. depth is the nesting it may
// have: none for a scalar, one for a flat object.
// count is how many members or elements it has.
func scanValue(b []byte, i, depth int, long *Long) (end int, k Kind, count int, p problem) {
	if i < len(b) && (b[i] == '{' || b[i] == '[') {
		k = KindArray
		if b[i] == '{' {
			k = KindObject
		}
		end, count, p = scanNested(b, i, depth, long)
		return end, k, count, p
	}
	end, k, p = scanScalar(b, i, long)
	return end, k, 0, p
}

// scanScalar reads a value without inside, or finds that none begins here.
func scanScalar(b []byte, i int, long *Long) (end int, k Kind, p problem) {
	if i >= len(b) {
		return i, 0, wantValue
	}
	switch c := b[i]; {
	case c == '"':
		if long != nil && long.valid {
			if end = long.end(b, i); end > 0 {
				return end, KindString, fine
			}
			long = nil
		}
		end, _, p = scanString(b, i)
		if long != nil && end-i >= leastLong && p == fine {
			long.note(i, end)
		}
		return end, KindString, p
	case c == '-' || c-'0' <= 9:
		end, p = scanNumber(b, i)
		return end, KindNumber, p
	case c == 't':
		end, p = scanLiteral(b, i, "true")
		return end, KindBool, p
	case c == 'f':
		end, p = scanLiteral(b, i, "false")
		return end, KindBool, p
	case c == 'n':
		end, p = scanLiteral(b, i, "null")
		return end, KindNull, p
	}
	return i, 0, wantValue
}

// scanName reads a member's name, the colon and the white space around it, up
// to the value.
func scanName(b []byte, i int) (name Span, escaped bool, end int, p problem) {
	if i >= len(b) || b[i] != '"' {
		return Span{}, false, i, wantKey
	}
	start := i
	if i, escaped, p = scanString(b, i); p != fine {
		return Span{}, false, i, p
	}
	name = Span{start, i}
	if i = space(b, i); i >= len(b) || b[i] != ':' {
		return Span{}, false, i, wantColon
	}
	return name, escaped, space(b, i+1), fine
}

// nesting remembers of each open bracket whether it was a brace.
type nesting struct {
	level  int
	braces [MaxDepth / 64]uint64
}

func (n *nesting) push(brace bool) {
	word, bit := &n.braces[n.level>>6%len(n.braces)], uint64(1)<<(n.level&63)
	if *word &^= bit; brace {
		*word |= bit
	}
	n.level++
}

// pop closes the innermost bracket and tells whether the one around it is a
// brace.
func (n *nesting) pop() (brace bool) {
	n.level--
	above := max(n.level-1, 0)
	return n.braces[above>>6%len(n.braces)]>>(above&63)&1 != 0
}

// scanNested reads the object or array whose bracket is b[i], and counts its
// members or elements.
func scanNested(b []byte, i, depth int, long *Long) (end, count int, p problem) {
	var n nesting
	object := false // whether the innermost open bracket is a brace
	for {
		if n.level == 1 {
			count++
		}
		opened := false
		if i < len(b) && (b[i] == '{' || b[i] == '[') {
			if n.level >= depth {
				return i, count, tooDeep
			}
			opened, object = true, b[i] == '{'
			n.push(object)
			i = space(b, i+1)
		} else if i, _, p = scanScalar(b, i, long); p != fine {
			return i, count, p
		}
		if !opened || i < len(b) && b[i] == closing(object) {
			if i, object = scanClosing(b, i, object, &n); n.level == 0 {
				return i, count, fine
			}
			if i >= len(b) || b[i] != ',' {
				return i, count, wantComma(object)
			}
			i = space(b, i+1)
		}
		if object {
			if _, _, i, p = scanName(b, i); p != fine {
				return i, count, p
			}
		}
	}
}

// scanClosing reads the closing brackets after a value, as many as match, and
// the white space before and between them; not after the outermost one.
func scanClosing(b []byte, i int, object bool, n *nesting) (int, bool) {
	for n.level > 0 {
		if i = space(b, i); i >= len(b) || b[i] != closing(object) {
			break
		}
		i++
		object = n.pop()
	}
	return i, object
}

func closing(object bool) byte {
	if object {
		return '}'
	}
	return ']'
}

func wantComma(object bool) problem {
	if object {
		return wantCommaObject
	}
	return wantCommaArray
}
