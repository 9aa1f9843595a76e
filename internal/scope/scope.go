// Package scope is a context.Context that is part of what it belongs to.
//
// context.WithCancel costs an allocation, and a child or a function that waits
// for its end costs two more and a map in the parent; a request had four such.
// A Scope lies within the struct of the connection, exchange or reply whose life
// it is, and what waits for its end is linked to it without a map. The two
// halves of HTTP/1.1, edge/h1 and upstream/h1, and the room upstream use it.
package scope

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Watcher is told of the end of a scope.
type Watcher interface {
	// Ended is called once, on the goroutine that ends the scope. It must not
	// block.
	Ended()
}

// Scope is a context that ends with its parent, or when End is called. Begin
// must be called before anything else, and End once it is over. It must not be
// copied. All methods but Begin may be called from any goroutine.
type Scope struct {
	parent context.Context
	up     *Scope      // the parent, if it is one
	stop   func() bool // ends the watch of a parent that is not

	over atomic.Bool

	mu    sync.Mutex
	cause error
	done  chan struct{} // made when it is asked for
	first Watcher       // nearly always the only one
	rest  []Watcher
}

// Begin makes s a child of parent.
func (s *Scope) Begin(parent context.Context) {
	s.parent = parent
	if up, ok := parent.(*Scope); ok {
		s.up = up
		if !up.Watch((*child)(s)) {
			s.End(up.Cause())
		}
		return
	}
	if parent.Done() != nil {
		stop := context.AfterFunc(parent, func() { s.End(context.Cause(parent)) })
		s.mu.Lock() // it may be ending already
		s.stop = stop
		s.mu.Unlock()
	}
}

// child is a scope as a watcher of its parent.
type child Scope

// Ended implements Watcher.
func (c *child) Ended() {
	s := (*Scope)(c)
	s.End(s.up.Cause())
}

// End ends the scope, for a cause; nil stands for context.Canceled. A second
// call does nothing.
func (s *Scope) End(cause error) {
	s.mu.Lock()
	if s.over.Load() {
		s.mu.Unlock()
		return
	}
	if s.cause = cause; cause == nil {
		s.cause = context.Canceled
	}
	s.over.Store(true)
	if s.done != nil {
		close(s.done)
	}
	first, rest, stop := s.first, s.rest, s.stop
	s.first, s.rest = nil, nil
	s.mu.Unlock()
	switch {
	case s.up != nil:
		s.up.Unwatch((*child)(s))
	case stop != nil:
		stop()
	}
	if first != nil {
		first.Ended()
	}
	for _, w := range rest {
		w.Ended()
	}
}

// Watch has w told of the end. It is false, and w is told nothing, where the
// scope has ended already.
func (s *Scope) Watch(w Watcher) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over.Load():
		return false
	case s.first == nil:
		s.first = w
	default:
		s.rest = append(s.rest, w)
	}
	return true
}

// Unwatch ends what Watch began. It is false where w has been told, or is being
// told at this moment.
func (s *Scope) Unwatch(w Watcher) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == w {
		s.first = nil
		return true
	}
	for i, other := range s.rest {
		if other == w {
			last := len(s.rest) - 1
			s.rest[i], s.rest[last] = s.rest[last], nil
			s.rest = s.rest[:last]
			return true
		}
	}
	return false
}

// Cause is why the scope has ended, nil while it has not. context.Cause would
// know only the cause of a parent.
func (s *Scope) Cause() error {
	if !s.over.Load() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// Cause is context.Cause for any context.
func Cause(ctx context.Context) error {
	if s, ok := ctx.(*Scope); ok {
		return s.Cause()
	}
	return context.Cause(ctx)
}

// Err implements context.Context.
func (s *Scope) Err() error {
	if s.over.Load() {
		return context.Canceled
	}
	return nil
}

// Done implements context.Context.
func (s *Scope) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done = make(chan struct{})
		if s.over.Load() {
			close(s.done)
		}
	}
	return s.done
}

// Deadline implements context.Context.
func (s *Scope) Deadline() (time.Time, bool) { return s.parent.Deadline() }

// Value implements context.Context.
func (s *Scope) Value(key any) any { return s.parent.Value(key) }

// AfterFunc calls f in its own goroutine when the scope has ended. Package
// context uses it, for contexts that are made from this one. The result ends
// that, and is false where f has been called.
func (s *Scope) AfterFunc(f func()) (stop func() bool) {
	w := &call{f}
	if !s.Watch(w) {
		w.Ended()
	}
	return func() bool { return s.Unwatch(w) }
}

// call is a function as a watcher.
type call struct{ f func() }

// Ended implements Watcher.
func (c *call) Ended() { go c.f() }
