// Package h1 serves the hot requests of HTTP/1.1 clients with a loop of its
// own: a POST to a known path with one Content-Length, which is what an
// inference call looks like. Every other connection and request goes to
// net/http, with the bytes that were read replayed, and stays there. Only
// package app uses it.
//
// The loop is small because it is strict (RFC 9112, sections 2 to 7). A head
// whose framing two parsers might read differently is refused before anyone
// else sees it; anything merely unusual is handed over. It differs from
// net/http in these ways, all of them stricter or earlier:
//
//   - Lines end in CR LF, nothing else (RFC 9112, 2.2 would allow a bare LF).
//   - Content-Length beside Transfer-Encoding, a Transfer-Encoding in HTTP/1.0
//     and codings other than one "chunked" are refused (RFC 9112, 6.1).
//     net/http answers the first of these and keeps the connection.
//   - A client that shuts down its sending half counts as gone, at once and
//     even while a pipelined request of its own waits: the context is
//     cancelled. net/http does the same, but only where it happens to read.
//   - A read deadline that passes leaves the request's context alone, so that
//     the handler can still answer.
//   - An answer may be flushed while its request is still arriving; what a
//     handler left of a small body is read away for a moment, then the
//     connection is closed gently.
//
// Only the first request that is handed over has been looked at here; what
// follows on its connection is net/http's alone.
//
// On systems without epoll everything goes to net/http.
package h1

import (
	"context"
	"crypto/tls"
	"log"
	"net/http"
	"time"
)

// Config is what a Server needs.
type Config struct {
	// Handler answers the hot requests. Its ResponseWriter has all that
	// http.ResponseController asks for, except Hijack. As with net/http, one
	// goroutine at a time may use it; only the deadlines may be set by others.
	Handler http.Handler
	// Known is whether an exact path, as sent and without a query, is hot.
	Known func(path string) bool
	// Std takes every other connection. Its own listeners are the caller's.
	Std *http.Server
	// BaseContext is the parent of every request's context; nil is Background.
	BaseContext context.Context
	// HeaderTimeout bounds a TLS handshake and the arrival of a head, IdleTimeout
	// the wait for the next request; 0 is no bound. Both are met roughly.
	HeaderTimeout, IdleTimeout time.Duration
	// MaxHeader bounds a head in bytes; 0 is http.DefaultMaxHeaderBytes.
	MaxHeader int
	// MaxConnections bounds the connections that are open, those that were
	// handed over included; 0 is no bound. A limiting listener cannot be used
	// instead: it hides the socket.
	MaxConnections int
	// TLS is the configuration for clients that speak TLS; nil is plain text.
	TLS *tls.Config
	// ErrorLog takes panics and broken connections; nil is log's own.
	ErrorLog *log.Logger
}

// Reason is why a connection went to net/http.
type Reason uint8

// The reasons.
const (
	Foreign    Reason = iota // not a socket of the system
	ALPN                     // HTTP/2 was agreed on
	Malformed                // no request line; net/http says so
	Method                   // not POST
	Version                  // not HTTP/1.1, the preface of HTTP/2 included
	Target                   // not a known path
	Host                     // a Host with unusual characters
	Framing                  // not exactly one Content-Length
	Expect                   // 100-continue
	Connection               // Upgrade, TE, or an unusual Connection
	Crowded                  // very many fields
	Unwatched                // no hang-up watch could be had
	reasons
)

var reasonNames = [reasons]string{
	"foreign", "alpn", "malformed", "method", "version", "target", "host",
	"framing", "expect", "connection", "crowded", "unwatched",
}

// String is the reason as it appears in metrics.
func (r Reason) String() string {
	if r < reasons {
		return reasonNames[r]
	}
	return "unknown"
}

// Stats is what a Server has done so far.
type Stats struct {
	Accepted uint64 // connections
	Open     int64  // connections, those of net/http included
	Served   uint64 // requests given to the handler by the own loop
	Refused  uint64 // heads refused for their framing
	HangUps  uint64 // clients seen leaving
	TimedOut uint64 // connections closed by the sweeper
	// Handed counts the connections that went to net/http.
	Handed [reasons]uint64
}
