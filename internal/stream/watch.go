package stream

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
)

// watch is what happens to a stream while its goroutine waits: keep-alives in
// a long silence, the end of a provider that fell silent and of a client that
// stopped reading, and the late flush of the mode coalesce. It is one timer,
// which looks at what the copier leaves in atomics, so that an event costs no
// timer operation.
type watch struct {
	c     *copier
	timer *time.Timer
	base  time.Time

	// turn is held by whoever uses the client's side: the copier for a write,
	// the watch for a ping. It guards no data, and the watch only ever tries it.
	turn   sync.Mutex
	closed bool        // guarded by turn
	ended  atomic.Bool // the timer need not be set again

	read    atomic.Int64 // when the provider was last heard, in ns since base
	wrote   atomic.Int64 // when the last write ended, likewise
	writing atomic.Int64 // when the write under way began, likewise; 0 for none
	unsent  atomic.Int64 // when the oldest unflushed byte was written; 0 for none
	content atomic.Bool  // the first content has come
	slow    atomic.Bool  // the client was given up
}

func (w *watch) start(c *copier) {
	w.c, w.base = c, time.Now()
	// Made stopped, so that the first tick surely finds the timer in place.
	w.timer = time.AfterFunc(math.MaxInt64, w.tick)
	w.timer.Reset(w.next(0))
}

// stop ends the watch; when it returns, the watch will not touch the client
// again.
func (w *watch) stop() {
	w.ended.Store(true)
	w.timer.Stop()
	w.turn.Lock()
	w.closed = true
	w.turn.Unlock()
}

func (w *watch) now() int64 { return int64(time.Since(w.base)) + 1 } // never 0

func (w *watch) heard()  { w.read.Store(w.now()) }
func (w *watch) tokens() { w.content.Store(true) }

// begun is whether the client has been sent anything, a keep-alive included.
func (w *watch) begun() bool {
	w.turn.Lock()
	defer w.turn.Unlock()
	return w.c.To.Begun()
}

func (w *watch) lock() {
	w.turn.Lock()
	w.writing.Store(w.now())
}

// unlock ends a write and returns how long it took.
func (w *watch) unlock(unflushed bool) time.Duration {
	now := w.now()
	took := now - w.writing.Load()
	w.wrote.Store(now)
	w.writing.Store(0)
	if !unflushed {
		w.unsent.Store(0)
	} else if w.unsent.Load() == 0 {
		w.unsent.Store(now)
	}
	w.turn.Unlock()
	return time.Duration(took)
}

// tick looks at the stream and sets the timer for the next look.
func (w *watch) tick() {
	now, p := w.now(), w.c.plan
	switch began := w.writing.Load(); {
	case began > 0:
		if now-began >= int64(p.write) && w.slow.CompareAndSwap(false, true) {
			// The write under way fails now, and the copier with it.
			_ = w.c.To.SetWriteDeadline(time.Unix(1, 0))
		}
	case w.idle(now):
		w.c.From.Abort(&fault.Error{Kind: fault.UpstreamIdle, Op: "stream.Copy"})
	default:
		w.maybeSend(now)
	}
	if !w.ended.Load() {
		w.timer.Reset(w.next(now))
	}
}

// idle is whether the provider has been silent for too long. Before the first
// content its timeout is the one for that.
func (w *watch) idle(now int64) bool {
	idle := int64(w.c.Idle)
	return idle > 0 && w.content.Load() && now-w.read.Load() >= idle
}

// maybeSend flushes what has waited long enough, or sends a keep-alive into a
// long silence.
func (w *watch) maybeSend(now int64) {
	p := w.c.plan
	late := p.flush == flushCoalesce && w.unsent.Load() > 0 && now-w.unsent.Load() >= int64(p.coalesce)
	quiet := p.keepalive > 0 && p.flush != flushFull && now-max(w.read.Load(), w.wrote.Load()) >= int64(p.keepalive)
	if !late && !quiet || !w.turn.TryLock() {
		return
	}
	defer w.turn.Unlock()
	if w.closed {
		return
	}
	// Nobody watches this write, so it carries its own bound.
	_ = w.c.To.SetWriteDeadline(time.Now().Add(p.write))
	if quiet {
		_, _ = w.c.To.Write(w.c.In.Ping(nil, w.c.Op))
	}
	_ = w.c.To.Flush()
	_ = w.c.To.SetWriteDeadline(time.Time{})
	w.wrote.Store(w.now())
	w.unsent.Store(0)
}

// next is how long until the earliest thing that may be due.
func (w *watch) next(now int64) time.Duration {
	p := w.c.plan
	due := now + int64(p.write)
	earlier := func(at int64) { due = min(due, at) }
	if p.keepalive > 0 && p.flush != flushFull {
		earlier(max(w.read.Load(), w.wrote.Load()) + int64(p.keepalive))
	}
	if w.c.Idle > 0 {
		earlier(w.read.Load() + int64(w.c.Idle))
	}
	if began := w.writing.Load(); began > 0 {
		earlier(began + int64(p.write))
	}
	if p.flush == flushCoalesce {
		earlier(now + int64(p.coalesce)/4)
	}
	return time.Duration(max(due-now, int64(minTick)))
}

// minTick keeps the watch from spinning on a deadline that has just passed.
const minTick = 5 * time.Millisecond
