package quota

import (
	"context"
	"time"
)

// part is how much is wanted of one cell.
type part struct {
	*taken
	n      int64
	have   bool  // drawn from the lease, or granted
	drawn  int64 // what of it the lease had, until all parts are had
	from   int64 // the budget's period that that was of
	denied int64
}

// verdict is where the attempt to have all parts stands.
type verdict uint8

const (
	isLacking verdict = iota
	isComplete
	isRefused
)

// reserveShared is Reserve where counts are shared.
func (h *Hold) reserveShared(p *Plan, s *Subject, concerns []*concern) error {
	var room [len(h.takenRoom)]part
	parts := room[:0]
	for i := range h.taken {
		parts = append(parts, part{taken: &h.taken[i], n: h.taken[i].n})
	}
	h.pin(p, s, concerns)
	if worst := h.obtain(parts); worst != nil {
		defer h.unpin()
		return h.turnAway(worst)
	}
	return nil
}

// pin keeps the cells of the hold in the table while they are not locked.
func (h *Hold) pin(p *Plan, s *Subject, concerns []*concern) {
	for i, c := range concerns {
		t := &h.taken[i]
		t.cell = c.lock(h.room)
		if t.cell.lease == nil {
			t.cell.lease = h.room.sharing.newLease(t.limit, s)
		}
		t.cell.lease.limit = t.limit // a new configuration may have changed it
		t.bring(p, s, h.begun)
		t.cell.holds++
		t.cell.mu.Unlock()
	}
}

func (h *Hold) unpin() {
	h.lockCells()
	for i := range h.taken {
		h.taken[i].cell.holds--
	}
	h.unlock()
}

// turnAway makes the refusal. Nothing of the parts is taken.
func (h *Hold) turnAway(worst *part) error {
	h.lockCells()
	defer h.unlock()
	worst.limit.count.Refused.Add(1)
	if worst.denied == 0 {
		h.stand(nil)
		return outOfReach()
	}
	h.stand(worst.taken)
	return worst.refusal(worst.denied, h.begun)
}

// lockCells locks the cells of a hold that pins them.
func (h *Hold) lockCells() {
	for i := range h.taken {
		h.taken[i].cell.mu.Lock()
	}
}

// obtain takes all parts or none: from the leases, and where they are short from
// the store; where that is gone, as is configured. It returns the part that is in
// the way.
func (h *Hold) obtain(parts []part) *part {
	s := h.room.sharing
	v, worst := h.draw(parts, true)
	if v == isLacking && !s.down.Load() {
		v, worst = h.ask(parts)
	}
	if v == isLacking {
		v, worst = h.alone(parts)
	}
	if v == isRefused {
		h.putBack(parts)
		return worst
	}
	return nil
}

// draw takes from the leases what they have, and all that is to be taken if that
// is everything. The first time it notes what is needed, so that whoever asks the
// store asks for all who wait.
func (h *Hold) draw(parts []part, first bool) (verdict, *part) {
	h.lockCells()
	defer h.unlock()
	now := h.now()
	var worst *part
	v := isComplete
	for i := range parts {
		p := &parts[i]
		if p.have || p.failed {
			continue
		}
		p.cell.turn(now)
		w := p.refuses(now)
		switch {
		case w != 0 && p.limit.rule.shadow:
			p.shadowed()
		case w != 0:
			p.denied = w
			if worst == nil || w > worst.denied {
				worst = p
			}
		case !p.enough(p.n, now):
			v = isLacking
		}
	}
	if worst != nil {
		return isRefused, worst
	}
	for i := range parts {
		p := &parts[i]
		if !p.have && !p.failed && p.enough(p.n, now) {
			p.draw(p.n)
			p.cell.lease.touched = now
			p.have = true
		} else if first && !p.have && !p.failed {
			p.cell.lease.waiting += min(p.n, mostNeed)
		}
	}
	if v == isComplete {
		h.commit(parts, now)
	}
	return v, nil
}

// refuses is how long the need cannot be had, as far as is known here, or 0.
func (p *part) refuses(now int64) int64 {
	e := p.cell.lease
	switch b := p.whole(); {
	case p.limit.budget != nil:
		if p.n > p.limit.budget.limit {
			return never
		}
	case p.n > b.capacity() || b.algorithm == algWindow && p.n > b.burst:
		return never
	}
	if p.enough(p.n, now) {
		return 0
	}
	w := e.denies(p.n, now)
	if w != 0 && p.whole().keep() != KeepHeld && p.n > 0 {
		// Who is refused shows how much could be used: the next grant may be
		// that large.
		e.waiting = min(e.waiting+min(p.n, mostNeed), mostNeed)
	}
	return w
}

func (p *part) shadowed() {
	p.failed = true
	p.limit.count.Shadowed.Add(1)
}

// now is the time by the room's clock. A call may have waited since it began.
func (h *Hold) now() int64 { return h.room.at(time.Now()) }

// ask asks the store for what the leases lack. One call at a time does so for
// each cell; those who wait for it find a lease.
func (h *Hold) ask(parts []part) (verdict, *part) {
	s := h.room.sharing
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	held, waited := enter(ctx, parts)
	defer leave(held)
	if len(held) == 0 || s.down.Load() {
		return isLacking, nil
	}
	if waited {
		if v, worst := h.draw(parts, false); v != isLacking {
			return v, worst
		}
	}
	for s.informed(ctx) {
		known := s.news.Load()
		wants, of := h.wants(parts)
		a, err := s.acquire(ctx, wants)
		if err == nil && s.stillHolds(ctx, known) {
			return h.absorb(parts, of, &a)
		}
		h.forget(parts, of)
		if err != nil {
			break
		}
	}
	return isLacking, nil
}

