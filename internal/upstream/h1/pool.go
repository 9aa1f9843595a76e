package h1

import (
	"container/list"
	"context"
	"time"

	"github.com/headgate-ai/headgate/internal/scope"
)

// hostKey is what connections are shared by.
type hostKey struct{ scheme, host string }

// host is the connections to one host. It is guarded by Transport.mu, and
// lives as long as a connection or a waiting caller does.
//
// Idle connections and waiting callers never exist together: a connection that
// comes back goes to the first who waits.
type host struct {
	key     hostKey
	open    int // slots taken: connections in use, idle or being dialled
	idle    []*conn
	waiting list.List // of *waiter
}

// waiter is a caller for whom there is no connection yet.
type waiter struct {
	ready chan *conn // a connection, or nil for the slot to dial one
}

// acquire gives a connection from the pool, or a new one.
func (t *Transport) acquire(ctx context.Context, key hostKey, info *Info) (*conn, error) {
	if ctx.Err() != nil {
		return nil, scope.Cause(ctx)
	}
	t.mu.Lock()
	t.closeIdle = false
	h := t.host(key)
	if c := h.pop(); c != nil {
		t.mu.Unlock()
		return t.use(ctx, h, c, info)
	}
	if t.cfg.MaxConns > 0 && h.open >= t.cfg.MaxConns {
		return t.wait(ctx, h, info, h.waiting.PushBack)
	}
	h.open++
	t.mu.Unlock()
	return t.dial(ctx, h, info)
}

// acquireNew gives a new connection.
func (t *Transport) acquireNew(ctx context.Context, key hostKey, info *Info) (*conn, error) {
	t.mu.Lock()
	h := t.host(key)
	if t.cfg.MaxConns <= 0 || h.open < t.cfg.MaxConns {
		h.open++
		t.mu.Unlock()
		return t.dial(ctx, h, info)
	}
	if c := h.pop(); c != nil { // its place is worth more than itself
		t.mu.Unlock()
		c.close()
		return t.dial(ctx, h, info)
	}
	return t.wait(ctx, h, info, h.waiting.PushFront) // it has waited already
}

// use makes sure that a pooled connection is alive. If it is dead the next one
// is tried, and in the end a new one is dialled in the place of the last.
func (t *Transport) use(ctx context.Context, h *host, c *conn, info *Info) (*conn, error) {
	for {
		now := time.Now()
		expired := t.cfg.IdleTimeout > 0 && now.Sub(c.idleAt) >= t.cfg.IdleTimeout
		if !expired && c.alive() {
			c.reused = true
			info.Connected, info.Reused = now, true
			t.reused.Add(1)
			return c, nil
		}
		c.close()
		t.mu.Lock()
		if expired {
			t.stats.Expired++
		} else {
			t.stats.Stale++
		}
		next := h.pop()
		if next != nil {
			t.freeSlot(h) // next has its own
		}
		t.mu.Unlock()
		if next == nil {
			return t.dial(ctx, h, info)
		}
		c = next
	}
}

// wait queues for a connection. It is called with the lock held and gives it
// up.
func (t *Transport) wait(ctx context.Context, h *host, info *Info, push func(any) *list.Element) (*conn, error) {
	w := &waiter{ready: make(chan *conn, 1)}
	e := push(w)
	t.mu.Unlock()
	select {
	case c := <-w.ready:
		return t.granted(ctx, h, c, info)
	case <-ctx.Done():
	}
	t.mu.Lock()
	select {
	case c := <-w.ready: // given at the same time: pass it on
		t.mu.Unlock()
		if c != nil {
			t.put(c)
		} else {
			t.mu.Lock()
			t.freeSlot(h)
			t.mu.Unlock()
		}
	default:
		h.waiting.Remove(e)
		t.forget(h)
		t.mu.Unlock()
	}
	return nil, scope.Cause(ctx)
}

func (t *Transport) granted(ctx context.Context, h *host, c *conn, info *Info) (*conn, error) {
	if c == nil {
		return t.dial(ctx, h, info)
	}
	return t.use(ctx, h, c, info)
}

