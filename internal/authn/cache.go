package authn

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	cacheShards = 16 // so that cores do not wait for each other
	cacheSize   = 10_240 / cacheShards
)

// verdict is a token that was found good, and what that rests on.
type verdict struct {
	grant  *Grant
	until  time.Time
	tokens *tokens     // of the plan
	issuer *issuer     // whose keys may change
	keys   *publicKeys // at that time; nil with HMAC
}

// tokenCache remembers verdicts by the token's hash, because a signature costs
// a hundred times what a lookup does. Only good tokens are kept, so that bad
// ones push out nothing. It is bounded; what has not been asked for since the
// hand of the clock last came by is forgotten first.
type tokenCache struct{ shards [cacheShards]cacheShard }

type cacheShard struct {
	mu      sync.RWMutex
	entries map[digest]*cacheEntry
	ring    []*cacheEntry
	hand    int
}

type cacheEntry struct {
	key  digest
	v    atomic.Pointer[verdict]
	used atomic.Bool
}

func (c *tokenCache) shard(d digest) *cacheShard { return &c.shards[d[0]%cacheShards] }

func (c *tokenCache) get(d digest) *verdict {
	s := c.shard(d)
	s.mu.RLock()
	e := s.entries[d]
	s.mu.RUnlock()
	if e == nil {
		return nil
	}
	if !e.used.Load() {
		e.used.Store(true) // only the first time: the others would share the line for nothing
	}
	return e.v.Load()
}

func (c *tokenCache) put(d digest, v *verdict) {
	s := c.shard(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[d]; e != nil {
		e.v.Store(v)
		return
	}
	e := &cacheEntry{key: d}
	e.v.Store(v)
	if s.entries == nil {
		s.entries = map[digest]*cacheEntry{}
	}
	s.entries[d] = e
	if len(s.ring) < cacheSize {
		s.ring = append(s.ring, e)
		return
	}
	for s.ring[s.hand].used.Swap(false) {
		s.hand = (s.hand + 1) % len(s.ring)
	}
	delete(s.entries, s.ring[s.hand].key)
	s.ring[s.hand] = e
	s.hand = (s.hand + 1) % len(s.ring)
}

func (c *tokenCache) len() (n int) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.RLock()
		n += len(s.entries)
		s.mu.RUnlock()
	}
	return n
}
