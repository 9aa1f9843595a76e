package jsonspan

// Cursor goes through a text once, from its beginning to its end:
//
//	c := jsonspan.Walk(raw, 0)
//	if c.Open(jsonspan.KindObject) {
//		for c.Member() {
//			if string(c.Key()) == "messages" && c.Open(jsonspan.KindArray) {
//				for c.Element() {
//					messages = append(messages, c.Value())
//				}
//			}
//		}
//	}
//
// and must then be asked for End. Members and Elems read a value to know where it
// ends before they yield it, and whoever looks into it reads it again, so that
// what lies deep is read as often as it is deep. A Cursor stands before the value
// at hand instead, which is opened, or read, or else passed over by the next step:
// every byte is read once. By the same token what it yields is not known to be in
// a valid text until End returns nil.
//
// What has been opened is to be stepped through until there is no more. A Cursor is
// a plain value that needs no heap; a copy of it is a place to go back to. Key may
// point into it, so it should not be copied while a key is in use.
type Cursor struct {
	raw     []byte
	pos     int  // of the value at hand, or behind the one before
	depth   int  // how deep the value at hand may be nested
	unread  bool // the value at hand has neither been opened nor read
	opened  bool // nothing has been read of what was opened last
	name    Span
	escaped bool // the name
	long    *Long
	err     *SyntaxError
	scratch [64]byte
}

// Walk begins a walk over a text, by the rules of Object; the text's one value is
// at hand, whatever its kind.
func Walk(raw []byte, maxDepth int) Cursor {
	return Cursor{raw: raw, pos: space(raw, 0), depth: depthOf(maxDepth), unread: true}
}

// Kind is what the value at hand is by its first byte; 0 where no value begins.
func (c *Cursor) Kind() Kind {
	if !c.unread || c.pos >= len(c.raw) {
		return 0
	}
	switch b := c.raw[c.pos]; {
	case b == '"':
		return KindString
	case b == '{':
		return KindObject
	case b == '[':
		return KindArray
	case b == '-' || b-'0' <= 9:
		return KindNumber
	case b == 't' || b == 'f':
		return KindBool
	case b == 'n':
		return KindNull
	}
	return 0
}

// Value reads the value at hand as a whole.
func (c *Cursor) Value() Value {
	if !c.unread {
		return Value{}
	}
	c.unread = false
	end, kind, _, p := scanValue(c.raw, c.pos, c.depth, c.long)
	if p != fine {
		c.fail(end, p)
		return Value{}
	}
	v := Value{Span{c.pos, end}, kind}
	c.pos = end
	return v
}

// Open enters the value at hand, if it is an object or an array as wanted: the
// steps to come are through its members or elements, and when there are no more
// the walk goes on behind it. Any other value stays at hand.
func (c *Cursor) Open(want Kind) bool {
	if want != KindObject && want != KindArray || c.Kind() != want {
		return false
	}
	if c.depth == 0 {
		c.fail(c.pos, tooDeep)
		return false
	}
	c.pos, c.depth = space(c.raw, c.pos+1), c.depth-1
	c.unread, c.opened = false, true
	return true
}

// Member steps to the next member of the object that was opened; false means that
// there is none, or that the text is not valid.
func (c *Cursor) Member() bool {
	if !c.step('}', wantCommaObject) {
		return false
	}
	name, escaped, i, p := scanName(c.raw, c.pos)
	if p != fine {
		c.fail(i, p)
		return false
	}
	c.name, c.escaped, c.pos, c.unread = name, escaped, i, true
	return true
}

// Element steps to the next element of the array that was opened, by the rules of
// Member.
func (c *Cursor) Element() bool {
	c.unread = c.step(']', wantCommaArray)
	return c.unread
}

// Key is the name of the member at hand, by the rules of Members.Key.
func (c *Cursor) Key() []byte {
	if !c.escaped {
		return Span{c.name.Start + 1, c.name.End - 1}.Of(c.raw)
	}
	key, _ := Unquote(c.scratch[:0], c.raw, Value{c.name, KindString})
	return key
}

// End reads what is left, and returns nil if the text is exactly one value, or else
// the *SyntaxError that ended the walk.
func (c *Cursor) End() error {
	c.Value()
	if c.err == nil {
		if i := space(c.raw, c.pos); i < len(c.raw) {
			c.fail(i, wantNothing)
		}
	}
	if c.err == nil {
		return nil // not a nil pointer in an interface
	}
	return c.err
}

// step moves to where the next member or element begins, or over the bracket that
// ends them.
func (c *Cursor) step(shut byte, wantComma problem) bool {
	if c.unread {
		c.Value() // which nobody wanted
	}
	if c.err != nil {
		return false
	}
	first := c.opened
	c.opened = false
	i := space(c.raw, c.pos)
	switch {
	case i < len(c.raw) && c.raw[i] == shut:
		c.pos, c.depth = i+1, c.depth+1
		return false
	case first:
		c.pos = i
	case i < len(c.raw) && c.raw[i] == ',':
		c.pos = space(c.raw, i+1)
	default:
		c.fail(i, wantComma)
		return false
	}
	return true
}

func (c *Cursor) fail(at int, p problem) {
	c.err, c.unread = newSyntaxError(c.raw, at, p), false
}
