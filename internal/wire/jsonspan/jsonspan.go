// Package jsonspan finds values in a JSON text and patches them, and leaves
// every other byte as it came.
//
// One forward scan validates the text (RFC 8259) and tells where each value
// lies; nothing is decoded that nobody asks for, so unknown fields, the order
// of keys, number formats and white space survive. The scan is strict where
// popular parsers are lax: raw control characters, unknown escapes, numbers
// such as 01 and NaN, trailing commas and text after the value are refused,
// because what one parser accepts and the next reads differently is a way
// around a policy.
//
// Three things are left to the caller. Duplicate keys are reported in order,
// each of them; whether they are an error is the caller's rule. Keys are
// compared as the caller compares them, and "model" is not "Model". And the
// scan does not look at the encoding: bytes above 0x7f inside strings pass, so
// call utf8.Valid first where the text must be UTF-8. Escapes of lone
// surrogates ("\ud800") are valid by the grammar and accepted.
//
// The package does no I/O and keeps no state. No input makes it panic, and
// nesting costs neither stack nor heap.
package jsonspan

// DefaultDepth is the nesting that a text may have when the caller names none:
// objects and arrays inside each other, the outermost counted.
const DefaultDepth = 128

// MaxDepth is the deepest nesting that can be asked for. A larger maxDepth
// means this one.
const MaxDepth = 1024

// Span is the half-open range of bytes [Start, End) in a text.
type Span struct{ Start, End int }

// Kind is the type of a JSON value. The zero Kind is that of no value, so that
// the zero Value can stand for a member that is not there.
type Kind uint8

// The kinds of values; true and false are both KindBool. (The prefix is there
// because Object and Array are the functions.)
const (
	KindString Kind = iota + 1
	KindNumber
	KindObject
	KindArray
	KindBool
	KindNull
)

// String names the kind for a sentence: "a string", "an object".
func (k Kind) String() string {
	switch k {
	case KindString:
		return "a string"
	case KindNumber:
		return "a number"
	case KindObject:
		return "an object"
	case KindArray:
		return "an array"
	case KindBool:
		return "true or false"
	case KindNull:
		return "null"
	}
	return "nothing"
}

// Value is where a value lies and what it is. The span of a string includes
// its quotes, that of an object or array its brackets.
type Value struct {
	Span
	Kind Kind
}

// Of returns the bytes of the span in raw, the text it was found in. They are
// raw's own; their capacity ends with the span, so that an append copies. Of a
// span that does not lie in raw it returns nil.
func (s Span) Of(raw []byte) []byte {
	if !s.within(raw) {
		return nil
	}
	return raw[s.Start:s.End:s.End]
}

// Of returns the bytes of the value, as Span.Of does.
func (v Value) Of(raw []byte) []byte { return v.Span.Of(raw) }

func (s Span) within(raw []byte) bool {
	return 0 <= s.Start && s.Start <= s.End && s.End <= len(raw)
}
