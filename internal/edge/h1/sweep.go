//go:build linux

package h1

import "time"

// A connection's state says which bound holds for it. Where nothing is said,
// the handler sets its own bounds.
type state int64

const (
	fresh     state = iota // accepted; handshake, or no byte yet: HeaderTimeout
	idle                   // between two requests: IdleTimeout
	heading                // a head is arriving: HeaderTimeout
	active                 // the handler runs
	finishing              // the rest of an answer is written: finishTimeout
	dead                   // ended or handed over
	stateBits = 3
)

// defaultFinishTimeout bounds the writes after the handler has returned, which it can
// bound no more: at most a buffer is left then, so only a client that does not
// read at all takes that long.
const defaultFinishTimeout = 30 * time.Second

// A stamp is a state with the time of the sweeper's clock at which it began,
// in one word, so that the two change together.
func stamp(clock int64, st state) int64 { return clock<<stateBits | int64(st) }

func unstamp(v int64) (clock int64, st state) {
	return v >> stateBits, state(v & (1<<stateBits - 1))
}

// sweepEvery is how often to look for connections that took too long: often
// enough for the shorter bound to be met within an eighth.
func sweepEvery(bounds ...time.Duration) time.Duration {
	every := time.Second
	for _, b := range bounds {
		if b > 0 {
			every = min(every, b/8)
		}
	}
	return max(every, 10*time.Millisecond)
}

// sweep moves the clock and ends what took too long. One goroutine with coarse
// times replaces two deadlines a request.
func (s *Server) sweep() {
	t := time.NewTicker(s.tick)
	defer t.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-t.C:
			now := int64(time.Since(s.start))
			s.clock.Store(now)
			for _, c := range s.overdue(now) {
				s.timedOut.Add(1)
				c.abort()
			}
		}
	}
}

// overdue are the connections beyond their bounds. They are dead already, so
// that nobody else ends them or gives them work; their goroutines will find
// the sockets closed.
func (s *Server) overdue(now int64) (list []*conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		if s.expire(c, now) {
			list = append(list, c)
		}
	}
	return list
}

// expire makes a connection dead that is beyond its bound. The clock may have
// stood for a tick when the state began, so that much is added.
func (s *Server) expire(c *conn, now int64) bool {
	v := c.stamp.Load()
	began, st := unstamp(v)
	var bound time.Duration
	switch st {
	case fresh, heading:
		bound = s.HeaderTimeout
	case idle:
		bound = s.IdleTimeout
	case finishing:
		bound = s.finishTimeout
	}
	if bound <= 0 || now-began <= int64(bound+s.tick) {
		return false
	}
	return c.stamp.CompareAndSwap(v, stamp(now, dead))
}
