package jsonspan

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// SyntaxError says where a text stops being JSON and why. It repeats at most
// one character of the text, quoted in ASCII, so that it can be shown and
// logged whatever the text was.
type SyntaxError struct {
	Offset int    // of the offending byte, from 0; the length of the text if it ends too early
	Line   int    // of that byte, from 1; lines end with LF
	Column int    // of that byte in its line, from 1, counted in bytes
	Msg    string // what is wrong, such as "expected a value, found ']'"
}

// Error is one sentence with the position in it.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at line %d, column %d (byte %d): %s", e.Line, e.Column, e.Offset, e.Msg)
}

// problem is what a scan found wrong. The scan returns it as a number, beside
// the offset, and makes an error of it only at the outside.
type problem uint8

const (
	fine problem = iota
	openString
	controlChar
	badEscape
	badHex
	badNumber
	badLiteral
	wantValue
	wantKey
	wantColon
	wantCommaObject
	wantCommaArray
	wantNothing
	tooDeep
	wantObject
	wantArray
)

var problemText = [...]string{
	fine:            "nothing is wrong",
	openString:      "expected the closing quote of a string",
	controlChar:     "a control character in a string must be escaped",
	badEscape:       `expected one of "\/bfnrtu after a backslash`,
	badHex:          `expected four hexadecimal digits after \u`,
	badNumber:       "expected a digit",
	badLiteral:      "expected true, false or null",
	wantValue:       "expected a value",
	wantKey:         "expected a member name in quotes",
	wantColon:       "expected ':' after the member name",
	wantCommaObject: "expected ',' or '}' after the member",
	wantCommaArray:  "expected ',' or ']' after the element",
	wantNothing:     "expected nothing after the value",
	tooDeep:         "nested too deeply",
	wantObject:      "expected an object",
	wantArray:       "expected an array",
}

func newSyntaxError(raw []byte, at int, p problem) *SyntaxError {
	at = min(max(at, 0), len(raw))
	before := raw[:at]
	msg := problemText[p]
	if p != tooDeep {
		msg += ", found " + found(raw[at:])
	}
	return &SyntaxError{
		Offset: at,
		Line:   1 + bytes.Count(before, []byte{'\n'}),
		Column: at - bytes.LastIndexByte(before, '\n'),
		Msg:    msg,
	}
}

// found names the first character of the rest of the text.
func found(rest []byte) string {
	if len(rest) == 0 {
		return "the end of the text"
	}
	r, size := utf8.DecodeRune(rest)
	if r == utf8.RuneError && size == 1 {
		return fmt.Sprintf("the byte 0x%02x", rest[0])
	}
	return strconv.QuoteRuneToASCII(r)
}
