// Package h1 is an HTTP/1.1 client for calls to model providers; it is also an
// http.RoundTripper. It costs one goroutine and one write an exchange where
// net/http's Transport costs three goroutines, and holds no buffer while it
// waits. It speaks nothing but HTTP/1.1 (RFC 9112) with known hosts: no
// proxies, no upgrade, no compression of its own.
//
// An exchange runs on its caller's goroutine: take a connection, write the
// request, read the response's head, and hand the response out; its body is
// then read by the caller straight from the connection. Only bodies that are
// streamed, or too large for one write, are sent by a goroutine of their own.
//
// # Retry
//
// A request is sent a second time, once, and on a new connection, only if
//   - the first connection came from the pool,
//   - no byte of a response came,
//   - the context has not ended,
//   - the body can be sent again: there is none, it is in memory, or the
//     request has GetBody, and
//   - not one byte was written; or the method is GET, HEAD, OPTIONS or TRACE
//     and the connection was found closed.
//
// These are net/http's rules, but it also repeats a written POST that carries
// an Idempotency-Key. Whether a provider honours that header cannot be
// known here, and a call must never be billed twice.
package h1

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Config is how connections are made and kept. Limits are for one scheme and
// host.
type Config struct {
	// Dial makes a connection; nil is a plain net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS is used for https, with ServerName and ALPN set for the host; nil is
	// the default configuration.
	TLS *tls.Config
	// HandshakeTimeout bounds the TLS handshake; 0 is the request's own limit.
	HandshakeTimeout time.Duration
	// MaxConns is how many connections may be open to a host; further callers
	// wait in the order of their coming. 0 is no limit.
	MaxConns int
	// MaxIdle is how many connections are kept for later; 0 is no limit, and
	// less than 0 keeps none.
	MaxIdle int
	// IdleTimeout is how long an unused connection is kept; 0 is no limit.
	IdleTimeout time.Duration
	// MaxHead bounds a response's head, with the informational ones before it,
	// in bytes; 0 is 256 KiB.
	MaxHead int
}

// Info is filled by Send while a call is under way. It may be read when Send
// has returned.
type Info struct {
	Connected time.Time // when the connection used was there
	Reused    bool      // it came from the pool
	Wrote     bool      // a byte of the request was written
	Retried   int       // times the request was sent again
}

// Stats is a moment's count of connections.
type Stats struct {
	Open, Idle, InUse int // now; Open includes those being dialled
	Waiting           int // callers waiting for a connection
	Dialled           int64
	DialErrors        int64
	Reused            int64 // exchanges on a connection from the pool
	Stale             int64 // pooled connections found dead before use
	Expired           int64 // pooled connections closed by IdleTimeout
	Retried           int64
}

// Transport makes exchanges and keeps connections. It is safe for concurrent
// use.
type Transport struct {
	cfg Config

	mu        sync.Mutex
	hosts     map[hostKey]*host
	timer     *time.Timer // the sweeper; nil until a connection was idle
	armed     bool        // timer is running
	closeIdle bool        // connections that come back are closed
	stats     Stats       // all but Open, Idle, InUse, Waiting, Reused
	reused    atomic.Int64
}

const defaultMaxHead = 256 << 10

// New makes a transport.
func New(c Config) *Transport {
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	if c.MaxHead <= 0 {
		c.MaxHead = defaultMaxHead
	}
	if c.TLS == nil {
		c.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	} else {
		c.TLS = c.TLS.Clone()
	}
	// RFC 7301: this client speaks nothing else.
	c.TLS.NextProtos = []string{"http/1.1"}
	if c.TLS.ClientSessionCache == nil {
		c.TLS.ClientSessionCache = tls.NewLRUClientSessionCache(64)
	}
	return &Transport{cfg: c, hosts: map[hostKey]*host{}}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.roundTrip(req, nil)
}

func (t *Transport) roundTrip(req *http.Request, info *Info) (*http.Response, error) {
	x := &exchange{t: t, ctx: req.Context()}
	if info == nil {
		info = &Info{}
	}
	if err := x.out.init(req); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	x.resp.Request = req
	return x.do(info)
}

// Send sends a call and returns its response at the end of its head. The
// response's body must be read to its end or closed; its Request is nil. The
// call's body is closed when it is not read any more, which may be after Send
// returned.
func (t *Transport) Send(ctx context.Context, q *Call, info *Info) (*http.Response, error) {
	x := &exchange{t: t, ctx: ctx}
	if err := x.out.take(q); err != nil {
		if q.Body != nil {
			_ = q.Body.Close()
		}
		return nil, err
	}
	return x.do(info)
}

// do makes the exchange, and once more where it may be.
func (x *exchange) do(info *Info) (*http.Response, error) {
	c, err := x.t.acquire(x.ctx, x.out.key, info)
	if err != nil {
		x.out.closeBody()
		return nil, err
	}
	resp, err := x.run(c, info)
	if err == nil {
		return resp, nil
	}
	if x.again() {
		if y, err := x.second(info); y != nil {
			return y, err
		} else if err != nil {
			return nil, err
		}
	}
	x.out.closeBody()
	return nil, err
}

// second sends the request of a failed exchange on a new connection. It
// returns neither response nor error if the body can't be had again.
func (x *exchange) second(info *Info) (*http.Response, error) {
	y := &exchange{t: x.t, ctx: x.ctx, out: x.out}
	y.resp.Request = x.resp.Request
	if !y.out.rewind() {
		return nil, nil
	}
	x.t.count(func(s *Stats) { s.Retried++ })
	info.Retried++
	c, err := x.t.acquireNew(x.ctx, x.out.key, info)
	if err == nil {
		var resp *http.Response
		if resp, err = y.run(c, info); err == nil {
			return resp, nil
		}
	}
	y.out.closeBody()
	return nil, err
}

func (t *Transport) count(f func(*Stats)) {
	t.mu.Lock()
	f(&t.stats)
	t.mu.Unlock()
}

// Errors that a caller may want to tell apart.
var (
	// ErrRefused is wrapped by errors about requests that this client does not
	// send.
	ErrRefused = errors.New("request refused")
	// ErrMalformed is wrapped by errors about responses that break RFC 9112.
	ErrMalformed = errors.New("malformed HTTP response")
)
