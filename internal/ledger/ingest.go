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
	// mostRows and gathering bound a batch: a commit costs as much as hundreds of
	// entries. Nobody waits for it: who reads has what is there brought over first.
	mostRows  = 4096
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
	full  chan struct{} // cap 1: a batch is complete
	hurry chan struct{} // cap 1: someone waits in flush
	stop  chan struct{} // closed by close
	ended chan struct{} // closed by run

	ingested atomic.Int64 // records

	mu       sync.Mutex
	failures int           // attempts, in all
	err      error         // of the latest failure
	changed  chan struct{} // closed and replaced with each attempt
	since    time.Time     // the oldest record that waits came no earlier

	// Owned by run.
	pause    time.Duration
	last     bool      // the attempt under way is the last one
	nextWord time.Time // when a failure may be logged again
}

func newIngester(s *spool, store Store, log *slog.Logger) *ingester {
	g := &ingester{spool: s, store: store, log: log,
		wake: make(chan struct{}, 1), full: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
		stop: make(chan struct{}), ended: make(chan struct{}), changed: make(chan struct{}), since: time.Now()}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	s.notify = g.appended
	return g
}

// appended is called after each append. It does not block, and wakes the
// goroutine only if that sleeps: to wake it costs more than the append does.
func (g *ingester) appended() {
	if g.idle.Load() && g.idle.CompareAndSwap(true, false) {
		poke(g.wake)
	}
	if g.records()%mostRows == 0 {
		poke(g.full)
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// records is how many wait, where none were found damaged.
func (g *ingester) records() int64 { return g.spool.appended.Load() - g.ingested.Load() }

func (g *ingester) run() {
	defer close(g.ended)
	for {
		if !g.drain() {
			return
		}
		if !g.sleep() {
			g.drain()
			return
		}
	}
}

// sleep waits for records, lets some come together, and reports false at the
// end.
func (g *ingester) sleep() bool {
	g.idle.Store(true)
	if g.spool.waiting() == 0 {
		select {
		case <-g.wake:
		case <-g.hurry:
			return true
		case <-g.stop:
			return false
		}
	}
	g.idle.Store(false)
	g.mu.Lock()
	g.since = time.Now()
	g.mu.Unlock()
	select {
	case <-time.After(gathering):
	case <-g.full:
	case <-g.hurry:
	case <-g.stop:
		return false
	}
	return true
}

// drain brings over what there is. It reports false if it had to give up at the
// end.
func (g *ingester) drain() bool {
	for {
		mark := time.Now()
		b, err := g.spool.read(mostRows)
		if err == nil && b.segment == nil {
			return true
		}
		if err == nil && len(b.Entries) > 0 {
			err = g.insert(b.Batch)
		}
		if err != nil {
			if !g.failed(err) {
				return false
			}
			continue
		}
		g.spool.done(b)
		g.succeeded(int64(len(b.Entries)), mark)
	}
}

func (g *ingester) insert(b Batch) error {
	ctx, cancel := context.WithTimeout(g.ctx, attempt)
	defer cancel()
	return g.store.Insert(ctx, b)
}

func (g *ingester) succeeded(n int64, mark time.Time) {
	if g.pause > 0 {
		g.log.Info("the ledger's store takes entries again")
	}
	g.pause = 0
	g.ingested.Add(n)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.since = mark
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
		g.log.Error("the ledger's store does not take entries; they wait in the spool, and nothing is lost", "err", err, "records", g.records(), "folder", g.spool.dir)
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
	target := g.spool.written.Load()
	g.mu.Lock()
	failures := g.failures
	g.mu.Unlock()
	for {
		g.mu.Lock()
		done, failed, err, changed := g.spool.taken.Load() >= target, g.failures > failures, g.err, g.changed
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

func (g *ingester) lag() Lag {
	l := Lag{Bytes: g.spool.waiting()}
	if l.Bytes > 0 {
		g.mu.Lock()
		defer g.mu.Unlock()
		l.Records, l.Age = max(1, g.records()), time.Since(g.since)
	}
	return l
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
	if n := g.lag().Records; n > 0 {
		return fmt.Errorf("%d entries of the ledger wait in the spool %s for the next start", n, g.spool.dir)
	}
	return nil
}
