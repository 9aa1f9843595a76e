//go:build linux

package h1

import (
	"errors"
	"net/http"
	"sync"
	"time"
)

// errLate is for a handler that uses its response after it has returned.
var errLate = errors.New("h1: the response was used after its handler had returned")

// response is the http.ResponseWriter of one exchange. Small pieces gather in
// a page; a piece that does not fit goes out with them in one call, without
// being copied. The head is put together when the first byte goes out.
type response struct {
	c      *conn
	body   *body
	header http.Header // nil until it is asked for
	head   []byte      // while BeginHead's head is open
	whole  bool        // the whole body lay in the input; no deadline is needed

	mu       sync.Mutex // held while writing
	done     bool       // guarded by mu: the handler has returned
	status   int        // guarded by mu, like all that follows; 0 is not begun
	length   int64      // of the body as the handler said, -1 if it did not
	written  int64
	chunked  bool
	identity bool // the handler wants the end of the connection to end the body
	sealed   bool // the head is complete
	closing  bool // no other request after this one
	duplex   bool // the request's body is the handler's business
	dated    bool // the handler has its own Date
	typed    bool // it has a Content-Type, or needs none
	trailers []string
	err      error // of a write; nothing is written after it
	out      output

	bmu   sync.Mutex // never held while anything waits
	over  bool       // guarded by bmu: deadlines are the exchange's again
	bound bool       // guarded by bmu: a deadline may be set
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header {
	if w.header == nil {
		w.header = make(http.Header, 8)
	}
	return w.header
}

// WriteHeader implements http.ResponseWriter. The header is taken as it is
// now. A second call is ignored.
func (w *response) WriteHeader(status int) {
	if status < 100 || status > 999 {
		w.c.s.logf("h1: the handler set the invalid status %d", status)
		status = http.StatusInternalServerError
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.done:
	case w.status != 0:
		w.c.s.logf("h1: superfluous WriteHeader(%d) after %d", status, w.status)
	case status < 200 && status != http.StatusSwitchingProtocols:
		w.inform(status)
	default:
		w.begin(status)
	}
}

// Write implements http.ResponseWriter.
func (w *response) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return 0, errLate
	}
	w.start()
	if len(p) == 0 {
		return 0, nil
	}
	if !bodyAllowed(w.status) {
		return 0, http.ErrBodyNotAllowed
	}
	// Counted before the check: an answer that went wrong must be seen to.
	w.written += int64(len(p))
	switch {
	case w.length >= 0 && w.written > w.length:
		return 0, http.ErrContentLength
	case w.err != nil:
		return 0, w.err
	case w.out.add(p):
		return len(p), nil
	}
	if err := w.send(p, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// start makes sure that the head has been begun and is complete.
func (w *response) start() {
	if w.status == 0 {
		w.begin(http.StatusOK)
	}
	w.endHead()
}

// Flush implements http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError sends what was written, the head at least, in one call.
func (w *response) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return errLate
	}
	w.start()
	return w.send(nil, false)
}

// EnableFullDuplex leaves the request's body alone when the answer begins.
func (w *response) EnableFullDuplex() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.duplex = true
	return nil
}

// SetReadDeadline bounds the reading of the body. It costs nothing where the
// body came with the head. Unlike the methods above, it and SetWriteDeadline
// may be called at any time, in the middle of a Write, too.
func (w *response) SetReadDeadline(t time.Time) error {
	w.bmu.Lock()
	defer w.bmu.Unlock()
	switch {
	case w.over:
		return errLate
	case w.whole || t.IsZero() && !w.bound:
		return nil
	}
	w.bound = true
	return w.c.rw.SetReadDeadline(t)
}

// SetWriteDeadline bounds the writes, the one under way included.
func (w *response) SetWriteDeadline(t time.Time) error {
	w.bmu.Lock()
	defer w.bmu.Unlock()
	switch {
	case w.over:
		return errLate
	case t.IsZero() && !w.bound:
		return nil
	}
	w.bound = true
	return w.c.rw.SetWriteDeadline(t)
}

// takeBounds ends the handler's say over the deadlines. Those it set hold for
// the rest of its answer; it is whether there are any.
func (w *response) takeBounds() bool {
	w.bmu.Lock()
	defer w.bmu.Unlock()
	w.over = true
	return w.bound
}

// finish sends the rest, and is whether the connection is still in step with
// the client: the answer went out whole and may be followed by another.
func (w *response) finish() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	w.start()
	err := w.send(nil, true)
	w.out.release()
	short := w.length >= 0 && w.written != w.length && bodyAllowed(w.status)
	return err == nil && !short && !w.closing
}

// forsake ends a response whose connection has been closed.
func (w *response) forsake() {
	w.takeBounds()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	w.out.release()
}

// inform sends an interim answer (RFC 9110, 15.2).
func (w *response) inform(status int) {
	b := append([]byte("HTTP/1.1 "), appendStatus(nil, status)...)
	b = append(b, "\r\n"...)
	for k, vv := range w.header {
		if k != "Content-Length" && k != "Transfer-Encoding" {
			b = appendField(b, k, vv...)
		}
	}
	if w.err == nil {
		_, w.err = w.c.rw.Write(append(b, "\r\n"...))
	}
}

// bodyAllowed is whether an answer may have a body (RFC 9110, 6.4.1).
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
