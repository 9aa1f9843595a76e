package h1

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
)

const (
	// maxFields bounds the fields of a head: a map costs more than its bytes.
	maxFields = 1000
	// maxInformational bounds the 1xx responses before the real one.
	maxInformational = 32
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("h1: %w: "+format, append([]any{ErrMalformed}, args...)...)
}

// scanner looks for the end of a head as it comes in.
type scanner struct {
	line int // where the line being looked at begins
	seen int // how far it was looked at
}

// end gives the length of the head in b with its empty line, or 0 if it isn't
// complete. Every line must end in CRLF: a lone LF, which RFC 9112, section
// 2.2, lets a recipient take, is refused.
func (s *scanner) end(b []byte) (int, error) {
	if n := min(len(b), len(protocol)); string(b[:n]) != protocol[:n] {
		return 0, malformed("it begins with %q", clip(b))
	}
	for {
		i := bytes.IndexByte(b[s.seen:], '\n')
		if i < 0 {
			s.seen = len(b)
			return 0, nil
		}
		i += s.seen
		if i == s.line || b[i-1] != '\r' {
			return 0, malformed("a line of its head does not end in CRLF")
		}
		empty := i == s.line+1
		s.line, s.seen = i+1, i+1
		if empty {
			return i + 1, nil
		}
	}
}

const protocol = "HTTP/1."

// clip shortens what a server sent for a message.
func clip[T string | []byte](b T) T {
	if len(b) > 32 {
		return b[:32]
	}
	return b
}

// parseHead reads a complete head into a response. It keeps nothing of b.
func parseHead(b []byte, resp *http.Response) error {
	s := string(b) // all that is kept, in one piece
	line, rest := cutLine(s)
	if err := parseStatus(line, resp); err != nil {
		return err
	}
	h, err := parseFields(rest)
	resp.Header = h
	return err
}

// cutLine cuts at the first CRLF. The scanner has seen that each LF has its CR.
func cutLine(s string) (line, rest string) {
	if i := strings.IndexByte(s, '\n'); i > 0 {
		return s[:i-1], s[i+1:]
	}
	return s, ""
}

// parseStatus reads a status line (RFC 9112, section 4). The blank after the
// code may be missing if there is no reason: servers forget it.
func parseStatus(s string, resp *http.Response) error {
	if len(s) < len("HTTP/1.1 200") || s[:len(protocol)] != protocol || s[8] != ' ' {
		return malformed("status line %q", clip(s))
	}
	minor, code := s[7], s[9:12]
	if minor < '0' || minor > '9' || code[0] < '1' || code[0] > '9' || !digits(code) {
		return malformed("status line %q", clip(s))
	}
	if len(s) > 12 && s[12] != ' ' || !validValue(s) {
		return malformed("status line %q", clip(s))
	}
	resp.Proto, resp.ProtoMajor, resp.ProtoMinor = s[:8], 1, int(minor-'0')
	resp.Status = s[9:]
	resp.StatusCode = int(code[0]-'0')*100 + int(code[1]-'0')*10 + int(code[2]-'0')
	return nil
}

func digits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// parseFields reads field lines up to the empty one (RFC 9112, section 5).
// Names must be tokens followed by the colon; values hold no control character;
// folded lines, which only old servers sent, are refused (section 5.2).
func parseFields(s string) (http.Header, error) {
	n := countLines(s)
	if n > maxFields {
		return nil, malformed("it has more than %d fields", maxFields)
	}
	h := make(http.Header, n)
	values := make([]string, n) // one piece for all names that come once
	for s != "" {
		var line string
		if line, s = cutLine(s); line == "" {
			break
		}
		name, value, err := parseField(line)
		if err != nil {
			return nil, err
		}
		if old := h[name]; old != nil {
			h[name] = append(old, value)
			continue
		}
		values[0] = value
		h[name], values = values[:1:1], values[1:]
	}
	return h, nil
}

func parseField(line string) (name, value string, err error) {
	i := strings.IndexByte(line, ':')
	if i < 0 {
		return "", "", malformed("field line without a colon")
	}
	name, ok := canonical(line[:i])
	if !ok {
		return "", "", malformed("field name %q", clip(line[:i]))
	}
	if value = trimSpace(line[i+1:]); !validValue(value) {
		return "", "", malformed("the value of %q holds a control character", clip(name))
	}
	return name, value, nil
}

// countLines counts the field lines.
func countLines(s string) int {
	return max(strings.Count(s, "\n")-1, 0)
}

// readHead reads the response's head, past informational responses (RFC 9110,
// section 15.2). 101 is refused: nothing asks for it.
func (x *exchange) readHead(c *conn) error {
	budget := x.t.cfg.MaxHead
	for range maxInformational + 1 {
		n, err := x.oneHead(c, budget)
		if err != nil {
			return err
		}
		budget -= n
		switch code := x.resp.StatusCode; {
		case code == http.StatusSwitchingProtocols:
			return malformed("101 Switching Protocols without being asked")
		case code >= 200:
			return nil
		}
		if err := x.skipBodyless(); err != nil {
			return err
		}
	}
	return malformed("more than %d informational responses", maxInformational)
}

// skipBodyless checks the head of an informational response, which has no body
// (RFC 9112, section 6.3): a length or coding that cannot be read says that its
// server and we do not mean the same by what follows.
func (x *exchange) skipBodyless() error {
	if _, err := x.transferCoding(); err != nil {
		return err
	}
	x.resp.TransferEncoding = nil
	_, err := contentLength(x.resp.Header)
	return err
}

// oneHead reads one head of at most budget bytes and gives its length.
func (x *exchange) oneHead(c *conn, budget int) (int, error) {
	var s scanner
	for {
		if b := x.in.bytes(); len(b) > 0 {
			n, err := s.end(b)
			if err != nil {
				return 0, err
			}
			if n > budget || n == 0 && len(b) >= budget {
				return 0, malformed("its head exceeds %d bytes", x.t.cfg.MaxHead)
			}
			if n > 0 {
				err = parseHead(b[:n], &x.resp)
				x.in.use(n)
				return n, err
			}
		}
		if err := x.in.fill(c); err != nil {
			return 0, x.headError(err)
		}
		x.answered = true
	}
}

// headError names an end of the connection before the end of the head.
func (x *exchange) headError(err error) error {
	if err == io.EOF {
		if x.answered {
			return fmt.Errorf("h1: connection closed within the response's head: %w", io.ErrUnexpectedEOF)
		}
		return fmt.Errorf("h1: connection closed before a response: %w", io.EOF)
	}
	return fmt.Errorf("h1: reading the response's head: %w", err)
}
