package jsonspan

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// Unquote appends the decoded string v of raw to dst. Escaped surrogate pairs
// become one character, a lone surrogate becomes U+FFFD; bytes that are not
// UTF-8 are copied as they are. If v is not a whole valid string in raw, Unquote
// returns dst as it was, and false.
func Unquote(dst, raw []byte, v Value) ([]byte, bool) {
	if !quoted(raw, v) {
		return dst, false
	}
	out, b := dst, raw[:v.End]
	for i := v.Start + 1; ; {
		start := i
		i = plain(b, i)
		out = append(out, b[start:i]...)
		if i+1 == len(b) && b[i] == '"' {
			return out, true
		}
		r, size := escape(b[i:])
		if size == 0 {
			return dst, false
		}
		out = utf8.AppendRune(out, r)
		i += size
	}
}

// Excerpt is what is written between the offsets from and to of inside, the part of
// a valid string between its quotes: a part of inside where that has no escapes, or
// else decoded and appended to room. An escape counts where it begins. last is the
// byte before it, 0 if there is none. Behind a run of backslashes the excerpt may
// begin a character early or late: it is for looking at, not for putting together.
func Excerpt(room, inside []byte, from, to int) (part []byte, last byte) {
	near := max(from-len(`\uXXXX`), 0)
	if from > 0 {
		last = inside[from-1]
	}
	if bytes.IndexByte(inside[near:to], '\\') < 0 {
		return inside[from:to], last
	}
	if at := near + bytes.LastIndexByte(inside[near:from], '\\'); at >= near && (at == 0 || inside[at-1] != '\\') {
		if r, size := escape(inside[at:]); at+size >= from {
			var char [utf8.UTFMax]byte
			from, last = at+size, char[utf8.EncodeRune(char[:], r)-1]
		}
	}
	for from < to {
		n := bytes.IndexByte(inside[from:to], '\\')
		if n < 0 {
			return append(room, inside[from:to]...), last
		}
		room = append(room, inside[from:from+n]...)
		r, size := escape(inside[from+n:])
		room = utf8.AppendRune(room, r)
		from += n + max(size, 1)
	}
	return room, last
}

// Text is the decoded string v of raw, "" where v is not a whole valid string.
// See Unquote.
func Text(raw []byte, v Value) string {
	if quoted(raw, v) {
		if end := plain(raw[:v.End], v.Start+1); end+1 == v.End && raw[end] == '"' {
			return string(raw[v.Start+1 : end]) // as most are: without an escape
		}
	}
	b, _ := Unquote(nil, raw, v)
	return string(b)
}

// StringLen is the length in bytes of what Unquote would append, 0 if v is not
// a whole valid string in raw.
func StringLen(raw []byte, v Value) int {
	if !quoted(raw, v) {
		return 0
	}
	b, n := raw[:v.End], 0
	for i := v.Start + 1; ; {
		start := i
		i = plain(b, i)
		n += i - start
		if i+1 == len(b) && b[i] == '"' {
			return n
		}
		r, size := escape(b[i:])
		if size == 0 {
			return 0
		}
		n, i = n+utf8.RuneLen(r), i+size
	}
}

// quoted is whether v begins as a string in raw.
func quoted(raw []byte, v Value) bool {
	return v.Kind == KindString && v.within(raw) && v.Start < v.End && raw[v.Start] == '"'
}

// escape decodes the escape that s begins with, and says how many bytes it takes:
// 2, 6 or, as a surrogate pair, 12. A half of a pair is U+FFFD. Where s begins with
// no valid escape the size is 0.
func escape(s []byte) (r rune, size int) {
	if len(s) < 2 || s[0] != '\\' {
		return utf8.RuneError, 0
	}
	if c := letters[s[1]]; c != 0 {
		return rune(c), 2
	}
	if r, size = hex4(s); size == 0 || !utf16.IsSurrogate(r) {
		return r, size
	}
	if second, more := hex4(s[size:]); more > 0 {
		if pair := utf16.DecodeRune(r, second); pair != utf8.RuneError {
			return pair, size + more
		}
	}
	return utf8.RuneError, size // a second half that did not fit is read on its own
}

// hex4 is what the escape \uXXXX stands for that s begins with; the size is 0
// where s begins otherwise.
func hex4(s []byte) (r rune, size int) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return utf8.RuneError, 0
	}
	for _, c := range s[2:6] {
		d, ok := hex(c)
		if !ok {
			return utf8.RuneError, 0
		}
		r = r<<4 | d
	}
	return r, 6
}

// AppendQuote appends s as a JSON string in its quotes. Only what RFC 8259
// section 7 requires is escaped: the quote, the backslash and the control
// characters. HTML's <, > and & and the line separators U+2028 and U+2029 stay,
// so do not paste the result into a script. A byte that is not UTF-8 becomes
// \ufffd.
func AppendQuote(dst []byte, s string) []byte {
	dst = append(dst, '"')
	done := 0 // s[:done] is in dst
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[done:i]...), `\ufffd`...)
				done = i + 1
			}
			i += size
			continue
		}
		if c < 0x20 || c == '"' || c == '\\' {
			dst = AppendEscape(append(dst, s[done:i]...), c)
			done = i + 1
		}
		i++
	}
	return append(append(dst, s[done:]...), '"')
}

// AppendEscape appends the escape of one character below U+0080 that cannot stand
// in a JSON string as it is: the shortest that RFC 8259 section 7 knows.
func AppendEscape(dst []byte, c byte) []byte {
	const digits = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
}
