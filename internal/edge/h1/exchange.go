//go:build linux

package h1

import (
	"net/http"
	"net/url"
	"runtime/debug"
	"time"

	"github.com/headgate-ai/headgate/internal/scope"
)

// exchange is one request with its answer. What the handler gets of it is made
// for it and never used again, so that a handler that keeps it cannot touch a
// later exchange.
type exchange struct {
	life scope.Scope
	body body
	res  response
	url  url.URL
}

// exchange serves one request, and is whether the connection can take another.
func (c *conn) exchange(h *head) (again bool) {
	x := &exchange{url: url.URL{Path: h.path}}
	x.life.Begin(&c.life)
	x.body = body{c: c, left: h.length}
	x.res = response{
		c: c, body: &x.body, length: -1,
		closing: h.close, whole: h.length <= int64(c.in.len()),
	}
	req := c.request(h, x)
	c.served++
	c.s.served.Add(1)
	returned := false
	defer func() {
		x.life.End(nil)
		if !returned {
			c.cut(&x.res, recover())
		}
	}()
	c.s.Handler.ServeHTTP(&x.res, req)
	returned = true
	x.life.End(nil)
	return c.enter(finishing) && c.finish(x)
}

// request is the request as net/http would make it.
func (c *conn) request(h *head, x *exchange) *http.Request {
	r := http.Request{
		Method: http.MethodPost, URL: &x.url, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h.header, Body: http.NoBody, ContentLength: h.length, Host: h.host,
		RemoteAddr: c.remote, RequestURI: h.path, TLS: c.seen, Close: h.close,
	}
	if h.length > 0 {
		r.Body = &x.body
	}
	return r.WithContext(&x.life)
}

// cut ends an exchange whose handler did not return. The client must notice
// that the answer is broken off: the connection is closed without a last chunk
// (RFC 9112, 8).
func (c *conn) cut(w *response, p any) {
	if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // net/http compares it so, too
		c.s.logf("h1: panic serving %s: %v\n%s", c.remote, p, debug.Stack())
	}
	c.abort()
	w.forsake()
}

// finish writes the rest of the answer and makes the connection ready for the
// next request, or ends it so that the answer arrives.
func (c *conn) finish(x *exchange) (again bool) {
	bounds := x.res.takeBounds()
	again = x.res.finish()
	left, idle := x.body.end()
	if left > 0 && idle && again && left <= maxDrain {
		left = c.discard(left, drainTime)
	}
	if bounds {
		_ = c.rw.SetDeadline(time.Time{})
	}
	if again && left == 0 && idle {
		return true
	}
	// Bytes that nobody reads would make the system answer with a reset. Only
	// while nothing went wrong before is there an answer to protect.
	if (left > 0 || c.in.len() > 0) && x.res.err == nil {
		c.linger()
	}
	return false
}
