package tokens

// The splitters are the encodings' published patterns by hand. Each function
// takes the text and where a piece begins, and returns where it ends; that is
// always further on. The patterns' alternatives are tried in their order, and
// what a backtracking matcher would find is found by looking at classes.

// nextCL100k matches
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func nextCL100k(b []byte, i int) int {
	class, size := classAt(b, i)
	after := i + size
	switch {
	case class&letters != 0:
		return run(b, after, letters)
	case class == number:
		return digits(b, after)
	case class&lineEnd != 0:
		return blanks(b, i)
	}
	if b[i] == '\'' {
		if end := contraction(b, i); end > i {
			return end
		}
	}
	if after < len(b) {
		if next, size := classAt(b, after); next&letters != 0 {
			return run(b, after+size, letters)
		}
	}
	if end := symbols(b, i); end > i {
		for end < len(b) && (b[end] == '\n' || b[end] == '\r') {
			end++
		}
		return end
	}
	return blanks(b, i)
}

// nextO200k matches
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
func nextO200k(b []byte, i int) int {
	class, size := classAt(b, i)
	switch {
	case class == number:
		return digits(b, i+size)
	case class&lineEnd != 0:
		return blanks(b, i)
	case class&letters != 0:
		end, _ := word(b, i)
		return contraction(b, end)
	}
	// The first character may be the one before a word. If the word has no
	// second part the pattern tries again without that character, which helps
	// only where it is a mark, and so part of a word itself.
	end, whole := word(b, i+size)
	if !whole && class == mark {
		end, _ = word(b, i)
	}
	if end > i+size || class == mark {
		return contraction(b, end)
	}
	if end := symbols(b, i); end > i {
		for end < len(b) && (b[end] == '\n' || b[end] == '\r' || b[end] == '/') {
			end++
		}
		return end
	}
	return blanks(b, i)
}

// word matches a word of the o200k pattern at i: heads, then tails. whole is
// whether there is one tail at least; i comes back where there is no word.
//
// The heads take what they can and give back from the end, because letters
// without case and marks are heads and tails: without a tail behind the heads,
// the word ends with the last of those.
func word(b []byte, i int) (end int, whole bool) {
	given := i // behind the last head that can be a tail
	for i < len(b) {
		class, size := classAt(b, i)
		if class&heads == 0 {
			if class&tails != 0 {
				return run(b, i+size, tails), true
			}
			break
		}
		i += size
		if class&tails != 0 {
			given, whole = i, true
		}
	}
	if whole {
		return given, true
	}
	return i, false
}

// digits ends a run of numbers whose first is before i: three at most.
func digits(b []byte, i int) int {
	for range 2 {
		if i >= len(b) {
			break
		}
		class, size := classAt(b, i)
		if class != number {
			break
		}
		i += size
	}
	return i
}

// symbols is where " ?[^\s\p{L}\p{N}]+" ends, i if it does not match.
func symbols(b []byte, i int) int {
	start := i
	if b[i] == ' ' {
		start++
	}
	if end := run(b, start, symbol|mark); end > start {
		return end
	}
	return i
}

// blanks matches white space at i: up to its last line end, or else all of it
// but the last character, which goes with the word behind, or else that.
func blanks(b []byte, i int) int {
	end, last, line := i, i, -1
	for end < len(b) {
		class, size := classAt(b, end)
		if class&blank == 0 {
			break
		}
		last = end
		if end += size; class&lineEnd != 0 {
			line = end
		}
	}
	switch {
	case line >= 0:
		return line
	case end == len(b) || last == i:
		return end
	}
	return last
}

// contraction is where one of 's 't 're 've 'm 'll 'd ends that begins at i, in
// either case; i if none does. The long s is an s by Unicode's simple case
// folding.
func contraction(b []byte, i int) int {
	if i+1 >= len(b) || b[i] != '\'' {
		return i
	}
	var third byte
	if i+2 < len(b) {
		third = b[i+2] | 0x20
	}
	switch c := b[i+1]; c | 0x20 {
	case 's', 't', 'm', 'd':
		return i + 2
	case 'r', 'v':
		if third == 'e' {
			return i + 3
		}
	case 'l':
		if third == 'l' {
			return i + 3
		}
	default:
		if c == 0xc5 && i+2 < len(b) && b[i+2] == 0xbf { // U+017F
			return i + 3
		}
	}
	return i
}
