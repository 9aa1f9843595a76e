package h1

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// outgoing is a request that was checked, ready to be written.
type outgoing struct {
	key      hostKey
	method   string
	host     string // for the Host field
	close    bool   // the request asks that the connection be closed
	body     io.ReadCloser
	parts    parts // the body, if it is in memory
	inMemory bool
	length   int64 // of the body; -1 is unknown
	getter   func() (io.ReadCloser, error)
	// What follows the request line: fields, or else a header with what net/http
	// adds to one.
	fields Fields
	header http.Header
	url    *url.URL // the target, or else
	prefix string
	path   string
}

// check is for what is the same for all requests.
func (o *outgoing) check() error {
	switch {
	case o.key.scheme != "http" && o.key.scheme != "https":
		return refused("scheme %q is not http or https", o.key.scheme)
	case !isToken(o.method):
		return refused("method %q is not a token", o.method)
	case o.method == "CONNECT":
		return refused("CONNECT is not supported")
	case o.key.host == "" || !validHost(o.host):
		return refused("host %q is not valid", o.host)
	}
	return nil
}

// memory is whether a body is in memory; it is then sent from there.
func (o *outgoing) memory(body io.ReadCloser) bool {
	m, ok := body.(Memory)
	if !ok {
		return false
	}
	a, b := m.Parts()
	if a == nil && b == nil {
		return false
	}
	o.parts, o.inMemory = parts{a, b}, true
	o.length = int64(o.parts.len())
	return true
}

func refused(format string, args ...any) error {
	return fmt.Errorf("h1: %w: "+format, append([]any{ErrRefused}, args...)...)
}

// init checks a request (RFC 9112, section 3; RFC 9110, section 5.5). What
// would let one request look like two, or lead out of request and response, is
// refused before anything is written.
func (o *outgoing) init(req *http.Request) error {
	if req.URL == nil || req.Header == nil {
		return refused("it has no URL or no Header")
	}
	o.key = hostKey{req.URL.Scheme, req.URL.Host}
	if o.method = req.Method; o.method == "" {
		o.method = "GET"
	}
	if o.host = req.Host; o.host == "" {
		o.host = req.URL.Host
	}
	o.host = dropZone(o.host)
	if err := o.check(); err != nil {
		return err
	}
	if t := req.URL; !validTarget(t.Opaque) || !validTarget(t.RawQuery) {
		return refused("the target holds a blank or a control character")
	}
	if err := o.initHeader(req); err != nil {
		return err
	}
	o.url, o.getter = req.URL, req.GetBody
	return o.initBody(req)
}

func (o *outgoing) initHeader(req *http.Request) error {
	if len(req.Trailer) > 0 {
		return refused("trailers are not supported")
	}
	o.header, o.close = req.Header, req.Close
	for name, values := range req.Header {
		if !isToken(name) {
			return refused("field name %q is not a token", name)
		}
		for _, v := range values {
			if !validValue(v) {
				// The value may be a secret.
				return refused("the value of %q holds a control character", name)
			}
		}
		switch {
		case len(values) == 0:
		case equalFold(name, "Expect"), equalFold(name, "Upgrade"):
			return refused("%s is not supported", name)
		case equalFold(name, "Connection"):
			o.close = o.close || hasToken(values, "close")
		}
	}
	return nil
}

// Memory is a body whose bytes are in memory, in one or two parts that follow
// each other: it is written from there. Nothing may change them until the body
// has been closed.
type Memory interface{ Parts() (a, b []byte) }

type parts struct{ a, b []byte }

func (p parts) len() int { return len(p.a) + len(p.b) }

// initBody finds out how the body is to be sent.
func (o *outgoing) initBody(req *http.Request) error {
	if te := req.TransferEncoding; len(te) > 1 || len(te) == 1 && te[0] != "chunked" && te[0] != "identity" {
		return refused("transfer encoding %q is not supported", te)
	}
	if req.Body == nil || req.Body == http.NoBody {
		if req.ContentLength > 0 {
			return refused("ContentLength is %d without a body", req.ContentLength)
		}
		return nil
	}
	o.body, o.length = req.Body, req.ContentLength
	if o.memory(req.Body) {
		if req.ContentLength > 0 && req.ContentLength != o.length {
			return refused("ContentLength is %d, the body has %d bytes", req.ContentLength, o.length)
		}
		return nil
	}
	// As with net/http, 0 with a body means that the length is not known.
	if o.length <= 0 || len(req.TransferEncoding) == 1 && req.TransferEncoding[0] == "chunked" {
		o.length = -1
	}
	return nil
}

