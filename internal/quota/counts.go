package quota

import (
	"sync"
	"sync/atomic"
)

// counts is how often each limit let calls through, kept by the limit's id.
type counts struct {
	mu sync.RWMutex
	of map[string]*Count
}

// Count is what has become of the calls that one limit concerned.
type Count struct {
	Admitted, Refused, Shadowed atomic.Int64
}

func newCounts() *counts { return &counts{of: map[string]*Count{}} }

func (c *counts) get(id string) *Count {
	c.mu.RLock()
	n := c.of[id]
	c.mu.RUnlock()
	if n != nil {
		return n
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n = c.of[id]; n == nil {
		n = new(Count)
		c.of[id] = n
	}
	return n
}
