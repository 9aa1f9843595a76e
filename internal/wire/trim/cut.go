package trim

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// leastBytes is how much every text keeps behind its leading white space, or
	// as far as the sentence before that: an empty text is an error to some
	// providers.
	leastBytes = 32
	// lookBack is how many bytes before the limit the end of a sentence, or at
	// least of a word, is looked for.
	lookBack = 1000
	// mostTries bounds how often a cut steps back because the tokens of its parts
	// did not add up.
	mostTries = 4
)

// shorten finds where to cut text so that it has at most so many tokens by the
// rule, and how many it then has. The cut is len(text) if there is no shorter
// text, and later than asked for if too little would be left.
func shorten(text []byte, r *rule, most float64) (cut int, kept float64) {
	least := leastOf(text)
	if least >= len(text) {
		return len(text), 0
	}
	limit := r.limit(text, most)
	for range mostTries {
		cut = boundary(text, max(limit, least))
		kept = r.of(text[:cut])
		if kept <= most || cut <= least {
			break
		}
		limit = min(cut-1, int(float64(cut)*most/kept))
	}
	return cut, kept
}

// leastOf is the lowest limit of a text.
func leastOf(text []byte) int {
	i := len(text) - len(bytes.TrimLeft(text, whiteSpace))
	i = min(i+leastBytes, len(text))
	for i < len(text) && !utf8.RuneStart(text[i]) {
		i++
	}
	return i
}

const whiteSpace = " \t\r\n\v\f"

// boundary is the best place to cut text at or before the limit: the end of a
// sentence, else of a word, else of a character.
func boundary(text []byte, limit int) int {
	if limit >= len(text) {
		return len(text)
	}
	visible := len(text) - len(bytes.TrimLeft(text, whiteSpace))
	first := max(visible, limit-lookBack)
	for _, isEnd := range [...]func([]byte, int) bool{endsSentence, endsWord} {
		for i := limit; i > first; i-- {
			if isEnd(text, i) {
				return len(bytes.TrimRight(text[:i], whiteSpace))
			}
		}
	}
	return runeStart(text, limit)
}

// endsSentence is whether a sentence ends before the byte i > 0: with a full
// stop or another mark and white space behind it, with a mark of Chinese or
// Japanese, or with its line.
func endsSentence(text []byte, i int) bool {
	if i >= len(text) {
		return false
	}
	switch c := text[i]; {
	case c == '\n' || c == '\r':
		return true
	case isBlank(c):
		return text[i-1] == '.' || text[i-1] == '!' || text[i-1] == '?'
	}
	before := text[:i]
	return bytes.HasSuffix(before, []byte("。")) || bytes.HasSuffix(before, []byte("！")) || bytes.HasSuffix(before, []byte("？"))
}

func endsWord(text []byte, i int) bool {
	return i < len(text) && isBlank(text[i]) && !isBlank(text[i-1])
}

func isBlank(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// runeStart is where the character around the byte i begins. Bytes that are not
// UTF-8 are characters of their own.
func runeStart(text []byte, i int) int {
	for back := 0; back < utf8.UTFMax && i-back >= 0; back++ {
		if i-back == len(text) || utf8.RuneStart(text[i-back]) {
			return i - back
		}
	}
	return i
}

// written is how many bytes of a JSON string's inside, which must be valid,
// stand for the first n bytes of its text. An escape counts as a whole.
func written(inside []byte, n int) int {
	at := 0
	for n > 0 {
		plain := bytes.IndexByte(inside[at:], '\\')
		if plain < 0 || plain >= n {
			return min(at+n, len(inside))
		}
		at, n = at+plain, n-plain
		size, decoded := escape(inside[at:])
		if decoded > n {
			return at
		}
		at, n = at+size, n-decoded
	}
	return at
}

// escape is how many bytes the valid escape at the beginning of s takes, and
// how many what it stands for takes in UTF-8 (RFC 8259 section 7). Half a
// surrogate pair stands for U+FFFD.
func escape(s []byte) (size, decoded int) {
	if s[1] != 'u' {
		return 2, 1
	}
	r := unit(s)
	if !utf16.IsSurrogate(r) {
		return 6, utf8.RuneLen(r)
	}
	if len(s) >= 12 && s[6] == '\\' && s[7] == 'u' && utf16.DecodeRune(r, unit(s[6:])) != utf8.RuneError {
		return 12, 4
	}
	return 6, utf8.RuneLen(utf8.RuneError)
}

// unit is the UTF-16 code unit of the escape at the beginning of s.
func unit(s []byte) rune {
	n, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}