// streamed is whether the body has to be read to be sent.
func (o *outgoing) streamed() bool { return o.body != nil && !o.inMemory }

// safe is whether the request may be sent twice (RFC 9110, section 9.2.1).
func (o *outgoing) safe() bool {
	switch o.method {
	case "GET", "HEAD", "OPTIONS", "TRACE":
		return true
	}
	return false
}

// closeBody closes the request's body, once.
func (o *outgoing) closeBody() {
	if o.body != nil {
		_ = o.body.Close()
		o.body = nil
	}
}

// rewind makes the body ready to be sent again, and is false if it can't be.
func (o *outgoing) rewind() bool {
	if o.length == 0 || o.inMemory && o.body != nil {
		return true
	}
	if o.getter == nil {
		return false
	}
	body, err := o.getter()
	if err != nil {
		return false
	}
	o.body = body
	m, ok := body.(Memory)
	if o.inMemory = ok && o.inMemory; o.inMemory {
		o.parts.a, o.parts.b = m.Parts()
	}
	return true
}

const userAgent = "Go-http-client/1.1"

// appendHead writes the request's head (RFC 9112, sections 3.2.1 and 5).
func (o *outgoing) appendHead(b []byte) ([]byte, error) {
	b = append(append(b, o.method...), ' ')
	if o.url != nil {
		b = appendTarget(b, o.url)
	} else {
		b = append(append(b, o.prefix...), o.path...)
	}
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(append(b, o.host...), "\r\n"...)
	if o.fields == nil {
		b = o.appendHeader(b)
	} else {
		var err error
		if b, err = o.fields.AppendFields(b); err != nil {
			return b, err
		}
	}
	return append(o.appendLength(b), "\r\n"...), nil
}

// appendHeader writes the lines of an http.Request, as net/http would.
func (o *outgoing) appendHeader(b []byte) []byte {
	agent, saysClose := false, false
	for name, values := range o.header {
		switch {
		case framing(name):
			continue // said by the fields of the request
		case equalFold(name, "User-Agent"):
			agent = true
			if len(values) == 0 || values[0] == "" {
				continue // as with net/http: do not say one
			}
			values = values[:1]
		case equalFold(name, "Connection"):
			saysClose = hasToken(values, "close")
		}
		for _, v := range values {
			b = appendLine(b, name, v)
		}
	}
	if !agent {
		b = appendLine(b, "User-Agent", userAgent)
	}
	if o.close && !saysClose {
		b = appendLine(b, "Connection", "close")
	}
	return b
}

func (o *outgoing) appendLength(b []byte) []byte {
	switch {
	case o.length < 0:
		return append(b, "Transfer-Encoding: chunked\r\n"...)
	case o.length > 0, o.method == "POST", o.method == "PUT", o.method == "PATCH":
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, o.length, 10)
		return append(b, "\r\n"...)
	}
	return b
}

// framing is whether a header field is said by the request's own fields.
func framing(name string) bool {
	switch len(name) {
	case 4:
		return equalFold(name, "Host")
	case 7:
		return equalFold(name, "Trailer")
	case 14:
		return equalFold(name, "Content-Length")
	case 17:
		return equalFold(name, "Transfer-Encoding")
	}
	return false
}

// appendTarget is url.URL.RequestURI without its strings.
func appendTarget(b []byte, u *url.URL) []byte {
	if u.Opaque != "" {
		return append(b, u.RequestURI()...)
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	b = append(b, path...)
	if u.ForceQuery || u.RawQuery != "" {
		b = append(b, '?')
		b = append(b, u.RawQuery...)
	}
	return b
}

// address gives a host's name and the address to dial.
func address(k hostKey) (name, addr string) {
	u := url.URL{Host: k.host}
	name = u.Hostname()
	port := u.Port()
	if port == "" {
		if port = "80"; k.scheme == "https" {
			port = "443"
		}
	}
	return name, net.JoinHostPort(name, port)
}

// dropZone removes the zone of an IPv6 address, which means nothing to others
// (RFC 6874, section 4).
func dropZone(host string) string {
	if !strings.HasPrefix(host, "[") {
		return host
	}
	end := strings.LastIndexByte(host, ']')
	if end < 0 {
		return host
	}
	zone := strings.LastIndexByte(host[:end], '%')
	if zone < 0 {
		return host
	}
	return host[:zone] + host[end:]
}
