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
	body, escaped, ok := inQuotes(raw, v)
	if !ok {
		return dst, false
	}
	if !escaped {
		return append(dst, body...), true
	}
	for {
		i := bytes.IndexByte(body, '\\')
		if i < 0 {
			return append(dst, body...), true
		}
		dst = append(dst, body[:i]...)
		r, size := unescape(body[i:])
		dst = utf8.AppendRune(dst, r)
		body = body[i+size:]
	}
}

// Text is the decoded string v of raw, "" where v is not a whole valid string.
// See Unquote.
func Text(raw []byte, v Value) string {
	b, _ := Unquote(nil, raw, v)
	return string(b)
}

// StringLen is the length in bytes of what Unquote would append, 0 if v is not
// a whole valid string in raw.
func StringLen(raw []byte, v Value) int {
	if v.Kind != KindString || !v.within(raw) || v.Start == v.End || raw[v.Start] != '"' {
		return 0
	}
	b, n := raw[:v.End], 0
	for i := v.Start + 1; ; {
		start := i
		i = plain(b, i)
		n += i - start
		switch {
		case i+1 < len(b) && b[i] == '\\':
		case i+1 == len(b) && b[i] == '"':
			return n
		default:
			return 0
		}
		if letters[b[i+1]] != 0 {
			n, i = n+1, i+2
			continue
		}
		size, decoded := escapeLen(b[i:])
		if size == 0 {
			return 0
		}
		n, i = n+decoded, i+size
	}
}

// escapeLen is how many bytes the escape at the beginning of s takes, a
// surrogate pair being one escape, and how many what it stands for takes; 0 if
// it is not valid.
func escapeLen(s []byte) (size, decoded int) {
	if _, p := scanEscape(s, 0); p != fine {
		return 0, 0
	}
	r, size := unescape(s)
	if size == 12 {
		if _, p := scanEscape(s, 6); p != fine {
			return 0, 0
		}
	}
	return size, utf8.RuneLen(r)
}

// inQuotes is what lies between the quotes of a valid string.
func inQuotes(raw []byte, v Value) (body []byte, escaped, ok bool) {
	if v.Kind != KindString || !v.within(raw) || v.Start == v.End || raw[v.Start] != '"' {
		return nil, false, false
	}
	end, escaped, p := scanString(raw[:v.End], v.Start)
	if p != fine || end != v.End {
		return nil, false, false
	}
	return raw[v.Start+1 : v.End-1], escaped, true
}

// unescape decodes the escape at the beginning of s, which must be valid, and
// returns how many bytes it takes: 2, 6 or, as a surrogate pair, 12.
func unescape(s []byte) (r rune, size int) {
	if s[1] != 'u' {
		return rune(letters[s[1]]), 2
	}
	r = hex4(s[2:])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(s[8:])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6 // a second half that did not fit is read on its own
}

func hex4(s []byte) (r rune) {
	for _, c := range s[:4] {
		d, _ := hex(c)
		r = r<<4 | d
	}
	return r
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
