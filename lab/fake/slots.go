package fake

import (
	"context"
	"errors"
	"sync"
)

// errOverload is that the queue for a slot is full.
var errOverload = errors.New("queue full")

// slots bounds how many requests are answered at once, first come first
// served. A channel would do but for a bound that can change while in use.
type slots struct {
	mu    sync.Mutex
	size  int // 0 means no bound
	used  int
	queue []chan struct{} // closed when the waiter has its slot
}

// take waits for a slot, which give gives back.
func (s *slots) take(ctx context.Context, queue int) error {
	s.mu.Lock()
	if s.size == 0 || s.used < s.size {
		s.used++
		s.mu.Unlock()
		return nil
	}
	if queue > 0 && len(s.queue) >= queue {
		s.mu.Unlock()
		return errOverload
	}
	turn := make(chan struct{})
	s.queue = append(s.queue, turn)
	s.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range s.queue {
		if c == turn {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			return ctx.Err()
		}
	}
	// The slot was handed over while the context ended: pass it on.
	s.used--
	s.wake()
	return ctx.Err()
}

func (s *slots) give() {
	s.mu.Lock()
	s.used--
	s.wake()
	s.mu.Unlock()
}

func (s *slots) resize(n int) {
	s.mu.Lock()
	s.size = n
	s.wake()
	s.mu.Unlock()
}

// wake hands free slots to those who waited longest; the caller holds mu.
func (s *slots) wake() {
	for len(s.queue) > 0 && (s.size == 0 || s.used < s.size) {
		close(s.queue[0])
		s.queue = s.queue[1:]
		s.used++
	}
}

func (s *slots) waiting() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.queue))
}
