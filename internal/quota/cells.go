package quota

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// cell is the state of one limit for one subject, such as one key's requests.
// What every call needs comes first, so that it lies in one line of cache.
type cell struct {
	mu      sync.Mutex
	holds   int32  // calls that have taken of it and not settled
	dead    bool   // it has left the table: look it up again
	lease   *lease // of a shared count; nil where none is shared
	touched int64  // when it was last used
	bound   bound  // under which the state was kept
	state   state
	key     string
	// override is the subject's own bound, if operators have set one.
	override atomic.Pointer[overridden]
}

// under brings the state under a bound that holds since a time. The cell must
// be locked. Of a shared count the state is that of this gateway's share.
func (c *cell) under(b bound, since, now int64) {
	if c.lease != nil {
		c.lease.bound = b
		b = b.part(1, c.lease.of.replicas())
	}
	if c.bound != b {
		b.adopt(c.bound, &c.state, max(since, c.touched))
		c.bound = b
	}
	c.touched = max(c.touched, now)
}

// cells is the table of all cells. It is sharded, so that looking one up does
// not meet those who look up others, and a cell is locked only while numbers
// are changed.
type cells struct {
	seed   maphash.Seed
	shards [64]shard
}

type shard struct {
	mu    sync.RWMutex
	cells map[string]*cell
	_     [32]byte // a line of cache of its own
}

func newCells() *cells {
	t := &cells{seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].cells = map[string]*cell{}
	}
	return t
}

func (t *cells) shard(key []byte) *shard {
	return &t.shards[maphash.Bytes(t.seed, key)%uint64(len(t.shards))]
}

// find is the cell of a key; it is made if there is none. By the time it is
// locked it may be dead: then it has to be found again.
func (t *cells) find(key []byte) *cell {
	s := t.shard(key)
	s.mu.RLock()
	c := s.cells[string(key)]
	s.mu.RUnlock()
	if c == nil {
		c = s.add(key)
	}
	return c
}

func (s *shard) add(key []byte) *cell {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cells[string(key)]
	if c == nil {
		c = &cell{key: string(key)}
		s.cells[c.key] = c
	}
	return c
}

// peek is the cell of a key, or nil if there is none.
func (t *cells) peek(key []byte) *cell {
	s := t.shard(key)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.cells[string(key)]
}

// sweep drops the cells of which nothing is lost: those that would look the
// same if they were made anew. It holds one shard at a time.
func (t *cells) sweep(now int64) {
	for i := range t.shards {
		t.shards[i].sweep(now)
	}
}

func (s *shard) sweep(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, c := range s.cells {
		if !c.mu.TryLock() {
			continue // in use
		}
		if c.holds == 0 && c.bound.idle(&c.state, now) && c.lease.idle() && c.override.Load().over(now) {
			c.dead = true
			delete(s.cells, key)
		}
		c.mu.Unlock()
	}
}

// each calls f with every cell, locked. Nothing else is locked
// then: who holds a cell may be waiting for a shard.
func (t *cells) each(f func(*cell)) {
	var all []*cell
	for i := range t.shards {
		s := &t.shards[i]
		all = all[:0]
		s.mu.RLock()
		for _, c := range s.cells {
			all = append(all, c)
		}
		s.mu.RUnlock()
		for _, c := range all {
			c.mu.Lock()
			f(c)
			c.mu.Unlock()
		}
	}
}

// len is the number of cells.
func (t *cells) len() (n int) {
	for i := range t.shards {
		t.shards[i].mu.RLock()
		n += len(t.shards[i].cells)
		t.shards[i].mu.RUnlock()
	}
	return n
}

// lock locks a cell, or where it is dead the one that has its place.
func (r *Room) lock(c *cell) *cell {
	for c.mu.Lock(); c.dead; c.mu.Lock() {
		c.mu.Unlock()
		c = r.cells.find([]byte(c.key))
	}
	return c
}
