package jsonspan

import "slices"

// Long is where the long strings of a text lie. The first walk over a text notes
// them; later walks over the same text, which begin anew at every object and
// array that is looked into, need not look for their ends again. Prompts are
// mostly a few long strings, so that only the first walk costs what the text is
// long. The zero value is ready to note.
type Long struct {
	spans [mostLong]Span // in the order of the text
	n     int
	known bool
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

// Know adds a string that another walk over the same text has noted. They come
// in order; those for which there is no room are left out.
func (l *Long) Know(s Span) {
	l.note(s.Start, s.End)
	l.known = l.n > 0
}

// Forget makes l as it was at first.
func (l *Long) Forget() { l.n, l.known = 0, false }

// By has the walk go by what is known of the same text. It need not be all, but
// must be true: what is skipped is not validated again.
func (w *walk) By(l *Long) {
	if l.known {
		w.long = l
	}
}

func (l *Long) note(start, end int) {
	if l.n < mostLong {
		l.spans[l.n] = Span{start, end}
		l.n++
	}
}

// end is where the string ends that begins at i; 0 if that is not known.
func (l *Long) end(b []byte, i int) int {
	at, ok := slices.BinarySearchFunc(l.spans[:l.n], i, func(s Span, i int) int { return s.Start - i })
	if !ok || l.spans[at].End > len(b) {
		return 0
	}
	return l.spans[at].End
}
