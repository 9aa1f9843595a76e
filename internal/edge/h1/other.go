//go:build !linux

package h1

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"

	"golang.org/x/net/netutil"
)

// Server gives everything to net/http, because this system has no epoll.
type Server struct{ Config }

// New makes a Server.
func New(c Config) *Server {
	if c.Std == nil {
		c.Std = &http.Server{Handler: c.Handler, ErrorLog: c.ErrorLog}
	}
	return &Server{c}
}

// Serve takes connections from l until Shutdown or Close.
func (s *Server) Serve(l net.Listener) error {
	if s.MaxConnections > 0 {
		l = netutil.LimitListener(l, s.MaxConnections)
	}
	if s.TLS != nil {
		l = tls.NewListener(l, s.TLS)
	}
	return s.Std.Serve(l)
}

// Shutdown stops accepting and waits for open requests.
func (s *Server) Shutdown(ctx context.Context) error { return s.Std.Shutdown(ctx) }

// Close cuts everything.
func (s *Server) Close() error { return s.Std.Close() }

// Stats is empty here.
func (s *Server) Stats() Stats { return Stats{} }
