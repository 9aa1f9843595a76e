package h1

import (
	"net/http"
	"strconv"
	"strings"
)

type bodyMode uint8

const (
	noBody bodyMode = iota
	countedBody
	chunkedBody
	closeBody // it ends with the connection
)

// frame finds out how long the response's body is (RFC 9112, section 6.3), and
// sets the fields of the response as net/http does. Differently from there the
// Connection field stays, as the names in it must not be passed on.
func (x *exchange) frame() error {
	r := &x.resp
	chunked, err := x.transferCoding()
	if err != nil {
		return err
	}
	length, err := contentLength(r.Header)
	if err != nil {
		return err
	}
	r.Close = closes(r)
	if r.Close || r.ProtoMinor != 1 {
		x.keep = false
	}
	if chunked {
		if err := x.declareTrailer(); err != nil {
			return err
		}
	}
	switch {
	case x.out.method == "HEAD":
		r.ContentLength = length
	case r.StatusCode == http.StatusNoContent, r.StatusCode == http.StatusNotModified:
		r.ContentLength = 0
	case chunked:
		if length >= 0 {
			// Section 6.1: the two together smell of smuggling. The body is
			// taken, the connection not trusted any more.
			delete(r.Header, "Content-Length")
			x.keep = false
		}
		r.ContentLength, x.mode = -1, chunkedBody
	case length > 0:
		r.ContentLength, x.mode, x.left = length, countedBody, length
	case length < 0:
		r.ContentLength, x.mode = -1, closeBody
		r.Close, x.keep = true, false
	}
	return nil
}

// transferCoding is whether the body is chunked. No other coding is asked for,
// so no other, and none before chunked, is taken (section 6.1).
func (x *exchange) transferCoding() (bool, error) {
	r := &x.resp
	te, ok := r.Header["Transfer-Encoding"]
	if !ok {
		return false, nil
	}
	if r.ProtoMinor == 0 {
		return false, malformed("Transfer-Encoding in a response of HTTP/1.0")
	}
	if len(te) != 1 || !equalFold(te[0], "chunked") {
		return false, malformed("transfer encoding %q is not supported", clip(strings.Join(te, ", ")))
	}
	delete(r.Header, "Transfer-Encoding")
	x.te[0] = "chunked"
	r.TransferEncoding = x.te[:1:1]
	return true, nil
}

// contentLength gives the length that is said, or -1. More than one must say
// the same (section 6.3, rule 5).
func contentLength(h http.Header) (int64, error) {
	v := h["Content-Length"]
	if len(v) == 0 {
		return -1, nil
	}
	for _, other := range v[1:] {
		if other != v[0] {
			return 0, malformed("Content-Lengths that differ")
		}
	}
	if len(v) > 1 {
		h["Content-Length"] = v[:1:1]
	}
	if !digits(v[0]) {
		return 0, malformed("Content-Length %q", clip(v[0]))
	}
	n, err := strconv.ParseInt(v[0], 10, 64)
	if err != nil {
		return 0, malformed("Content-Length %q", clip(v[0]))
	}
	return n, nil
}

// closes is whether the server closes the connection (section 9.3).
func closes(r *http.Response) bool {
	v := r.Header["Connection"]
	if r.ProtoMinor == 0 {
		return hasToken(v, "close") || !hasToken(v, "keep-alive")
	}
	return hasToken(v, "close")
}

// declareTrailer moves the names in the Trailer field to the response's
// Trailer, to be filled when the body has ended.
func (x *exchange) declareTrailer() error {
	v, ok := x.resp.Header["Trailer"]
	if !ok {
		return nil
	}
	delete(x.resp.Header, "Trailer")
	for _, list := range v {
		for list != "" {
			var item string
			item, list, _ = strings.Cut(list, ",")
			if item = trimSpace(item); item == "" {
				continue
			}
			name := http.CanonicalHeaderKey(item)
			if framing(name) && name != "Host" {
				return malformed("trailer %q", name)
			}
			if x.resp.Trailer == nil {
				x.resp.Trailer = http.Header{}
			}
			x.resp.Trailer[name] = nil
		}
	}
	return nil
}

// mergeTrailer adds the trailer section of a chunked body. Fields that would
// change the framing have no meaning there and are dropped (RFC 9110, section
// 6.5.1).
func (x *exchange) mergeTrailer() error {
	if len(x.dec.trailer) == 0 {
		return nil
	}
	h, err := parseFields(string(append(x.dec.trailer, "\r\n"...)))
	x.dec.trailer = nil
	if err != nil {
		return err
	}
	for name, values := range h {
		if framing(name) {
			continue
		}
		if x.resp.Trailer == nil {
			x.resp.Trailer = http.Header{}
		}
		x.resp.Trailer[name] = values
	}
	return nil
}
