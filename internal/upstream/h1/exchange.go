package h1

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/headgate-ai/headgate/internal/scope"
)

// exchange is one request with its response on one connection. It is also the
// response's body, so it is never used twice: its caller may hold it for ever,
// and close it after the connection went to someone else.
type exchange struct {
	t    *Transport
	ctx  context.Context
	out  outgoing
	resp http.Response
	te   [1]string // resp.TransferEncoding
	up   *upload   // the body's way, if it needs a goroutine

	// conn is nil when the exchange is over. Who takes it out decides what
	// becomes of it, and nobody else touches it from then on.
	conn atomic.Pointer[conn]
	// What ends the watch for the context: life where it is a scope, else stop.
	life *scope.Scope
	stop func() bool

	pooled   bool // the connection was used before
	refused  bool // the request cannot be written
	wrote    bool // a byte of the request was written
	answered bool // a byte of a response came
	keep     bool // the connection may be used again after the exact end

	closed atomic.Bool

	rd    sync.Mutex // guards the rest; held by a Read while it waits
	in    inbuf
	mode  bodyMode
	left  int64 // of a counted body
	dec   chunks
	final error // what Read gives from now on
}

// run makes the exchange up to the end of the response's head. When it fails
// the connection is gone.
func (x *exchange) run(c *conn, info *Info) (*http.Response, error) {
	x.pooled, x.keep = c.reused, !x.out.close
	x.conn.Store(c)
	x.watch(c)
	err := x.send(c)
	if err == nil || x.wrote || !x.pooled && !x.refused {
		// Also after an error: a server that did not want the request may have
		// answered and closed.
		if herr := x.readHead(c); herr == nil {
			err = x.frame()
		} else if err == nil || x.answered {
			err = herr
		}
	}
	if err != nil {
		err = x.fail(err)
		x.note(info)
		return nil, err
	}
	x.note(info)
	x.out.closeBody()
	// Nothing may keep the request's bytes while the response is read.
	x.out.parts, x.out.getter = parts{}, nil
	x.resp.TLS = c.state
	if x.mode == noBody {
		x.final = http.ErrBodyReadAfterClose
		x.end(true)
		x.resp.Body = http.NoBody
	} else {
		x.resp.Body = x
	}
	return &x.resp, nil
}

// watch makes the connection's reads and writes fail when the context ends.
func (x *exchange) watch(c *conn) {
	s, ok := x.ctx.(*scope.Scope)
	switch {
	case !ok && x.ctx.Done() != nil:
		x.stop = context.AfterFunc(x.ctx, c.expire)
	case ok:
		if x.life = s; !s.Watch(c) {
			c.expire()
		}
	}
}

// unwatch ends that, and is false where the context has ended: reads and writes
// may begin to fail at any time from then on.
func (x *exchange) unwatch(c *conn) bool {
	if x.life != nil {
		return x.life.Unwatch(c)
	}
	return x.stop == nil || x.stop()
}

// note tells what was written. An upload says so only after a write, so an
// answer counts for one too.
func (x *exchange) note(info *Info) {
	if x.up != nil {
		x.wrote = x.answered || x.up.wrote.Load()
	}
	info.Wrote = info.Wrote || x.wrote
}

// send writes the request, or has it written.
func (x *exchange) send(c *conn) error {
	p := outBuffers.Get().(*[]byte)
	b, err := x.out.appendHead((*p)[:0])
	if err != nil {
		freeOut(p, b)
		x.refused, x.keep = true, false
		return err
	}
	if x.out.streamed() || len(b)+x.out.parts.len() > directLimit {
		x.up = startUpload(c, &x.out, p, b)
		return nil
	}
	rest := x.out.parts
	if len(b)+rest.len() <= togetherLimit {
		b, rest = append(append(b, rest.a...), rest.b...), parts{}
	}
	n, err := c.write(b, rest)
	freeOut(p, b)
	x.wrote = n > 0
	if err != nil {
		x.keep = false
		return fmt.Errorf("h1: writing the request: %w", err)
	}
	if !x.out.safe() {
		x.out.closeBody() // it will not be sent again
	}
	return nil
}

const (
	// togetherLimit is up to where copying a body behind its head is cheaper
	// than a writev(2) of both.
	togetherLimit = 8 << 10
	// directLimit is up to where a request is written without anyone reading
	// meanwhile. That much fits in the window of a new connection and the
	// send buffer of a new socket, so that even a server that answers early
	// and does not read can't block it.
	directLimit = 80 << 10
)

// again is whether the request may be sent once more; see the package's text.
func (x *exchange) again() bool {
	if !x.pooled || x.refused || x.answered || x.ctx.Err() != nil {
		return false
	}
	if x.up != nil && !x.up.over() {
		return false
	}
	return !x.wrote || x.out.safe()
}

// fail ends the exchange with an error, and gives the one that says why.
func (x *exchange) fail(err error) error {
	x.end(false)
	switch {
	case x.closed.Load():
		err = http.ErrBodyReadAfterClose
	case x.ctx.Err() != nil:
		err = scope.Cause(x.ctx)
	case x.up != nil && x.up.over() && (x.up.own || !x.answered && x.up.failedItself()):
		err = x.up.err
	}
	x.final = err
	return err
}

// end gives the connection back. clean is whether the response was read to its
// exact end. It is called with rd held, or before the body was given out.
func (x *exchange) end(clean bool) {
	if x.in.len() > 0 {
		clean = false // more than was asked for
	}
	x.in.release()
	if c := x.conn.Swap(nil); c != nil {
		x.finish(c, clean)
	}
}

// finish is called once, by who took the connection out.
func (x *exchange) finish(c *conn, clean bool) {
	if !x.unwatch(c) {
		clean = false
	}
	if x.up != nil {
		if clean = x.up.settled(clean); !clean {
			x.up.leave(c)
		}
		x.takeBody()
	}
	switch {
	case clean && x.keep:
		x.t.put(c)
		return
	case clean:
		c.close()
	default:
		c.abort()
	}
	x.t.drop(c.host)
}

// takeBody takes a body in memory back from an upload that did not write
// anything, so that it can be sent again.
func (x *exchange) takeBody() {
	if x.up.over() && x.up.body != nil {
		x.out.body, x.up.body = x.up.body, nil
	}
}
