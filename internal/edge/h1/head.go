package h1

import (
	"net/http"
	"strconv"
	"strings"
)

// kind is what is to become of a request.
type kind uint8

const (
	fast   kind = iota // the own loop serves it
	toStd              // net/http does
	refuse             // nobody does
	over               // the connection has ended
)

// verdict is what was found of a head.
type verdict struct {
	kind   kind
	reason Reason // toStd
	status int    // refuse
	why    string // refuse
}

func handed(r Reason) verdict { return verdict{kind: toStd, reason: r} }

func bad(why string) verdict { return verdict{kind: refuse, status: 400, why: why} }

// head is the head of a request that the own loop serves.
type head struct {
	path   string
	host   string
	length int64
	header http.Header
	close  bool
}

// maxFields is how many fields a head may have here; net/http has the same
// bound by default, and answers what is beyond it.
const maxFields = 500

// parse judges a whole head, from the request line to the empty line. Its
// lines are known to end in CR LF. Offences against the framing come before
// everything else, so that nothing doubtful is handed over; what it gives
// points into text.
func parse(text string, lines int, known func(string) bool) (head, verdict) {
	var f fields
	line, rest := cutLine(text)
	if control(line) {
		return f.head, bad("control character in the request line")
	}
	v := requestLine(line, &f.head, known)
	f.values = make([]string, 0, min(lines, maxFields))
	f.header = make(http.Header, min(lines, 32))
	for rest != "\r\n" {
		line, rest = cutLine(rest)
		if why := f.line(line); why != "" {
			return f.head, bad(why)
		}
	}
	old := strings.HasSuffix(text[:strings.IndexByte(text, '\r')], " HTTP/1.0")
	if r := f.offence(old); r.kind != fast {
		return f.head, r
	}
	if v.kind == fast {
		v = f.unusual()
	}
	if v.kind == fast {
		f.settle()
	}
	return f.head, v
}

// cutLine cuts off the first line, without its CR LF.
func cutLine(s string) (line, rest string) {
	i := strings.IndexByte(s, '\n')
	return s[:i-1], s[i+1:]
}

// requestLine reads the method, the target and the version (RFC 9112, 3). Only
// what is exactly as expected is fast.
func requestLine(line string, h *head, known func(string) bool) verdict {
	first, last := strings.IndexByte(line, ' '), strings.LastIndexByte(line, ' ')
	if first <= 0 || first == last {
		return handed(Malformed)
	}
	method, target, version := line[:first], line[first+1:last], line[last+1:]
	switch {
	case version != "HTTP/1.1":
		return handed(Version)
	case method != "POST":
		return handed(Method)
	case !plainPath(target) || !known(target):
		return handed(Target)
	}
	h.path = target
	return verdict{}
}

// plainPath is whether a target is a path that means itself: without a query,
// an escape or a space.
func plainPath(s string) bool {
	if s == "" || s[0] != '/' {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '%' || s[i] == '?' || s[i] == '#' || s[i] == '\\' {
			return false
		}
	}
	return true
}

// control is whether there is a control character other than a tab.
func control(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return true
		}
	}
	return false
}

// fields gathers the field lines of a head.
type fields struct {
	head
	values                         []string // behind the header's slices
	n                              int
	hosts, lengths, codings, conns int
	lengthText, coding, conn       string
	expect, upgrade, te, pragma    bool
}

// line reads one field line (RFC 9112, 5). It says what is wrong.
func (f *fields) line(s string) (why string) {
	if s[0] == ' ' || s[0] == '\t' {
		return "folded header line"
	}
	colon := strings.IndexByte(s, ':')
	if colon < 0 {
		return "header line without a colon"
	}
	name, ok := canonical(s[:colon])
	if !ok {
		return "invalid header name" // blank before the colon included
	}
	value := trim(s[colon+1:])
	if control(value) {
		return "control character in a header value"
	}
	if f.n++; f.n <= maxFields {
		f.add(name, value)
	}
	return f.note(name, value)
}

