//go:build linux

package h1

import (
	"context"
	"errors"
	"time"
)

// Shutdown stops accepting, closes the connections on which nothing happens,
// and waits for the others, net/http's included; their answers carry
// "Connection: close" (RFC 9112, 9.6). It may be called again after its
// context has ended.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.stopAccepting()
	std := make(chan error, 1)
	go func() { std <- s.Std.Shutdown(ctx) }()
	own := s.wait(ctx)
	other := <-std
	_ = s.handoff.Close()
	if own == nil && other == nil {
		s.end()
	}
	return errors.Join(first(own, other), err)
}

// Close cuts everything, net/http's connections included.
func (s *Server) Close() error {
	err := s.stopAccepting()
	for _, c := range s.all() {
		c.abort()
	}
	_ = s.handoff.Close()
	other := s.Std.Close()
	s.end()
	return errors.Join(err, other)
}

// stopAccepting closes the listeners and turns new connections away.
func (s *Server) stopAccepting() (err error) {
	s.mu.Lock()
	s.draining.Store(true)
	s.drained.Do(func() { close(s.drain) })
	for l := range s.listeners {
		err = errors.Join(err, l.Close())
		delete(s.listeners, l)
	}
	s.mu.Unlock()
	return err
}

// wait closes what is idle until nothing is left.
func (s *Server) wait(ctx context.Context) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		left := 0
		for _, c := range s.all() {
			if !c.stopIfIdle() {
				left++
			}
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// end stops what all connections share. The watch goes last: until then a
// client that leaves is still noticed.
func (s *Server) end() {
	s.ended.Do(func() {
		close(s.quit)
		s.begun.Do(func() {}) // from now on Serve starts nothing
		if s.watch != nil {
			s.watch.close()
		}
	})
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
