package h1

import "sync"

// A block is a read buffer of the usual size. It is held only while bytes are
// in it.
type block [4096]byte

var blocks = sync.Pool{New: func() any { return new(block) }}

func newBlock() *block { return blocks.Get().(*block) }
func (b *block) free() { blocks.Put(b) }

// inbuf is what was read from a connection and not yet used.
type inbuf struct {
	block *block // where b lies, if it did not have to grow
	b     []byte
	r, w  int
}

func (in *inbuf) bytes() []byte { return in.b[in.r:in.w] }
func (in *inbuf) len() int      { return in.w - in.r }

// use takes n bytes away.
func (in *inbuf) use(n int) {
	in.r += n
	if in.r >= in.w {
		in.release()
	}
}

// release gives the buffer back. Nothing may point into it any more. One that
// has grown is left to the collector, so that the pool stays small.
func (in *inbuf) release() {
	if in.block != nil {
		in.block.free()
	}
	*in = inbuf{}
}

// fill reads once from a connection. While it waits with nothing in the buffer
// there is no buffer.
func (in *inbuf) fill(c *conn) error {
	if in.b == nil {
		got := c.next()
		if got.n == 0 {
			if got.buf != nil {
				got.buf.free()
			}
			return got.err
		}
		in.block, in.b, in.w = got.buf, got.buf[:], got.n
		return nil
	}
	in.room()
	n, err := c.nc.Read(in.b[in.w:])
	in.w += n
	if n > 0 {
		return nil // an error will come again
	}
	return err
}

// room makes place for more.
func (in *inbuf) room() {
	if in.w < len(in.b) {
		return
	}
	if in.r > 0 {
		in.w = copy(in.b, in.b[in.r:in.w])
		in.r = 0
		return
	}
	b := make([]byte, 2*len(in.b))
	copy(b, in.b)
	if in.block != nil {
		in.block.free()
	}
	in.b, in.block = b, nil
}

// outBuffers are for requests: a head, and a body where both fit.
var outBuffers = sync.Pool{New: func() any { b := make([]byte, 0, togetherLimit); return &b }}

func freeOut(p *[]byte, b []byte) {
	if cap(b) <= 2*togetherLimit { // a larger one would stay for a small one
		*p = b[:0]
		outBuffers.Put(p)
	}
}
