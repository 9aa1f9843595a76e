package fake

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"unicode/utf8"
)

// events writes server-sent events, one flush each, in one reused buffer. It
// is also where events are misshapen.
type events struct {
	c    *call
	w    io.Writer
	zip  *gzip.Writer // nil unless the stream is compressed
	buf  []byte
	json int    // where the JSON of the event in buf begins
	eol  string // line end
	next string // fault that the next event suffers
	last bool   // the next event is the last
	over bool   // nothing more may be written
}

// openStream sends the headers of a stream.
func (c *call) openStream() *events {
	e := &events{c: c, w: c.w, eol: "\n"}
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	switch c.cfg.Fault {
	case faultCRLF:
		e.eol = "\r\n"
	case faultCR:
		e.eol = "\r"
	case faultGzip:
		h.Set("Content-Encoding", "gzip")
		e.zip = gzip.NewWriter(c.w)
		e.w = e.zip
	}
	c.s.note(func() {
		c.rec.Stream = true
		c.s.stats.Streams++
	})
	c.header(http.StatusOK)
	if c.cfg.Fault == faultBOM {
		e.write([]byte("\ufeff"))
	}
	e.flush()
	return e
}

// begin starts an event; the caller appends its JSON and passes it to end.
func (e *events) begin(name string) []byte {
	b := e.buf[:0]
	if e.c.cfg.Fault == faultComments {
		b = append(append(b, ": keep-alive"...), e.eol...)
		b = append(append(b, ":"...), e.eol...)
	}
	if name != "" {
		b = append(append(append(b, "event: "...), name...), e.eol...)
	}
	b = append(b, "data: "...)
	e.json = len(b)
	return b
}

// end sends the event. It is a method of its own so that encoders stay plain
// appends.
func (e *events) end(b []byte) {
	if e.over {
		return
	}
	if e.c.cfg.Fault == faultMultiline && b[e.json] == '{' {
		rest := append([]byte(nil), b[e.json+1:]...)
		b = append(append(append(b[:e.json+1], e.eol...), "data: "...), rest...)
	}
	fault := e.next
	e.next = ""
	switch fault {
	case faultMalformed:
		b = append(b[:len(b)-2], ",,"...)
	case faultCutJSON, faultHalf:
		b = b[:e.json+(len(b)-e.json)*2/3]
	case faultCutUTF8:
		b = b[:insideRune(b, e.json)]
	}
	cut := fault == faultCutJSON || fault == faultHalf || fault == faultCutUTF8
	if !cut {
		b = append(b, e.eol...)
		if !e.last || e.c.cfg.Fault != faultNoBlank {
			b = append(b, e.eol...)
		}
	}
	e.buf = b // keep what append grew
	e.send(b)
	if fault == faultHalf {
		e.finish(Broken)
	} else if cut && !e.over {
		e.abort()
	}
}

// send writes an event in as many flushes as the fault wants.
func (e *events) send(b []byte) {
	switch e.c.cfg.Fault {
	case faultSplit:
		at := insideRune(b, e.json)
		e.write(b[:at])
		e.flush()
		b = b[at:]
	case faultDrip:
		for len(b) > 7 {
			e.write(b[:7])
			e.flush()
			b = b[7:]
		}
	}
	e.write(b)
	e.flush()
}

// insideRune is a place inside the first character of several bytes from the
// given one, else the middle.
func insideRune(b []byte, from int) int {
	if i := bytes.IndexFunc(b[from:], func(r rune) bool { return r >= utf8.RuneSelf }); i >= 0 {
		return from + i + 1
	}
	return from + (len(b)-from)/2
}

func (e *events) write(b []byte) {
	if e.over {
		return
	}
	if _, err := e.w.Write(b); err != nil {
		e.finish(Cancelled)
	}
}

func (e *events) flush() {
	if e.over {
		return
	}
	var err error
	if e.zip != nil {
		err = e.zip.Flush()
	}
	if err == nil {
		err = e.c.rc.Flush()
	}
	// A recorder that cannot flush keeps everything anyway.
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		e.finish(Cancelled)
	}
}

// finish ends the stream with an outcome; later events go nowhere.
func (e *events) finish(o Outcome) {
	e.over = true
	e.c.outcome = o
}

// close ends the compressed body, if it is one.
func (e *events) close() {
	if e.zip != nil && !e.over {
		e.zip.Close()
	}
}

func (e *events) abort() {
	e.finish(Broken)
	e.c.abort()
}
