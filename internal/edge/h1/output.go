//go:build linux

package h1

import (
	"crypto/tls"
	"strconv"
	"sync"
)

// Room is left before the data for what is only known when it goes out: the
// size of a chunk, and the end of the head with it.
const (
	chunkRoom = 18  // 16 digits, CR LF
	headRoom  = 256 // framing, type, Connection, Date, an empty line, a chunk's size
)

// output gathers what is to be sent: the head, if it has not gone yet, room,
// and data behind it.
type output struct {
	page    *page  // behind buf unless that has outgrown it
	buf     []byte // nil when nothing is held
	headLen int    // the head is buf[:headLen], to be moved up to the data
	data    int    // where the data begins
}

// open is an empty buffer for a head.
func (o *output) open() []byte {
	o.page = pages.Get().(*page)
	return o.page[:0]
}

// head takes the head that has been put into the buffer, perhaps beyond its page.
func (o *output) head(b []byte) {
	o.headLen = len(b)
	o.data = len(b) + headRoom
	for cap(b) < o.data {
		b = append(b[:cap(b)], 0)
	}
	o.buf = b[:o.data]
}

// hold makes sure that there is a buffer.
func (o *output) hold() {
	if o.buf == nil {
		o.page = pages.Get().(*page)
		o.buf, o.headLen, o.data = o.page[:chunkRoom], 0, chunkRoom
	}
}

func (o *output) size() int { return len(o.buf) - o.data }

// add gathers p if it fits, with room for what follows a chunk.
func (o *output) add(p []byte) bool {
	if len(p) > len(page{})-headRoom {
		return false
	}
	o.hold()
	if len(o.buf)+len(p)+len(lastChunkBehind) > cap(o.buf) {
		return false
	}
	o.buf = append(o.buf, p...)
	return true
}

// release gives the buffer back.
func (o *output) release() {
	if o.page != nil {
		pages.Put(o.page)
	}
	*o = output{}
}

// send sends what has been gathered and then p, in one call: with the head
// before it if it has not gone, as a chunk if the answer is chunked, and with
// the end of the answer if it is final.
func (w *response) send(p []byte, final bool) error {
	if w.err != nil {
		return w.err
	}
	o := &w.out
	if w.sealed && o.size() == 0 && len(p) == 0 && !(final && w.chunked) {
		return nil
	}
	if !w.sealed && !w.duplex && !w.closing && !w.body.settle() {
		w.closing = true
	}
	o.hold()
	size := o.size() + len(p)
	start := w.seal(p, size, final)
	var tail []byte
	switch {
	case !w.chunked:
	case final:
		tail = w.ending(size > 0)
	case size > 0:
		tail = crlf
	}
	if w.err = w.c.write(o.buf[start:], p, tail); w.err != nil {
		w.c.life.End(nil)
	}
	o.release()
	return w.err
}

var crlf = []byte("\r\n")

// seal puts into the room before the data what belongs there, moves the head
// up to it, and is where all that begins.
func (w *response) seal(p []byte, size int, final bool) int {
	var room [headRoom]byte
	b := room[:0]
	o := &w.out
	if !w.sealed {
		w.sealed = true
		b = w.framing(b, size, o.sample(p), final)
	}
	if w.chunked && size > 0 {
		b = strconv.AppendUint(b, uint64(size), 16)
		b = append(b, crlf...)
	}
	start := o.data - len(b) - o.headLen
	copy(o.buf[start:], o.buf[:o.headLen])
	copy(o.buf[start+o.headLen:], b)
	return start
}

// sample is the beginning of the data, from which its type can be told.
func (o *output) sample(p []byte) []byte {
	const enough = 512
	had := o.buf[o.data:]
	switch {
	case len(had) == 0:
		return p[:min(len(p), enough)]
	case len(had) >= enough || len(p) == 0:
		return had
	}
	return append(had[:len(had):len(had)], p[:min(len(p), enough-len(had))]...)
}

// ending is the end of a chunked body (RFC 9112, 7.1).
func (w *response) ending(behindChunk bool) []byte {
	if !w.hasTrailers() {
		if behindChunk {
			return lastChunkBehind
		}
		return lastChunkBehind[2:]
	}
	b := make([]byte, 0, 128)
	if behindChunk {
		b = append(b, crlf...)
	}
	b = w.appendTrailers(append(b, "0\r\n"...))
	return append(b, crlf...)
}

var lastChunkBehind = []byte("\r\n0\r\n\r\n")

// write is one call for the three parts. The last two may be empty.
func (c *conn) write(b, p, tail []byte) (err error) {
	if c.tls != nil {
		return writeTLS(c.tls, b, p, tail)
	}
	if len(p) == 0 {
		b, tail = append(b, tail...), nil
	}
	_, err = c.sock.Write(b, p, tail)
	return err
}

// A record of TLS holds 16 KiB at most, so that much is put together.
const recordSize = 16 << 10

var records = sync.Pool{New: func() any { return new([recordSize]byte) }}

// writeTLS puts the parts together, because each write would be a record of
// its own; it copies anyway, to encrypt.
func writeTLS(t *tls.Conn, parts ...[]byte) error {
	r := records.Get().(*[recordSize]byte)
	defer records.Put(r)
	n := 0
	for _, p := range parts {
		for len(p) > 0 {
			k := copy(r[n:], p)
			n, p = n+k, p[k:]
			if n < len(r) {
				continue
			}
			if _, err := t.Write(r[:n]); err != nil {
				return err
			}
			n = 0
		}
	}
	if n == 0 {
		return nil
	}
	_, err := t.Write(r[:n])
	return err
}
