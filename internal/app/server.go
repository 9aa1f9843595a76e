package app

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"time"

	"golang.org/x/net/netutil"

	"github.com/headgate-ai/headgate/internal/admin"
	"github.com/headgate-ai/headgate/internal/edge"
	"github.com/headgate-ai/headgate/internal/edge/h1"
)

// apiServer is what serves a listener: net/http's server, or our own loop in
// front of it.
type apiServer interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
	Close() error
}

// serveAPI prepares the server that clients call.
func (a *App) serveAPI(base context.Context, c *edge.Config) error {
	std := a.standardServer(base, c)
	var conf *tls.Config
	if c.TLS.Enabled() {
		var err error
		if conf, err = a.tlsConfig(&c.TLS); err != nil {
			return err
		}
	}
	if c.FastPath == "auto" && runtime.GOOS == "linux" {
		a.api = h1.New(h1.Config{
			Handler: a.gateway, Known: edge.Hot, Std: std, BaseContext: base,
			HeaderTimeout: c.HeaderTimeout.Std(), IdleTimeout: c.IdleTimeout.Std(),
			MaxHeader: int(c.MaxHeader), MaxConnections: c.MaxConnections, TLS: conf, ErrorLog: a.serverLog(),
		})
		return nil
	}
	a.api, std.ConnState = std, a.countConnection
	if c.MaxConnections > 0 {
		a.apiL = netutil.LimitListener(a.apiL, c.MaxConnections)
	}
	if conf != nil {
		a.apiL = tls.NewListener(a.apiL, conf)
	}
	return nil
}

// countConnection keeps the number of open connections where net/http's server
// has the listener; the own loop counts its own.
func (a *App) countConnection(_ net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		a.stdConns.Add(1)
	case http.StateClosed, http.StateHijacked:
		a.stdConns.Add(-1)
	}
}

// connections is how many connections of clients are open.
func (a *App) connections() int64 {
	if own, ok := a.api.(*h1.Server); ok {
		return own.Stats().Open
	}
	return a.stdConns.Load()
}

// standardServer is net/http's server. Its limits are the first line against
// clients that mean harm or are broken; see the fields.
func (a *App) standardServer(base context.Context, c *edge.Config) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(c.TLS.Enabled())
	protocols.SetUnencryptedHTTP2(!c.TLS.Enabled())
	mux := http.NewServeMux()
	admin.Health(mux, a.Ready)
	mux.Handle("GET /openapi.json", edge.OpenAPI(a.opts.Version))
	return &http.Server{
		Handler:           front{mux, a.gateway, c.HeaderTimeout.Std()},
		Protocols:         &protocols,
		ReadHeaderTimeout: c.HeaderTimeout.Std(), // slowloris; bodies have their own bound
		IdleTimeout:       c.IdleTimeout.Std(),
		MaxHeaderBytes:    int(c.MaxHeader),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          c.MaxStreams,
			MaxReceiveBufferPerConnection: 4 << 20,
			MaxReceiveBufferPerStream:     1 << 20,
			SendPingTimeout:               30 * time.Second, // half-open clients
			PingTimeout:                   15 * time.Second,
			WriteByteTimeout:              60 * time.Second,
		},
		ErrorLog:    a.serverLog(),
		BaseContext: func(net.Listener) context.Context { return base },
	}
}

// front gives the few paths that are not the API's to their own handlers. The
// API's own paths are found by the gateway, which answers in their dialects.
type front struct {
	own *http.ServeMux
	api http.Handler
	// rest bounds the wait for what a client has not sent of a body that was not
	// wanted: net/http reads on behind the answer, and by itself for ever.
	rest time.Duration
}

func (f front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		// The next request on the connection brings its own deadline.
		defer func() { _ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(f.rest)) }()
	}
	switch r.URL.Path {
	case "/livez", "/readyz", "/openapi.json":
		f.own.ServeHTTP(w, r)
	default:
		f.api.ServeHTTP(w, r)
	}
}

// serverLog takes what net/http has to say of broken connections.
func (a *App) serverLog() *log.Logger {
	return slog.NewLogLogger(a.log.Handler(), slog.LevelDebug)
}

// StandardLog takes what packages say by package log, which would go to standard
// error as it is: net/http's transport quotes what providers send unasked.
func (a *App) StandardLog() io.Writer { return a.serverLog().Writer() }

// tlsConfig serves TLS 1.3, or 1.2 where that is allowed. Go's server never
// renegotiates. Tickets stay on, so that clients resume.
func (a *App) tlsConfig(c *edge.TLSConfig) (*tls.Config, error) {
	conf := &tls.Config{
		MinVersion:     tls.VersionTLS13,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.currentCertificate() },
		VerifyConnection: func(s tls.ConnectionState) error {
			if s.DidResume {
				a.journal.TLSResumed()
			}

			return nil
		},
	}
	if c.MinVersion == "1.2" {
		conf.MinVersion = tls.VersionTLS12
	}
	if c.TicketKeys.IsZero() {
		return conf, nil
	}
	secret, err := c.TicketKeys.Resolve()
	if err != nil {
		return nil, fmt.Errorf("server.api.tls.ticket_keys: %w", err)
	}
	if len(secret) < 32 {
		return nil, errors.New("server.api.tls.ticket_keys: the secret has fewer than 32 bytes")
	}
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, "headgate session tickets", 32)
	if err != nil {
		return nil, err
	}
	conf.SetSessionTicketKeys([][32]byte{[32]byte(key)})
	return conf, nil
}

// currentCertificate is the one of the running configuration, so that a
// renewed certificate is taken up by a reload.
func (a *App) currentCertificate() (*tls.Certificate, error) {
	if c := a.certificate.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("the running configuration has no certificate")
}
