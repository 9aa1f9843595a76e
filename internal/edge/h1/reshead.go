//go:build linux

package h1

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// begin takes the status and the header. What depends on the body (framing,
// its type) is added by seal, when the first byte goes out.
func (w *response) begin(status int) {
	w.openHead(status)
	w.endHead()
}

func (w *response) openHead(status int) {
	w.status = status
	w.typed = !bodyAllowed(status)
	w.closing = w.closing || status == http.StatusSwitchingProtocols // to what this loop cannot speak
	b := append(w.out.open(), "HTTP/1.1 "...)
	b = append(appendStatus(b, status), "\r\n"...)
	for k, vv := range w.header {
		if w.ordinary(k, vv) {
			b = appendField(b, k, vv...)
		}
	}
	w.head = b
}

// endHead ends a head to which fields may have been added.
func (w *response) endHead() {
	if w.head != nil {
		w.out.head(w.head)
		w.head = nil
	}
}

// BeginHead begins an answer with a status. Fields can then be added to those of
// Header with Put, PutBytes and PutLines, which write them out without a map;
// EndHead ends that. Like Header, all of these belong to the handler's goroutine. It does nothing
// where WriteHeader would not.
func (w *response) BeginHead(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.done && w.status == 0 {
		w.openHead(status)
	}
}

// Put adds a field. The name is in canonical form.
func (w *response) Put(name, value string) {
	if w.head == nil {
		return
	}
	if one := [1]string{value}; w.ordinary(name, one[:]) {
		w.head = appendField(w.head, name, value)
	}
}

// PutBytes adds a field, as Put does.
func (w *response) PutBytes(name string, value []byte) {
	switch {
	case w.head == nil:
	case framing(name):
		w.Put(name, string(value))
	default:
		at := len(w.head)
		w.head = append(append(w.head, name...), ": "...)
		w.head = append(append(w.head, value...), "\r\n"...)
		blank(w.head[at : len(w.head)-2])
	}
}

// framing is whether ordinary has to look at a field.
func framing(name string) bool {
	switch name {
	case "Content-Length", "Transfer-Encoding", "Connection", "Date", "Content-Type", "Content-Encoding", "Trailer":
		return true
	}
	return strings.HasPrefix(name, http.TrailerPrefix)
}

// PutLines adds n fields that say nothing of the body or the connection, as lines
// with their ends. Where there are other line ends than those, none is added.
func (w *response) PutLines(lines []byte, n int) {
	switch {
	case w.head == nil:
	case bytes.Count(lines, []byte{'\r'}) != n || bytes.Count(lines, []byte{'\n'}) != n:
		w.c.s.logf("h1: the handler set header fields that are not one line each")
	default:
		w.head = append(w.head, lines...)
	}
}

// EndHead ends the head; nothing is sent before the first Write or Flush.
func (w *response) EndHead() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endHead()
}

// ordinary is whether a field passes as it is. The others say something about
// the framing, the connection or the end.
func (w *response) ordinary(k string, vv []string) bool {
	if !framing(k) {
		return true
	}
	first := ""
	if len(vv) > 0 {
		first = vv[0]
	}
	switch k {
	case "Content-Length":
		w.setLength(first)
		return false
	case "Transfer-Encoding":
		w.identity = first == "identity"
		return false
	case "Connection":
		return w.connection(vv)
	case "Date":
		w.dated = true
	case "Content-Type":
		if w.status == http.StatusNotModified {
			return false
		}
		w.typed = true
	case "Content-Encoding":
		w.typed = w.typed || first != ""
	case "Trailer":
		w.declare(vv)
	}
	return !strings.HasPrefix(k, http.TrailerPrefix)
}

// connection takes the handler's wish to close. What is said of the connection
// is this package's; other options pass.
func (w *response) connection(vv []string) (pass bool) {
	for _, v := range vv {
		for option := range strings.SplitSeq(v, ",") {
			switch option = trim(option); {
			case strings.EqualFold(option, "close"):
				w.closing = true
			case option != "" && !strings.EqualFold(option, "keep-alive"):
				pass = true
			}
		}
	}
	return pass && !w.closing
}

// setLength takes the handler's Content-Length. One that is no number is
// dropped, as by net/http.
func (w *response) setLength(s string) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil && n >= 0 {
		w.length = n
	} else if s != "" {
		w.c.s.logf("h1: the handler set an invalid Content-Length")
	}
}

// declare notes trailers that are named before the body (RFC 9110, 6.6.2).
func (w *response) declare(vv []string) {
	for _, v := range vv {
		for name := range strings.SplitSeq(v, ",") {
			if name = textproto.CanonicalMIMEHeaderKey(trim(name)); forTrailer(name) {
				w.trailers = append(w.trailers, name)
			}
		}
	}
}

