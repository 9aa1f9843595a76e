package jsonspan

// Members iterates the members of an object in the order of the text:
//
//	for m := jsonspan.Object(raw, 0); m.Next(); {
//		if string(m.Key()) == "model" {
//			model = m.Value()
//		}
//	}
//
// and must then be asked for Err. What it yields before a false Next is found
// but not yet known to be in a valid text: act on it only when Err is nil.
//
// A Members is a plain value that needs no heap. Key may point into it, so it
// should not be copied while a key is in use.
type Members struct {
	walk
	name    Span
	escaped bool
	scratch [64]byte
}

// Elems iterates the elements of an array, by the rules of Members.
type Elems struct{ walk }

// Object iterates the members of a text that must be exactly one object, with
// white space before and after allowed. It validates the whole text on its way,
// nested values included. Objects and arrays may be nested maxDepth deep, the
// outermost counted; 0 or less means DefaultDepth, and MaxDepth is the most.
func Object(raw []byte, maxDepth int) Members {
	return Members{walk: walk{raw: raw, depth: depthOf(maxDepth) - 1}}
}

// Array iterates the elements of a text that must be exactly one array, by the
// rules of Object.
func Array(raw []byte, maxDepth int) Elems {
	return Elems{walk{raw: raw, depth: depthOf(maxDepth) - 1}}
}

// In iterates the members of v, an object in raw. It validates v again, which
// costs less than carrying what was learnt the first time, against MaxDepth.
// Offsets are those in raw. If v is no object, Next is false and Err says so.
func In(raw []byte, v Value) Members {
	return Members{walk: within(raw, v, KindObject, wantObject)}
}

// Elements iterates the elements of v, an array in raw, by the rules of In.
func Elements(raw []byte, v Value) Elems {
	return Elems{within(raw, v, KindArray, wantArray)}
}

// Valid returns nil if raw is exactly one JSON value of any kind, with white
// space before and after allowed, or else a *SyntaxError. maxDepth is that of
// Object.
func Valid(raw []byte, maxDepth int) error {
	i, _, _, p := scanValue(raw, space(raw, 0), depthOf(maxDepth), nil)
	if p == fine {
		if i = space(raw, i); i == len(raw) {
			return nil
		}
		p = wantNothing
	}
	return newSyntaxError(raw, i, p)
}

// Next moves to the next member; false means there is none, or the text is not
// valid.
func (m *Members) Next() bool {
	m.name, m.escaped, m.value = Span{}, false, Value{}
	if !m.step('{', '}', wantObject, wantCommaObject) {
		return false
	}
	name, escaped, i, p := scanName(m.raw, m.pos)
	if p != fine {
		return m.fail(i, p)
	}
	m.name, m.escaped, m.pos = name, escaped, i
	return m.take()
}

// Key is the current member's name, decoded. It is part of raw, or of m if the
// name has escapes, and valid until the next Next. Only a name with escapes
// that decodes to more than 64 bytes allocates.
func (m *Members) Key() []byte {
	if !m.escaped {
		return Span{m.name.Start + 1, m.name.End - 1}.Of(m.raw)
	}
	key, _ := Unquote(m.scratch[:0], m.raw, m.KeyValue())
	return key
}

// KeyEscaped is whether the current member's name is written with escapes.
func (m *Members) KeyEscaped() bool { return m.escaped }

// KeyValue is where the current member's name lies, as a string in its quotes.
func (m *Members) KeyValue() Value { return Value{m.name, KindString} }

// Next moves to the next element; false means there is none, or the text is not
// valid.
func (e *Elems) Next() bool {
	e.value = Value{}
	return e.step('[', ']', wantArray, wantCommaArray) && e.take()
}

// walk is what Members and Elems have in common.
type walk struct {
	raw   []byte
	pos   int   // where to go on
	depth int   // how deep a value inside may be nested
	stage stage // of the walk
	span  Span
	value Value
	count int // of the value
	long  *Long
	err   *SyntaxError
}

type stage uint8

const (
	atStart stage = iota
	between       // after a value
	over
)

func depthOf(maxDepth int) int {
	if maxDepth <= 0 {
		return DefaultDepth
	}
	return min(maxDepth, MaxDepth)
}

func within(raw []byte, v Value, k Kind, wrong problem) walk {
	if v.Kind != k || !v.within(raw) {
		return walk{stage: over, err: newSyntaxError(raw, v.Start, wrong)}
	}
	// The text ends with the value, so that the walk can not leave it.
	return walk{raw: raw[:v.End], pos: v.Start, depth: MaxDepth - 1}
}

// Value is the current member's or element's value.
func (w *walk) Value() Value { return w.value }

// Count is how many members or elements the current value has: none if it is a
// scalar.
func (w *walk) Count() int { return w.count }

// Span is where the object or array itself lies, brackets included; it is zero
// until Next has returned false with a nil Err. The places to insert at are
// Start+1 and End-1.
func (w *walk) Span() Span { return w.span }

// Err is nil, or the *SyntaxError that made Next return false.
func (w *walk) Err() error {
	if w.err == nil {
		return nil // not a nil pointer in an interface
	}
	return w.err
}

// step moves over the bracket or the comma to the next member or element.
func (w *walk) step(open, shut byte, wantOpen, wantComma problem) bool {
	if w.stage == over {
		return false
	}
	i := space(w.raw, w.pos)
	if w.stage == atStart {
		if i >= len(w.raw) || w.raw[i] != open {
			return w.fail(i, wantOpen)
		}
		w.stage, w.pos = between, i
		if i = space(w.raw, i+1); i >= len(w.raw) || w.raw[i] != shut {
			w.span.Start, w.pos = w.pos, i
			return true
		}
		return w.finish(w.pos, i+1)
	}
	switch {
	case i >= len(w.raw):
	case w.raw[i] == ',':
		w.pos = space(w.raw, i+1)
		return true
	case w.raw[i] == shut:
		return w.finish(w.span.Start, i+1)
	}
	return w.fail(i, wantComma)
}

// take reads the value at hand.
func (w *walk) take() bool {
	end, kind, count, p := scanValue(w.raw, w.pos, w.depth, w.long)
	if p != fine {
		return w.fail(end, p)
	}
	w.value, w.count = Value{Span{w.pos, end}, kind}, count
	w.pos = end
	return true
}

func (w *walk) finish(start, end int) bool {
	if i := space(w.raw, end); i < len(w.raw) {
		return w.fail(i, wantNothing)
	}
	w.span, w.stage = Span{start, end}, over
	return false
}

func (w *walk) fail(at int, p problem) bool {
	w.err, w.stage, w.span = newSyntaxError(w.raw, at, p), over, Span{}
	return false
}
