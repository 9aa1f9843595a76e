// Package formdata finds the few fields of a multipart/form-data body (RFC
// 7578) that the gateway decides by, while the body streams past: nothing is
// kept but the value of those fields, and their place. It refuses what two
// parsers could read in two ways. The room edge uses it.
package formdata

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/textproto"
	"strings"
)

// Bounds on what a part's header and the value of a watched field may take.
const (
	maxHeader = 8 << 10
	maxValue  = 4 << 10
	maxParts  = 1000
)

// Field is a watched field: its value and where the value lies in the body.
type Field struct {
	Value      string
	Start, End int64
}

// Scanner is fed a body piece by piece. Make one with New.
type Scanner struct {
	delim  []byte // LF "--" boundary
	watch  []string
	fields map[string]Field

	pend  []byte // bytes not yet decided about
	at    int64  // the body's offset of pend[0]
	state state
	name  string // the watched field being read, "" in any other part
	value []byte
	start int64
	parts int
	err   error
}

type state uint8

const (
	inPart  state = iota // looking for the next delimiter
	inDelim              // behind a delimiter, before its line's end
	inHeader
	ended
)

// New makes a scanner for a body with the given boundary that watches the named
// fields.
func New(boundary string, watch ...string) *Scanner {
	// The first delimiter needs no line end before it, so one is put there.
	return &Scanner{delim: []byte("\n--" + boundary), watch: watch, fields: map[string]Field{}, pend: []byte("\r\n"), at: -2, start: -2}
}

// Field returns a watched field that has passed whole.
func (s *Scanner) Field(name string) (Field, bool) {
	f, ok := s.fields[name]
	return f, ok
}

// Feed takes the next bytes of the body. Once it has returned an error it
// returns it for ever.
func (s *Scanner) Feed(p []byte) error {
	if s.err != nil {
		return s.err
	}
	s.pend = append(s.pend, p...)
	for s.err == nil && s.step() {
	}
	return s.err
}

// End is called after the last byte; it reports a body that is not complete.
func (s *Scanner) End() error {
	if s.err == nil && s.state != ended {
		s.err = errors.New("the multipart body ends before its closing boundary")
	}
	return s.err
}

func (s *Scanner) drop(n int) {
	s.pend = append(s.pend[:0], s.pend[n:]...)
	s.at += int64(n)
}

// step makes what progress it can, and reports whether it made any.
func (s *Scanner) step() bool {
	switch s.state {
	case inPart:
		return s.part()
	case inDelim:
		return s.delimiter()
	case inHeader:
		return s.header()
	}
	s.drop(len(s.pend)) // the epilogue is of no interest
	return false
}

func (s *Scanner) part() bool {
	i := bytes.Index(s.pend, s.delim)
	if i < 0 {
		// Keep what may be the beginning of a delimiter, and the CR before it.
		if n := len(s.pend) - len(s.delim); n > 0 {
			s.capture(s.pend[:n])
			s.drop(n)
		}
		return false
	}
	cr := i > 0 && s.pend[i-1] == '\r' || i == 0 && len(s.value) > 0 && s.value[len(s.value)-1] == '\r'
	if !cr {
		s.err = errors.New("a multipart delimiter does not follow a CR LF")
		return false
	}
	s.capture(s.pend[:i])
	s.finish(s.at + int64(i) - 1)
	s.drop(i + len(s.delim))
	s.state = inDelim
	return s.err == nil
}

func (s *Scanner) capture(p []byte) {
	if s.name == "" || s.err != nil {
		// Of other parts only the last byte matters, for the CR.
		if len(p) > 0 {
			s.value = append(s.value[:0], p[len(p)-1])
		}
		return
	}
	if len(s.value)+len(p) > maxValue {
		s.err = fmt.Errorf("the form field %q is longer than %d bytes", s.name, maxValue)
		return
	}
	s.value = append(s.value, p...)
}

// finish ends the part whose content ends before the CR at offset end.
func (s *Scanner) finish(end int64) {
	switch {
	case s.err != nil:
	case end < s.start:
		s.err = errors.New("a form's part has no line end before its delimiter")
	case s.name != "":
		// Captured are the blank line's CR LF, the value, and the delimiter's CR.
		s.fields[s.name] = Field{Value: string(s.value[2 : len(s.value)-1]), Start: s.start, End: end}
	}
	s.name, s.value = "", s.value[:0]
}

// delimiter reads the rest of a delimiter's line: "--" closes the body, white
// space is allowed, anything else is not this boundary after all.
func (s *Scanner) delimiter() bool {
	if bytes.HasPrefix(s.pend, []byte("--")) {
		s.state = ended
		return true
	}
	i := bytes.IndexByte(s.pend, '\n')
	if i < 0 {
		if len(s.pend) > 256 {
			s.err = errors.New("a multipart delimiter is followed by other text on its line")
		}
		return false
	}
	if string(bytes.Trim(s.pend[:i], " \t")) != "\r" {
		s.err = errors.New("a multipart delimiter is followed by other text on its line")
		return false
	}
	if s.parts++; s.parts > maxParts {
		s.err = fmt.Errorf("the form has more than %d parts", maxParts)
		return false
	}
	s.drop(i + 1)
	s.state = inHeader
	return true
}

func (s *Scanner) header() bool {
	i := bytes.Index(s.pend, []byte("\r\n\r\n"))
	if i < 0 {
		if len(s.pend) > maxHeader {
			s.err = fmt.Errorf("the header of a form's part is longer than %d bytes", maxHeader)
		}
		return false
	}
	if s.err = s.readHeader(string(s.pend[:i])); s.err != nil {
		return false
	}
	// The CR LF of the blank line stays, so that a delimiter right behind it is
	// seen; finish then finds the part to end before it began.
	s.drop(i + 2)
	s.start = s.at + 2
	s.value = s.value[:0]
	s.state = inPart
	return true
}

func (s *Scanner) readHeader(text string) error {
	name, file, encoded := "", false, false
	for line := range strings.SplitSeq(text, "\r\n") {
		key, value, ok := strings.Cut(line, ":")
		if !ok || strings.ContainsAny(key, " \t\r\n") || strings.ContainsAny(value, "\r\n") {
			return errors.New("the header of a form's part is malformed")
		}
		switch textproto.CanonicalMIMEHeaderKey(key) {
		case "Content-Disposition":
			kind, params, err := mime.ParseMediaType(value)
			if err != nil || kind != "form-data" || name != "" {
				return errors.New("a form's part needs one Content-Disposition: form-data; name=…")
			}
			name = params["name"]
			_, file = params["filename"]
		case "Content-Transfer-Encoding":
			encoded = true
		}
	}
	return s.begin(name, file, encoded)
}

func (s *Scanner) begin(name string, file, encoded bool) error {
	for _, w := range s.watch {
		if name != w {
			continue
		}
		if _, twice := s.fields[w]; twice {
			return fmt.Errorf("the form field %q occurs twice; send it once", w)
		}
		if file || encoded {
			return fmt.Errorf("the form field %q must be plain text, not a file or encoded", w)
		}
		s.name = w
	}
	return nil
}
