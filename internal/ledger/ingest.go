package ledger

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// gathering is how long entries wait for others, unless a segment becomes
	// complete: a commit costs as much as hundreds of entries. Nobody waits for it:
	// who reads has what is there brought over first.
	gathering = 4 * time.Second
	// attempt bounds one Insert, so that a store that hangs is noticed.
	attempt = 30 * time.Second
	// firstPause doubles with each failure up to lastPause.
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
)

// Lag is what waits in the spool.
type Lag struct {
	Records, Bytes int64
	// Age is at least how long the oldest record has waited.
	Age time.Duration
}

// ingester brings the spool into the store, in one goroutine.
type ingester struct {
	spool *spool
	store Store
	log   *slog.Logger

	ctx    context.Context // ends when close's time is over
	cancel context.CancelFunc

	idle  atomic.Bool   // run sleeps until wake
	wake  chan struct{} // cap 1
	full  chan struct{} // cap 1: a segment is complete
	hurry chan struct{} // cap 1: someone waits in flush
	stop  chan struct{} // closed by close
	ended chan struct{} // closed by run

	mu       sync.Mutex
	failures int           // attempts, in all
	err      error         // of the latest failure
	changed  chan struct{} // closed and replaced with each attempt

	// Owned by run.
	begun    bool // the store has been asked to take something
	pause    time.Duration
	last     bool      // the attempt under way is the last one
	nextWord time.Time // when a failure may be logged again
}

func newIngester(s *spool, store Store, log *slog.Logger) *ingester {
	g := &ingester{spool: s, store: store, log: log,
		wake: make(chan struct{}, 1), full: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
		stop: make(chan struct{}), ended: make(chan struct{}), changed: make(chan struct{})}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	s.notify = g.appended
	return g
}

// appended is called after each append. It does not block, and wakes the
// goroutine only if that sleeps: to wake it costs more than the append does.
func (g *ingester) appended(complete bool) {
	if g.idle.Load() && g.idle.CompareAndSwap(true, false) {
		poke(g.wake)
	}
	if complete {
		poke(g.full)
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (g *ingester) run() {
	defer close(g.ended)
	for all, more := true, true; g.drain(all); {
		if all, more = g.sleep(); !more {
			g.drain(true)
			return
		}
	}
}

// sleep waits for records and lets some come together. It says whether to bring
// over all of them or complete segments only, and whether there will be more.
func (g *ingester) sleep() (all, more bool) {
	g.idle.Store(true)
	if g.spool.lag().Bytes == 0 {
		select {
		case <-g.wake:
		case <-g.hurry:
			return true, true
		case <-g.stop:
			return true, false
		}
	}
	g.idle.Store(false)
	if !g.begun {
		// What comes first waits for nothing: a store that cannot be reached is
		// noticed, and one that must be prepared is ready for what is to come.
		return true, true
	}
	select {
	case <-time.After(gathering):
		return true, true
	case <-g.full:
		return false, true
	case <-g.hurry:
		return true, true
	case <-g.stop:
		return true, false
	}
}

// drain brings over what has come: all of it, or the segments that are complete.
// What comes meanwhile is left to come together. It reports false if it had to
// give up at the end.
func (g *ingester) drain(all bool) bool {
	for come := g.spool.come(all); ; {
		b, err := g.spool.next(come)
		if err == nil && b.segment == nil {
			return true
		}
		if err == nil {
			err = g.insert(b.Batch)
		}
		if err != nil {
			if !g.failed(err) {
				return false
			}
			come = g.spool.come(true) // that has waited long enough
			continue
		}
		g.spool.done(b)
		g.succeeded()
	}
}

func (g *ingester) insert(b Batch) error {
	g.begun = true
	ctx, cancel := context.WithTimeout(g.ctx, attempt)
	defer cancel()
	return g.store.Insert(ctx, b)
}

func (g *ingester) succeeded() {
	if g.pause > 0 {
		g.log.Info("the ledger's store takes entries again")
	}
	g.pause = 0
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tell()
}

// tell wakes those who wait in flush. The caller holds mu.
func (g *ingester) tell() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// failed waits before the next attempt. At the end there is one more at once,
// and then it reports false.
func (g *ingester) failed(err error) bool {
	g.mu.Lock()
	g.failures++
	g.err = err
	g.tell()
	g.mu.Unlock()
	if now := time.Now(); !now.Before(g.nextWord) {
		g.nextWord = now.Add(time.Minute)
		g.log.Error("the ledger's store does not take entries; they wait in the spool, and nothing is lost", "err", err, "records", g.spool.lag().Records, "folder", g.spool.dir)
	}
	g.pause = min(max(firstPause, 2*g.pause), lastPause)
	select {
	case <-time.After(g.pause):
	case <-g.hurry:
	case <-g.stop:
		again := !g.last
		g.last = true
		return again
	}
	return true
}

// flush waits until all is in the store that is in the spool now.
func (g *ingester) flush(ctx context.Context) error {
	target := g.spool.come(true)
	g.mu.Lock()
	failures := g.failures
	g.mu.Unlock()
	for {
		g.mu.Lock()
		done, failed, err, changed := g.spool.has(target), g.failures > failures, g.err, g.changed
		g.mu.Unlock()
		switch {
		case done:
			return nil
		case failed:
			return fmt.Errorf("the ledger's store cannot be reached: %w", err)
		}
		poke(g.hurry)
		select {
		case <-changed:
		case <-g.ended:
			return errClosed
		case <-ctx.Done():
			return fmt.Errorf("the ledger's store does not have the latest entries yet: %w", ctx.Err())
		}
	}
}

// close brings over what is left, as long as ctx lasts.
func (g *ingester) close(ctx context.Context) error {
	close(g.stop)
	select {
	case <-g.ended:
	case <-ctx.Done():
		g.cancel()
		<-g.ended
	}
	g.cancel()
	if n := g.spool.lag().Records; n > 0 {
		return fmt.Errorf("%d entries of the ledger wait in the spool %s for the next start", n, g.spool.dir)
	}
	return nil
}
