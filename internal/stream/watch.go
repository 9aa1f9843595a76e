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

	// mu is held through every tick, so that stop has the last word.
	mu    sync.Mutex
	ended bool // guarded by mu

	// turn is held by whoever uses the client's side: the copier for a write,
	// the watch for a ping, which only ever tries it.
	turn    sync.Mutex
	pending int  // guarded by turn: bytes written and not yet flushed
	cr      bool // guarded by turn: the last byte that the client was sent is a CR

	// The times are in ns since base.
	awaited atomic.Int64 // since when the provider has been waited for in vain
	wrote   atomic.Int64 // when the last write ended
	writing atomic.Int64 // when the write under way began; 0 for none
	bound   atomic.Int64 // how long it may take
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

// stop ends the watch; when it returns, the watch will not touch the client or
// the provider again.
func (w *watch) stop() {
	w.mu.Lock()
	w.ended = true
	w.timer.Stop()
	w.mu.Unlock()
}

func (w *watch) now() int64 { return int64(time.Since(w.base)) + 1 } // never 0

func (w *watch) heard()  { w.awaited.Store(w.now()) }
func (w *watch) tokens() { w.content.Store(true) }

// begun is whether the client has been sent anything, a keep-alive included.
func (w *watch) begun() bool {
	w.turn.Lock()
	defer w.turn.Unlock()
	return w.c.To.Begun()
}

// lock begins a write of n bytes.
func (w *watch) lock(n int) {
	w.bound.Store(int64(w.c.plan.WriteTimeout(n)))
	w.writing.Store(w.now())
	w.turn.Lock()
}

// unlock ends a write and returns how long it took.
func (w *watch) unlock() time.Duration {
	now := w.now()
	took := now - w.writing.Load()
	w.wrote.Store(now)
	w.awaited.Store(now) // the provider was not listened to until now
	w.writing.Store(0)
	if w.pending == 0 {
		w.unsent.Store(0)
	} else if w.unsent.Load() == 0 {
		w.unsent.Store(now)
	}
	w.turn.Unlock()
	return time.Duration(took)
}

// tick looks at the stream and sets the timer for the next look.
func (w *watch) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	now := w.now()
	switch began := w.writing.Load(); {
	case began > 0:
		if now-began >= w.bound.Load() && w.slow.CompareAndSwap(false, true) {
			// The write under way fails now, and the copier with it.
			_ = w.c.To.SetWriteDeadline(time.Unix(1, 0))
		}
	case w.idle(now):
		w.c.From.Abort(&fault.Error{Kind: fault.UpstreamIdle, Op: "stream.Copy"})
	default:
		w.maybeSend(now)
	}
	w.timer.Reset(w.next(w.now()))
}

// idle is whether the provider has been silent for too long. Before the first
// content its timeout is the one for that.
func (w *watch) idle(now int64) bool {
	idle := int64(w.c.Idle)
	return idle > 0 && w.content.Load() && now-w.awaited.Load() >= idle
}

// maybeSend flushes what has waited long enough, or sends a keep-alive into a
// long silence.
func (w *watch) maybeSend(now int64) {
	p := w.c.plan
	late := p.flush == flushCoalesce && w.unsent.Load() > 0 && now-w.unsent.Load() >= int64(p.coalesce)
	quiet := p.keepalive > 0 && p.flush != flushFull && now-w.wrote.Load() >= int64(p.keepalive)
	if !late && !quiet || !w.turn.TryLock() {
		return
	}
	defer w.turn.Unlock()
	// Nobody watches this write, so it carries its own bound.
	_ = w.c.To.SetWriteDeadline(time.Now().Add(p.write))
	var err error
	if quiet {
		_, err = w.c.To.Write(w.c.In.Ping(nil, w.c.Op))
		w.cr = false
	}
	if err == nil {
		err = w.c.To.Flush()
	}
	if err != nil {
		w.lost(now, err)
		return
	}
	_ = w.c.To.SetWriteDeadline(time.Time{})
	w.pending = 0
	w.wrote.Store(w.now())
	w.unsent.Store(0)
}

// lost ends a stream whose client could not be written to: the copier waits
// for the provider, and would not notice before its next write.
func (w *watch) lost(began int64, err error) {
	kind := fault.Canceled
	if w.now()-began >= int64(w.c.plan.write) {
		kind = fault.SlowClient
		w.slow.Store(true)
	}
	w.c.From.Abort(fault.Wrap(kind, "stream.Copy", err))
}

// next is how long until the earliest thing that may be due. What may begin to
// run after this look is looked for once in its own time, and then exactly.
func (w *watch) next(now int64) time.Duration {
	p := w.c.plan
	due := now + int64(p.write)
	if began := w.writing.Load(); began > 0 {
		due = min(began+w.bound.Load(), now+int64(whileWriting))
		return time.Duration(max(due-now, int64(minTick)))
	}
	if p.keepalive > 0 && p.flush != flushFull {
		due = min(due, w.wrote.Load()+int64(p.keepalive))
	}
	switch {
	case w.c.Idle <= 0:
	case w.content.Load():
		due = min(due, w.awaited.Load()+int64(w.c.Idle))
	default:
		due = min(due, now+int64(w.c.Idle))
	}
	if p.flush == flushCoalesce {
		if since := w.unsent.Load(); since > 0 {
			due = min(due, since+int64(p.coalesce))
		} else {
			due = min(due, now+int64(p.coalesce)/2)
		}
	}
	return time.Duration(max(due-now, int64(minTick)))
}

const (
	// minTick keeps the watch from spinning on a deadline that has just passed.
	minTick = 5 * time.Millisecond
	// whileWriting is how soon the watch looks again when it finds a write under
	// way, behind which anything may be due.
	whileWriting = 100 * time.Millisecond
)