// forTrailer is whether a field may come after the body: it must not matter to
// framing, routing or how the body is read (RFC 9110, 6.5.1).
func forTrailer(name string) bool {
	switch name {
	case "", "Transfer-Encoding", "Content-Length", "Trailer", "Connection", "Host", "Te", "Content-Type",
		"Content-Encoding", "Content-Range", "Set-Cookie", "Authorization", "Www-Authenticate", "Date",
		"Cache-Control", "Expires", "Location", "Retry-After", "Vary", "Age", "Warning":
		return false
	}
	return !strings.HasPrefix(name, http.TrailerPrefix)
}

// framing is the part of the head that depends on the body: size is what is
// ready of it, of which the first bytes are sample.
func (w *response) framing(b []byte, size int, sample []byte, final bool) []byte {
	allowed := bodyAllowed(w.status)
	switch {
	case !allowed:
		w.length = -1
	case w.length >= 0:
		b = appendLength(b, w.length)
	case w.identity:
		w.closing = true
	case final && !w.hasTrailers():
		w.length = w.written
		b = appendLength(b, int64(size))
	default:
		w.chunked = true
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	if !w.typed && size > 0 {
		b = append(append(append(b, "Content-Type: "...), http.DetectContentType(sample)...), "\r\n"...)
	}
	if w.closing = w.closing || w.c.s.draining.Load(); w.closing {
		b = append(b, "Connection: close\r\n"...)
	}
	if !w.dated {
		b = append(b, dateLine()...)
	}
	return append(b, "\r\n"...)
}

func appendLength(b []byte, n int64) []byte {
	b = strconv.AppendInt(append(b, "Content-Length: "...), n, 10)
	return append(b, "\r\n"...)
}

// hasTrailers is whether something is to follow the body. Names that were only
// declared count: the client has been told.
func (w *response) hasTrailers() bool {
	if len(w.trailers) > 0 {
		return true
	}
	for k := range w.header {
		if strings.HasPrefix(k, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

// appendTrailers is the trailer section (RFC 9112, 7.1.2), without its empty line.
func (w *response) appendTrailers(b []byte) []byte {
	for _, k := range w.trailers {
		b = appendField(b, k, w.header[k]...)
	}
	for k, vv := range w.header {
		if name, ok := strings.CutPrefix(k, http.TrailerPrefix); ok && forTrailer(textproto.CanonicalMIMEHeaderKey(name)) {
			b = appendField(b, name, vv...)
		}
	}
	return b
}

// appendField is one field line a value. A name that is no token is dropped,
// and a control character that could end the line becomes a space (RFC 9110,
// 5.5): a header must not be able to become two.
func appendField(b []byte, name string, values ...string) []byte {
	if !isToken(name) {
		return b
	}
	for _, v := range values {
		b = append(append(b, name...), ": "...)
		at := len(b)
		b = append(b, trimAll(v)...)
		blank(b[at:])
		b = append(b, "\r\n"...)
	}
	return b
}

// blank takes out of a field what could end it.
func blank(b []byte) {
	for ; len(b) >= 8; b = b[8:] { // nearly every field has nothing of the kind
		if x := binary.LittleEndian.Uint64(b); (x-low)&^x&high != 0 {
			blankEach(b[:8])
		}
	}
	blankEach(b)
}

// Taking 14 from each of eight bytes sets the highest bit of those below 14, and
// now and then that of a byte above such a one, which is looked at for nothing.
const (
	low  = 0x0e0e0e0e0e0e0e0e
	high = 0x8080808080808080
)

func blankEach(b []byte) {
	for i, c := range b {
		if c == '\r' || c == '\n' || c == 0 {
			b[i] = ' '
		}
	}
}

// trimAll trims as net/http trims what it sends, line ends included.
func trimAll(s string) string {
	if s == "" || s[0] > ' ' && s[len(s)-1] > ' ' {
		return s
	}
	return textproto.TrimString(s)
}

func isToken(s string) bool {
	for i := range len(s) {
		if !token[s[i]] {
			return false
		}
	}
	return s != ""
}

// date is the Date line of one second.
type date struct {
	second int64
	line   []byte
}

var lastDate atomic.Pointer[date]

// dateLine is made once a second (RFC 9110, 6.6.1).
func dateLine() []byte {
	now := time.Now()
	if d := lastDate.Load(); d != nil && d.second == now.Unix() {
		return d.line
	}
	d := &date{now.Unix(), now.UTC().AppendFormat([]byte("Date: "), http.TimeFormat+"\r\n")}
	lastDate.Store(d)
	return d.line
}
