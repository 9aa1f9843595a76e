// Package tokens says how many tokens a text or a whole request is, before the
// provider has said so.
//
// It knows three things. The encodings o200k_base and cl100k_base, exactly: a
// hand-written splitter for each of their patterns and byte-pair merging over a
// vocabulary that is embedded in the form in which it is read, so that a
// process that never counts pays nothing for it. An estimate for every other
// family of models, one pass over the bytes, with a Calibration that learns
// from what providers report. And the rules by which the vendors' APIs turn a
// request body into tokens: messages, tools, images.
//
// Rooms that must know a request's size before it is sent use it: quota, to
// reserve; route and admit, to know what fits. The package does no I/O, keeps
// no state and starts nothing; memory that is worth reusing is in a Scratch that
// belongs to the caller.
package tokens

import (
	_ "embed"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

//go:generate go test -run TestTables -count=1 -update .

//go:embed o200k.bin
var o200kBin string

//go:embed cl100k.bin
var cl100kBin string

// Encoding is a vocabulary with its splitter. It is immutable and safe for
// concurrent use.
type Encoding struct {
	name   string
	table  table
	letter bool // the cl100k pattern, which looks at letters without their case
}

var (
	o200k  = Encoding{name: "o200k_base", table: table{o200kBin, o200kLayout}}
	cl100k = Encoding{name: "cl100k_base", table: table{cl100kBin, cl100kLayout}, letter: true}
)

// O200k is o200k_base: GPT-4o and later.
func O200k() *Encoding { return &o200k }

// CL100k is cl100k_base: GPT-4, GPT-3.5 and the embedding models.
func CL100k() *Encoding { return &cl100k }

// Name is the encoding's published name, "o200k_base" or "cl100k_base".
func (e *Encoding) Name() string { return e.name }

// Scratch is memory that counting may need and that is worth keeping: for runs
// of letters longer than any word, and for strings with escapes. The zero value
// is ready; without one the functions take fresh memory when they need it,
// which ordinary text does not. A Scratch must not be used twice at a time.
type Scratch struct {
	// Parts has Prompt measure only parts of the texts that it estimates, where they
	// have more than some KiB.
	Parts bool

	nodes []node
	heap  []candidate
	text  []byte // an unescaped string
	label []byte // a line made for counting
	long  jsonspan.Long
}

// Know says that the body that Prompt will be called with next has been found to be
// valid JSON, and where long strings of it lie, in order; Prompt then need not look
// through them to know where they end.
func (s *Scratch) Know(long []llm.Span) {
	s.long.Trust()
	for _, l := range long {
		s.long.Know(jsonspan.Span(l))
	}
}

// keep is the most bytes per buffer that a Scratch holds on to, so that one
// hostile request does not cost its memory for ever.
const keep = 1 << 20

// trim gives back what is too large to keep, and forgets the body.
func (s *Scratch) trim() {
	s.long.Forget()
	if cap(s.nodes)*12 > keep || cap(s.heap)*8 > keep {
		s.nodes, s.heap = nil, nil
	}
	if cap(s.text) > keep {
		s.text = nil
	}
	if cap(s.label) > keep {
		s.label = nil
	}
}

// Count is how many tokens text is as ordinary text; the names of special
// tokens have no special meaning. A byte that is not UTF-8 counts as a symbol
// of its own.
//
// The time is O(n log n) whatever the text is, and in practice O(n). Memory is
// taken only for pieces longer than 64 bytes that are no token: some kilobytes.
func (e *Encoding) Count(text []byte) int {
	var s Scratch
	return e.count(text, &s)
}

func (e *Encoding) count(text []byte, s *Scratch) (n int) {
	for i := 0; i < len(text); {
		end := e.next(text, i)
		switch {
		case e.table.lookup(text, i, end) != none:
			n++
		case end-i <= shortPiece:
			n += e.mergeShort(text, i, end, nil)
		default:
			more, _ := e.mergeLong(text[i:end], leastWindow, s, nil, false)
			n += more
		}
		i = end
	}
	return n
}

// Append appends the ids of text's tokens to dst, by the rules of Count.
func (e *Encoding) Append(dst []int, text []byte) []int {
	var s Scratch
	for i := 0; i < len(text); {
		end := e.next(text, i)
		if id := e.table.lookup(text, i, end); id != none {
			dst = append(dst, int(id))
		} else {
			dst = e.appendMerged(dst, text, i, end, &s)
		}
		i = end
	}
	return dst
}

// appendMerged appends the ids of the piece text[i:j], which is no token.
func (e *Encoding) appendMerged(dst []int, text []byte, i, j int, s *Scratch) []int {
	if j-i <= shortPiece {
		var parts [shortPiece + 1]uint8
		for k := range e.mergeShort(text, i, j, &parts) {
			dst = append(dst, int(e.table.lookup(text, i+int(parts[k]), i+int(parts[k+1]))))
		}
		return dst
	}
	_, dst = e.mergeLong(text[i:j], leastWindow, s, dst, true)
	return dst
}

// next is where the piece that begins at i ends.
func (e *Encoding) next(text []byte, i int) int {
	if e.letter {
		return nextCL100k(text, i)
	}
	return nextO200k(text, i)
}
