package edge

import (
	"errors"
	"io"
	"strconv"
	"sync"
)

// Bodies up to maxPooled are read into buffers that are used again; a larger
// one is left to the collector, so that it does not pin memory for ever.
const (
	firstRead = 4 << 10
	maxPooled = 256 << 10
)

var bodies = sync.Pool{New: func() any { b := make([]byte, 0, firstRead); return &b }}

// pooled is a request body in memory. The zero value holds nothing.
type pooled struct{ buf *[]byte }

func (p *pooled) bytes() []byte {
	if p.buf == nil {
		return nil
	}
	return *p.buf
}

// keep leaves the bytes to the collector, because someone may still be reading
// them.
func (p *pooled) keep() { p.buf = nil }

func (p *pooled) close() {
	if p.buf != nil && cap(*p.buf) <= maxPooled {
		*p.buf = (*p.buf)[:0]
		bodies.Put(p.buf)
	}
	p.buf = nil
}

// read takes the whole body, at most limit bytes. A known length sizes the
// buffer, but not beyond what has proved to come: a header that promises a
// gigabyte costs nothing.
func (p *pooled) read(r io.Reader, length, limit int64) error {
	p.buf = bodies.Get().(*[]byte)
	b := (*p.buf)[:0]
	if length >= 0 && length < 1<<20 && int64(cap(b)) <= length {
		b = make([]byte, 0, length+1) // one more, to see the end without growing
	}
	defer func() { *p.buf = b }()
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > limit:
			return errTooLarge(limit)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// Release gives the request's bytes back before Close, for an answer that will take
// its time. The call's Raw is empty then.
func (x *Exchange) Release() {
	x.body.close()
	x.call.Raw, x.call.Long = nil, nil
}

// Retain keeps the request's bytes from being used again after Close, for the
// case that a transport may still be sending them.
func (x *Exchange) Retain() { x.body.keep() }

func parseQ(q string) float64 {
	f, err := strconv.ParseFloat(q, 64)
	if err != nil || f < 0 || f > 1 {
		return 0
	}
	return f
}
