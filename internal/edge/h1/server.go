//go:build linux

package h1

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Server owns the connections of its listeners until they end or are handed
// over. Make one with New.
type Server struct {
	Config
	base    context.Context
	maxHead int
	// finishTimeout is defaultFinishTimeout but in a test.
	finishTimeout time.Duration

	handoff *handoff
	watch   *watch        // nil when none could be had; set by begin
	slots   chan struct{} // one for every open connection; nil is no bound

	begun    sync.Once
	drained  sync.Once
	ended    sync.Once
	draining atomic.Bool
	drain    chan struct{} // closed when Shutdown or Close begins
	quit     chan struct{} // closed when nothing is left to look after
	tick     time.Duration
	start    time.Time
	clock    atomic.Int64 // ns since start, moved by the sweeper

	mu        sync.Mutex
	listeners map[net.Listener]struct{} // guarded by mu
	conns     map[uint64]*conn          // guarded by mu; by generation
	lastID    uint64                    // guarded by mu

	accepted, served, refused, hangUps, timedOut atomic.Uint64
	open                                         atomic.Int64
	handed                                       [reasons]atomic.Uint64
}

// New makes a Server.
func New(c Config) *Server {
	if c.Std == nil {
		c.Std = &http.Server{Handler: c.Handler, ErrorLog: c.ErrorLog}
	}
	s := &Server{
		Config: c, base: c.BaseContext, maxHead: c.MaxHeader, finishTimeout: defaultFinishTimeout,
		handoff: newHandoff(), drain: make(chan struct{}), quit: make(chan struct{}),
		start: time.Now(), tick: sweepEvery(c.HeaderTimeout, c.IdleTimeout),
		listeners: map[net.Listener]struct{}{}, conns: map[uint64]*conn{},
	}
	if s.base == nil {
		s.base = context.Background()
	}
	s.base = serverContext{s.base, c.Std}
	if s.maxHead <= 0 {
		s.maxHead = http.DefaultMaxHeaderBytes
	}
	if c.MaxConnections > 0 {
		s.slots = make(chan struct{}, c.MaxConnections)
	}
	return s
}

// Serve takes connections from l until Shutdown or Close, and then returns
// http.ErrServerClosed. It closes l.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !s.listen(l) {
		return http.ErrServerClosed
	}
	defer s.unlisten(l)
	s.begun.Do(func() { s.begin(l.Addr()) })
	var pause time.Duration
	for {
		if !s.slot() {
			return http.ErrServerClosed
		}
		nc, err := l.Accept()
		if err == nil {
			pause = 0
			s.take(nc)
			continue
		}
		s.unslot()
		if s.draining.Load() {
			return http.ErrServerClosed
		}
		if !passing(err) {
			return err
		}
		pause = min(max(2*pause, minPause), maxPause)
		s.logf("h1: accept: %v; trying again in %v", err, pause)
		if !s.sleep(pause) {
			return http.ErrServerClosed
		}
	}
}

// Bounds on the wait after an accept that failed.
const (
	minPause = 5 * time.Millisecond
	maxPause = time.Second
)

// passing is whether an accept may succeed later: the process is out of
// descriptors or memory, or the connection broke while it was queued.
func passing(err error) bool {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		switch e {
		case syscall.ECONNABORTED, syscall.ECONNRESET, syscall.ENOBUFS, syscall.ENOMEM, syscall.EPROTO, syscall.EPERM:
			return true
		}
	}
	t, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](err)
	return ok && t.Temporary()
}

// begin starts what all connections share.
func (s *Server) begin(addr net.Addr) {
	s.handoff.addr = addr
	go func() {
		if err := s.Std.Serve(s.handoff); !errors.Is(err, http.ErrServerClosed) {
			s.logf("h1: net/http stopped: %v", err)
		}
		_ = s.handoff.Close()
	}()
	w, err := newWatch(s.hungUp)
	if err != nil {
		s.logf("h1: no hang-up watch, net/http serves everything: %v", err)
	} else {
		s.watch = w
		go w.run()
	}
	go s.sweep()
}

// slot waits for the right to accept one more connection.
func (s *Server) slot() bool {
	if s.slots == nil {
		return true
	}
	select {
	case s.slots <- struct{}{}:
		return true
	case <-s.drain:
		return false
	}
}

func (s *Server) unslot() {
	if s.slots != nil {
		<-s.slots
	}
}

// sleep is whether the time passed before the server began to stop.
func (s *Server) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.drain:
		return false
	}
}

// take gives a new connection its goroutine.
func (s *Server) take(nc net.Conn) {
	s.accepted.Add(1)
	sock, ok := nc.(stream)
	if !ok || s.watch == nil {
		// What wraps a socket may have its own ideas of reading; and a
		// wrapper of ours would hide a TLS connection from net/http.
		s.unslot()
		if s.TLS != nil {
			nc = tls.Server(nc, s.TLS)
		}
		s.give(nc, Foreign)
		return
	}
	s.open.Add(1)
	c := newConn(s, &link{stream: sock, s: s})
	if !s.track(c) {
		_ = c.link.Close()
		return
	}
	go c.serve()
}

// track enters a connection in the books, unless the server is stopping.
func (s *Server) track(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		return false
	}
	s.lastID++
	c.id = s.lastID
	s.conns[c.id] = c
	return true
}

// forget takes a connection out of the books and out of the hang-up watch.
// From then on no event can reach it, whoever has its descriptor.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.conns, c.id)
	s.mu.Unlock()
	if c.watched.Swap(false) {
		s.watch.remove(c.raw)
	}
}

// hungUp is told by the watch that the client of a generation has left.
func (s *Server) hungUp(id uint64) {
	s.mu.Lock()
	c := s.conns[id]
	s.mu.Unlock()
	if c == nil || c.life.Err() != nil {
		return
	}
	if _, st := unstamp(c.stamp.Load()); st == active {
		s.hangUps.Add(1)
	}
	c.life.End(nil)
}

// all is a copy of the books.
func (s *Server) all() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*conn, 0, len(s.conns))
	for _, c := range s.conns {
		list = append(list, c)
	}
	return list
}

func (s *Server) listen(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		return false
	}
	s.listeners[l] = struct{}{}
	return true
}

func (s *Server) unlisten(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

func (s *Server) logf(format string, args ...any) {
	if s.ErrorLog != nil {
		s.ErrorLog.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}

// Stats is what the server has done so far.
func (s *Server) Stats() Stats {
	st := Stats{
		Accepted: s.accepted.Load(), Open: s.open.Load(), Served: s.served.Load(),
		Refused: s.refused.Load(), HangUps: s.hangUps.Load(), TimedOut: s.timedOut.Load(),
	}
	for i := range st.Handed {
		st.Handed[i] = s.handed[i].Load()
	}
	return st
}

// serverContext answers for the server that net/http would name in a
// request's context; ReverseProxy, for one, looks for it.
type serverContext struct {
	context.Context
	std *http.Server
}

func (c serverContext) Value(key any) any {
	if key == http.ServerContextKey {
		return c.std
	}
	return c.Context.Value(key)
}
