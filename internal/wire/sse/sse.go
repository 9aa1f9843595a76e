// Package sse frames server-sent events: it finds them in a stream of bytes and
// writes them (WHATWG HTML, section 9.2.5 "Parsing an event stream" and 9.2.6
// "Interpreting an event stream").
//
// The reader is for a relay. It finds whole blocks, that is everything up to and
// including a blank line, in the buffer that the relay reads into, and tells
// their size, so that the relay can pass on the bytes as they came and look at
// the event beside them. It copies nothing but the data of events that have
// several data lines. Every line end of the standard works, mixed as it may be:
// LF, CRLF and a lone CR.
//
// What differs from a browser: the bytes are not decoded as UTF-8; an id belongs
// to its block and is not carried on to later ones; a block without data is
// still reported, as a block; and the end of the stream may, by Tail, stand for
// the last blank line.
//
// The package does no I/O. No input makes it panic.
package sse

// Event is one block of the stream: the lines up to and including a blank one.
//
// Name, Data, ID and Retry point into the buffer that was scanned, except that
// Data which comes from several lines points into the Scanner. They are valid
// until the next call and until the buffer changes.
type Event struct {
	Name []byte // the last "event" field; empty means the default, "message"
	Data []byte // the "data" fields, joined by LF
	ID   []byte // the last "id" field without a NUL in it; nil if there is none, empty if it is empty
	// Retry is the last "retry" field that consists of digits, at least one: the
	// time to wait before reconnecting, in milliseconds. It may have any number
	// of digits. nil if there is none.
	Retry []byte
	// HasData is whether there is a data field, even an empty one. Only such a
	// block is an event that a client hears of; the others are comments, fields
	// of the connection and stray blank lines.
	HasData bool
	// Size is how many bytes of the buffer the block takes, its blank line
	// included. A lone blank line takes one or two, and one more if the LF of a
	// CRLF begins the buffer whose CR ended the block before.
	Size int
}