// put gives a connection back after an exchange that ended well.
func (t *Transport) put(c *conn) {
	h := c.host
	c.idleAt = time.Now()
	t.mu.Lock()
	if e := h.waiting.Front(); e != nil {
		h.waiting.Remove(e)
		e.Value.(*waiter).ready <- c
		t.mu.Unlock()
		return
	}
	if t.closeIdle || t.cfg.MaxIdle < 0 || t.cfg.MaxIdle > 0 && len(h.idle) >= t.cfg.MaxIdle {
		t.freeSlot(h)
		t.mu.Unlock()
		c.close()
		return
	}
	h.idle = append(h.idle, c)
	if !t.armed && t.cfg.IdleTimeout > 0 {
		t.arm(t.cfg.IdleTimeout)
	}
	t.mu.Unlock()
}

// drop gives back the slot of a connection that was closed.
func (t *Transport) drop(h *host) {
	t.mu.Lock()
	t.freeSlot(h)
	t.mu.Unlock()
}

// freeSlot passes a slot on to the first who waits.
func (t *Transport) freeSlot(h *host) {
	if e := h.waiting.Front(); e != nil {
		h.waiting.Remove(e)
		e.Value.(*waiter).ready <- nil
		return
	}
	h.open--
	t.forget(h)
}

func (t *Transport) host(key hostKey) *host {
	h := t.hosts[key]
	if h == nil {
		h = &host{key: key}
		t.hosts[key] = h
	}
	return h
}

// forget removes a host that has nothing any more.
func (t *Transport) forget(h *host) {
	if h.open == 0 && h.waiting.Len() == 0 && t.hosts[h.key] == h {
		delete(t.hosts, h.key)
	}
}

// pop takes the connection that was used last: it is the likeliest to live.
func (h *host) pop() *conn {
	n := len(h.idle) - 1
	if n < 0 {
		return nil
	}
	c := h.idle[n]
	h.idle[n] = nil
	h.idle = h.idle[:n]
	return c
}

// arm starts the sweeper. It is not stopped when the last idle connection is
// taken, which would cost two timer operations a request: it comes once, finds
// nothing, and is not started again.
func (t *Transport) arm(d time.Duration) {
	t.armed = true
	if t.timer == nil {
		t.timer = time.AfterFunc(d, t.sweep)
		return
	}
	t.timer.Reset(d)
}

// sweep closes the connections that were idle for too long.
func (t *Transport) sweep() {
	var dead []*conn
	now := time.Now()
	var next time.Duration
	t.mu.Lock()
	t.armed = false
	for _, h := range t.hosts {
		n := 0 // the oldest lie first
		for n < len(h.idle) && now.Sub(h.idle[n].idleAt) >= t.cfg.IdleTimeout {
			n++
		}
		dead = append(dead, h.idle[:n]...)
		h.idle = append([]*conn(nil), h.idle[n:]...)
		h.open -= n
		if len(h.idle) > 0 {
			if left := t.cfg.IdleTimeout - now.Sub(h.idle[0].idleAt); next == 0 || left < next {
				next = left
			}
		}
		t.forget(h)
	}
	t.stats.Expired += int64(len(dead))
	if next > 0 {
		t.arm(next)
	}
	t.mu.Unlock()
	for _, c := range dead {
		c.close()
	}
}

// CloseIdleConnections closes the connections that are not in use, and those
// that come back before the next request.
func (t *Transport) CloseIdleConnections() {
	var dead []*conn
	t.mu.Lock()
	t.closeIdle = true
	for _, h := range t.hosts {
		dead = append(dead, h.idle...)
		h.open -= len(h.idle)
		h.idle = nil
		t.forget(h)
	}
	if t.timer != nil {
		t.timer.Stop()
		t.armed = false
	}
	t.mu.Unlock()
	for _, c := range dead {
		c.close()
	}
}

// Stats counts the connections.
func (t *Transport) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Reused = t.reused.Load()
	for _, h := range t.hosts {
		s.Open += h.open
		s.Idle += len(h.idle)
		s.Waiting += h.waiting.Len()
	}
	s.InUse = s.Open - s.Idle
	return s
}
