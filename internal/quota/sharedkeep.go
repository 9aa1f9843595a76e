package quota

import (
	"context"
	"time"
)

// every does something at intervals until the context ends. What has been begun
// then is not broken off: a call that was would look as if the store were gone, and
// what the room has would not be given back to it.
func every(ctx context.Context, interval time.Duration, do func(context.Context)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do(context.WithoutCancel(ctx))
		}
	}
}

// round reports what was used, renews what is held, and looks whether a store that
// was given up is back.
func (s *sharing) round(ctx context.Context) {
	now := s.at()
	if s.down.Load() && !s.beat(ctx, s.timeout) {
		return
	}
	renew := s.down.Load() || now-s.renewed >= int64(renewEvery)
	if !s.flush(ctx, renew, false) {
		return
	}
	if renew {
		s.renewed = now
	}
	if s.down.CompareAndSwap(true, false) {
		// What was used meanwhile has been taken from the store: nothing is there
		// that was used already.
		s.note(nil)
		s.pulse(ctx)
	}
}

// list notes that a cell has something to report or to renew. The cell is locked.
func (s *sharing) list(c *cell) {
	if c.lease.listed {
		return
	}
	c.lease.listed = true
	s.mu.Lock()
	s.live = append(s.live, c)
	s.mu.Unlock()
}

// mostChanges is how many changes are reported at once, so that the store is
// never busy with one gateway's for long.
const mostChanges = 128

// flush reports what has changed, and with renew all that is held; with everything
// it gives all leases back. It is whether the store heard all of it.
func (s *sharing) flush(ctx context.Context, renew, everything bool) bool {
	s.mu.Lock()
	cells, backs := s.live, s.backs
	s.live, s.backs = nil, nil
	s.mu.Unlock()
	for len(backs) > 0 {
		n := min(len(backs), mostChanges)
		if !s.send(ctx, &batch{changes: backs[:n]}) {
			s.relist(cells)
			return false
		}
		backs = backs[n:]
	}
	var b batch
	for i, c := range cells {
		s.collect(c, &b, renew, everything)
		if len(b.changes) < mostChanges && i < len(cells)-1 {
			continue
		}
		if !s.send(ctx, &b) {
			s.relist(cells[i+1:])
			return false
		}
	}
	return true
}

func (s *sharing) relist(cells []*cell) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = append(s.live, cells...)
}

// batch is changes under way, and what to do if they do not arrive.
type batch struct {
	changes []Change
	cells   []*cell // of each change
	gates   []*lease
}

// send reports a batch and empties it.
func (s *sharing) send(ctx context.Context, b *batch) bool {
	defer func() {
		leave(b.gates)
		*b = batch{}
	}()
	if len(b.changes) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	sent := s.at()
	err := s.trip(s.store.Report(ctx, b.changes))
	for i, c := range b.cells {
		c.mu.Lock()
		if err == nil {
			c.lease.renewed = sent
			c.mu.Unlock()
			continue
		}
		if b.changes[i].Amount > 0 {
			c.lease.unpaid += b.changes[i].Amount
		}
		c.lease.told = unknown
		s.list(c)
		c.mu.Unlock()
	}
	return err == nil
}

// collect adds what a cell has to report, and lists it again if there will be
// more.
func (s *sharing) collect(c *cell, b *batch, renew, everything bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, now := c.lease, s.at()
	e.listed = false
	if e.bound.keep() == KeepHeld {
		s.collectHeld(c, b, now, renew, everything)
		return
	}
	back := e.n
	if !everything && now < e.touched+leaseAge && now < e.until {
		back = max(0, e.n-e.size)
	}
	e.n -= back
	owed := e.debt
	if e.unpaid > 0 {
		// What was used long ago has come back since.
		owed += min(e.unpaid, max(0, c.bound.capacity()-c.bound.available(&c.state, now)))
	}
	e.debt, e.unpaid = 0, 0
	// After a failure nothing is reported too, which shows whether this count's
	// server answers again: in a cluster it need not be that of the beats.
	if amount := owed - back; amount != 0 || e.told == unknown {
		e.told = 0
		b.add(c, Change{Account: c.account(now), Amount: amount, Age: time.Duration(now - e.touched)})
	}
	if e.n > 0 {
		s.list(c)
	}
}

func (b *batch) add(c *cell, ch Change) {
	b.changes = append(b.changes, ch)
	b.cells = append(b.cells, c)
}

// unknown is what the store may know of what is held when it did not answer.
const unknown = -1

// collectHeld reports what is held as a whole, which needs the gate: what the
// store is being asked for at this moment is neither held nor not.
func (s *sharing) collectHeld(c *cell, b *batch, now int64, renew, everything bool) {
	e := c.lease
	c.turn(now)
	keep := min(e.n, max(0, e.remaining/8))
	if everything || now > e.touched+leaseAge {
		keep = 0
	}
	if keep == e.n && e.told == c.held() && e.toldSpent == e.spent && !renew {
		s.relistHeld(c)
		return
	}
	select {
	case e.gate <- struct{}{}:
	default:
		s.list(c)
		return
	}
	b.gates = append(b.gates, e)
	e.remaining += e.n - keep
	e.n = keep
	b.add(c, Change{Account: c.account(now)})
	s.relistHeld(c)
}

// relistHeld lists a cell again while there is something to renew.
func (s *sharing) relistHeld(c *cell) {
	if c.lease.n > 0 || c.state.held > 0 || c.state.purse.reserved > 0 {
		s.list(c)
	}
}

// giveBack tells the store of what was taken of a window long ago and not used.
func (s *sharing) giveBack(t *taken, n, begun, now int64) {
	a := t.cell.account(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.backs) < mostBacks {
		s.backs = append(s.backs, Change{Account: a, Amount: -n, Age: time.Duration(now - begun)})
	}
}

// mostBacks bounds what is kept while the store is gone. What is lost leaves its
// window in time.
const mostBacks = 10_000

// close gives back everything and takes leave. A store that is gone forgets this
// gateway by itself.
func (s *sharing) close() error {
	s.stop()
	s.workers.Wait()
	if !s.down.Load() {
		s.flush(context.Background(), true, true)
	}
	return s.store.Close()
}