// note looks at what matters to framing and to the connection.
func (f *fields) note(name, value string) (why string) {
	switch name {
	case "Host":
		f.hosts++
		f.host = value
	case "Content-Length":
		if f.lengths++; f.lengths > 1 && value != f.lengthText {
			return "several Content-Lengths"
		}
		f.lengthText = value
	case "Transfer-Encoding":
		f.codings++
		f.coding = value
	case "Connection":
		f.conns++
		f.conn = value
	case "Expect":
		f.expect = true
	case "Upgrade", "Trailer", "Http2-Settings":
		f.upgrade = true
	case "Te":
		f.te = f.te || !strings.EqualFold(value, "trailers")
	case "Pragma":
		f.pragma = f.pragma || value == "no-cache"
	}
	return ""
}

// offence is what net/http must not see either (RFC 9110, 7.2 and 8.6; RFC
// 9112, 3.2, 6.1 and 6.3).
func (f *fields) offence(old bool) verdict {
	switch {
	case f.hosts > 1:
		return bad("several Hosts")
	case f.hosts == 0 && !old && f.path != "":
		return bad("missing required Host header")
	case f.codings > 0 && f.lengths > 0:
		return bad("Transfer-Encoding with Content-Length")
	case f.codings > 0 && old:
		return bad("Transfer-Encoding in HTTP/1.0")
	case f.codings > 0 && (f.codings > 1 || !strings.EqualFold(f.coding, "chunked")):
		return verdict{kind: refuse, status: 501, why: "unsupported transfer encoding"}
	case f.lengths > 0 && !f.parseLength():
		return bad("invalid Content-Length")
	}
	return verdict{}
}

// parseLength takes digits only; ParseInt alone would take a sign. 18 digits
// always fit.
func (f *fields) parseLength() bool {
	if f.lengthText == "" || len(f.lengthText) > 18 {
		return false
	}
	for i := range len(f.lengthText) {
		if f.lengthText[i] < '0' || f.lengthText[i] > '9' {
			return false
		}
	}
	n, err := strconv.ParseInt(f.lengthText, 10, 64)
	f.length = n
	return err == nil
}

// unusual is what net/http understands and this loop does not want to.
func (f *fields) unusual() verdict {
	switch {
	case f.n > maxFields:
		return handed(Crowded)
	case !plainHost(f.host):
		return handed(Host)
	case f.lengths != 1:
		return handed(Framing) // chunked included
	case f.expect:
		return handed(Expect)
	case f.upgrade || f.te || f.conns > 1:
		return handed(Connection)
	case f.conns == 1 && strings.EqualFold(f.conn, "close"):
		f.close = true
	case f.conns == 1 && !strings.EqualFold(f.conn, "keep-alive"):
		return handed(Connection)
	}
	return verdict{}
}

// plainHost is whether a Host is a name or an address, with or without a port.
func plainHost(s string) bool {
	for i := range len(s) {
		b := s[i]
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		case b == '.', b == '-', b == '_', b == ':', b == '[', b == ']':
		default:
			return false
		}
	}
	return s != ""
}

// settle makes the header what net/http makes of it.
func (f *fields) settle() {
	delete(f.header, "Host")
	if _, ok := f.header["Cache-Control"]; f.pragma && !ok {
		f.header["Cache-Control"] = []string{"no-cache"} // RFC 9111, 5.4, as net/http
	}
}

// add puts a field into the header. Values of single fields share one slice.
func (f *fields) add(name, value string) {
	if old, ok := f.header[name]; ok {
		f.header[name] = append(old, value)
		return
	}
	n := len(f.values)
	f.values = append(f.values, value)
	f.header[name] = f.values[n : n+1 : n+1]
}

// trim cuts optional whitespace: spaces and tabs, nothing else (RFC 9110, 5.6.3).
func trim(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}
