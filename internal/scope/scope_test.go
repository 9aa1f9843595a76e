package scope_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate-ai/headgate/internal/scope"
)

type key struct{}

// watcher counts its calls.
type watcher struct{ n atomic.Int64 }

func (w *watcher) Ended() { w.n.Add(1) }

// A scope behaves as a context of the standard library would, below one and
// above others.
func TestAsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("why")
		base, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "v"))
		var s, below scope.Scope
		s.Begin(base)
		below.Begin(&s)
		std, stop := context.WithTimeout(&below, time.Hour)
		defer stop()
		if s.Err() != nil || s.Cause() != nil || below.Value(key{}) != "v" || std.Err() != nil {
			t.Fatal("it has ended before its time")
		}
		if _, ok := s.Deadline(); ok {
			t.Error("a deadline out of nowhere")
		}
		cancel(why)
		<-std.Done()
		<-s.Done()
		<-below.Done()
		for name, c := range map[string]context.Context{"scope": &s, "scope below": &below, "context": std} {
			if c.Err() != context.Canceled || context.Cause(c) != why { //nolint:errorlint // the very errors
				t.Errorf("%s: %v, because of %v", name, c.Err(), context.Cause(c))
			}
		}
		if below.Cause() != why { //nolint:errorlint // the very error
			t.Errorf("cause %v", below.Cause())
		}
		var late scope.Scope
		late.Begin(&below)
		if late.Cause() != why { //nolint:errorlint // the very error
			t.Errorf("a scope that began too late: %v", late.Cause())
		}
	})
}

// The end of a scope reaches what is below it and nothing above, once.
func TestEnd(t *testing.T) {
	why := errors.New("why")
	var s, a, b scope.Scope
	s.Begin(context.Background())
	a.Begin(&s)
	b.Begin(&s)
	var w, gone watcher
	if !a.Watch(&gone) || !a.Watch(&w) || !a.Unwatch(&gone) || a.Unwatch(&gone) {
		t.Fatal("watching does not work")
	}
	a.End(why)
	a.End(nil)
	if a.Cause() != why || s.Err() != nil || b.Err() != nil || w.n.Load() != 1 || gone.n.Load() != 0 { //nolint:errorlint // the very error
		t.Errorf("cause %v, parent %v, sibling %v, told %d and %d times", a.Cause(), s.Err(), b.Err(), w.n.Load(), gone.n.Load())
	}
	if a.Watch(&w) || a.Unwatch(&w) {
		t.Error("an ended scope is watched")
	}
	s.End(nil)
	if b.Cause() != context.Canceled { //nolint:errorlint // the very error
		t.Errorf("the sibling: %v", b.Cause())
	}
}

func TestAfterFunc(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s scope.Scope
		s.Begin(context.Background())
		calls := 0
		stop := context.AfterFunc(&s, func() { calls++ })
		never := context.AfterFunc(&s, func() { calls += 100 })
		if !never() || never() {
			t.Error("stopping does not work")
		}
		s.End(nil)
		synctest.Wait()
		context.AfterFunc(&s, func() { calls += 10 })
		synctest.Wait()
		if stop() || calls != 11 {
			t.Errorf("calls %d", calls)
		}
	})
}

// Whoever watches is told or has stopped watching, never both, and a scope that
// ends leaves nothing behind in its parent.
func TestConcurrent(t *testing.T) {
	var s scope.Scope
	s.Begin(context.Background())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				var own scope.Scope
				own.Begin(&s)
				var w watcher
				watched := own.Watch(&w)
				wg.Go(func() { own.End(nil) })
				if watched && own.Unwatch(&w) {
					<-own.Done()
					if w.n.Load() != 0 {
						t.Error("told although it had stopped watching")
					}
				}
			}
		})
	}
	time.Sleep(time.Millisecond)
	s.End(nil)
	wg.Wait()
	if allocs := testing.AllocsPerRun(100, func() {
		x := new(scope.Scope)
		x.Begin(&s)
		x.End(nil)
	}); allocs > 1 {
		t.Errorf("%v allocations, want the scope's own", allocs)
	}
}

// The yardstick is what it stands for: two contexts and a function that waits.
func BenchmarkScope(b *testing.B) {
	var base scope.Scope
	base.Begin(context.Background())
	var w watcher
	b.ReportAllocs()
	for b.Loop() {
		x := new([2]scope.Scope)
		x[0].Begin(&base)
		x[1].Begin(&x[0])
		x[1].Watch(&w)
		x[1].Unwatch(&w)
		x[1].End(nil)
		x[0].End(nil)
	}
}

func BenchmarkContext(b *testing.B) {
	base, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		outer, end := context.WithCancel(base)
		inner, endInner := context.WithCancelCause(outer)
		stop := context.AfterFunc(inner, func() {})
		stop()
		endInner(nil)
		end()
	}
}