// forget notes that what the store granted of some parts is not known, or not
// used.
func (h *Hold) forget(parts []part, of []int) {
	h.lockCells()
	defer h.unlock()
	for _, i := range of {
		parts[i].cell.lease.told = unknown
		h.room.sharing.list(parts[i].cell)
	}
}

// enter takes the gates of the parts that lack something, in their order, so that
// no two calls wait for each other. It takes none if the time is over.
func enter(ctx context.Context, parts []part) (held []*lease, waited bool) {
	for i := range parts {
		p := &parts[i]
		if p.have || p.failed {
			continue
		}
		select {
		case p.cell.lease.gate <- struct{}{}:
			held = append(held, p.cell.lease)
			continue
		default:
		}
		waited = true
		select {
		case p.cell.lease.gate <- struct{}{}:
			held = append(held, p.cell.lease)
		case <-ctx.Done():
			leave(held)
			return nil, true
		}
	}
	return held, waited
}

func leave(held []*lease) {
	for _, e := range held {
		<-e.gate
	}
}

// wants is what the parts lack, and which they are.
func (h *Hold) wants(parts []part) (wants []Want, of []int) {
	h.lockCells()
	defer h.unlock()
	s, now := h.room.sharing, h.now()
	for i := range parts {
		p := &parts[i]
		if p.have || p.failed {
			continue
		}
		e := p.cell.lease
		account := p.cell.account(now)
		p.draw(min(p.n-p.drawn, p.usable(now)))
		wants = append(wants, Want{
			Account: account, Need: p.n - p.drawn, Extra: s.lease * min(p.n, mostNeed),
			Waiting: max(0, min(e.waiting-p.n, s.lease*min(p.n, mostNeed))), Soft: p.limit.rule.shadow,
		})
		of = append(of, i)
	}
	return wants, of
}

// mostNeed keeps leases from overflowing.
const mostNeed = int64(1) << 40

// absorb takes in what the store said.
func (h *Hold) absorb(parts []part, of []int, a *Answer) (verdict, *part) {
	h.lockCells()
	defer h.unlock()
	now := h.now()
	var worst *part
	for i, g := range a.Given {
		p := &parts[of[i]]
		if g.Unasked {
			continue
		}
		p.cell.lease.hear(g, now)
		switch {
		case a.OK && g.OK:
			p.grant(p.n-p.drawn, g, now)
			p.have = true
			p.cell.lease.told += g.Granted
			h.room.sharing.list(p.cell)
		case g.OK:
		case p.limit.rule.shadow:
			p.release()
			p.shadowed()
		default:
			p.denied = p.deny(p.n, g, now)
			if worst == nil || p.denied > worst.denied {
				worst = p
			}
		}
	}
	if worst != nil {
		return isRefused, worst
	}
	h.commit(parts, now)
	return isComplete, nil
}

// commit counts what was obtained in the gateway's own state, which decides when
// the store is gone. It does not go into debt there: while there are others, one
// gateway may use more than its share.
func (h *Hold) commit(parts []part, now int64) {
	for i := range parts {
		if p := &parts[i]; p.have {
			p.keep()
			h.count(p, now)
		}
	}
	h.committed(parts)
}

func (h *Hold) committed(parts []part) {
	for i := range parts {
		p := &parts[i]
		h.room.sharing.list(p.cell)
		if !h.growing {
			p.limit.count.Admitted.Add(1)
		}
	}
	if !h.growing {
		h.stand(nil)
	}
}

// count takes a part of the gateway's own state, in so far as it is there.
func (h *Hold) count(p *part, now int64) {
	st := &p.cell.state
	switch {
	case p.limit.budget != nil:
		h.setAside(p, now)
	case p.limit.dimension == concurrent:
		p.whole().take(st, p.n, now)
	default:
		c := p.cell.bound
		n := min(p.n, max(0, c.available(st, now)))
		c.take(st, n, now)
		p.local += n
	}
}

// setAside reserves a part of a budget.
func (h *Hold) setAside(p *part, now int64) {
	if h.growing {
		p.limit.budget.extend(&p.cell.state, p.period, p.n)
		return
	}
	p.period = p.limit.budget.reserve(&p.cell.state, p.n, now)
}

// putBack returns what was drawn for a call that is refused.
func (h *Hold) putBack(parts []part) {
	h.lockCells()
	defer h.unlock()
	for i := range parts {
		parts[i].release()
	}
}

// draw takes n from the lease for a part. Until it is known whether all parts are
// had, the gateway still holds it. The cell is locked.
func (p *part) draw(n int64) {
	e := p.cell.lease
	e.n -= n
	e.pending += n
	p.drawn, p.from = p.drawn+n, e.period
}

// keep makes what a part has drawn the call's.
func (p *part) keep() {
	if e := p.cell.lease; e.period == p.from {
		e.pending -= p.drawn
	}
	p.drawn = 0
}

// release returns to the lease what a part has drawn.
func (p *part) release() {
	if p.drawn == 0 {
		return
	}
	e := p.cell.lease
	if e.period == p.from {
		e.n += p.drawn
	}
	p.keep()
	p.have = false
	e.of.list(p.cell)
}
