package jsonspan

import "bytes"

// Long is what a walk over a text has found and what is of use to later walks over
// the same text, which begin anew at every object and array that is looked into:
// that the text is valid, and where its long strings lie. Prompts are mostly a few
// long strings, so that only the first walk costs what the text is long. The zero
// value is ready to note.
type Long struct {
	spans [mostLong]Span // in the order of the text
	n     int
	at    int  // where it was asked last
	valid bool // the text, as far as it is walked over
}

const (
	// leastLong is from where on a string is worth noting, in bytes.
	leastLong = 1 << 10
	// mostLong is how many are noted; those behind are looked through each time.
	mostLong = 32
)

// Note has the walk note the long strings of the values to come in l.
func (w *walk) Note(l *Long) { w.long = l }

// Spans are the strings that were noted, with their quotes.
func (l *Long) Spans() []Span { return l.spans[:l.n] }

// Trust says that a walk has found the text valid.
func (l *Long) Trust() { l.valid = true }

// Know adds a string that another walk over the same text has noted. They come
// in order; those for which there is no room are left out.
func (l *Long) Know(s Span) { l.note(s.Start, s.End) }

// Forget makes l as it was at first.
func (l *Long) Forget() { l.n, l.at, l.valid = 0, 0, false }

// By has the walk go by what is known of the same text, if that is trusted: the
// strings in it are not validated again. What is known need not be all, but must be
// true.
func (w *walk) By(l *Long) {
	if l.valid {
		w.long = l
	}
}

// By has the walk go by what is known of the same text, as Members.By does.
func (c *Cursor) By(l *Long) {
	if l.valid {
		c.long = l
	}
}

func (l *Long) note(start, end int) {
	if l.n < mostLong {
		l.spans[l.n] = Span{start, end}
		l.n++
	}
}

// end is where the string of a valid text ends that begins at i; 0 if it does not.
// Walks go forward for the most part, so it looks on from where it was.
func (l *Long) end(b []byte, i int) int {
	for l.at < l.n && l.spans[l.at].Start < i {
		l.at++
	}
	for l.at > 0 && l.spans[l.at-1].Start >= i {
		l.at--
	}
	if l.at < l.n && l.spans[l.at].Start == i && l.spans[l.at].End <= len(b) {
		return l.spans[l.at].End
	}
	return closingQuote(b, i)
}

// closingQuote is where the string ends that begins at i: behind the first quote
// that no backslash escapes.
func closingQuote(b []byte, i int) int {
	for i++; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return 0
		}
		slashes := n
		for slashes > 0 && b[i+slashes-1] == '\\' {
			slashes--
		}
		i += n + 1
		if (n-slashes)%2 == 0 {
			return i
		}
	}
}
