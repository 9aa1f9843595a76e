package quota

import (
	"context"
	"time"
)

// A gateway that is cut off from the store goes on with its share of the limits
// only when all others must have learnt that it is missing, and leave it that. How
// long this takes follows from three times, each kept by one clock: the store's the
// first two, each gateway's own the third.
const (
	// AnswerAge is how old, for the store, the last answer to a gateway may be when
	// its next beat comes, for that to be a sign of life. So a beat that is late, or
	// whose gateway did not get the answer before, can prolong its life only once
	// and only for so long.
	AnswerAge = 350 * time.Millisecond
	// SilentAge is how long after its last sign of life a gateway is missing.
	SilentAge = 750 * time.Millisecond
	// newsAge is how long after a gateway has asked who is there it goes by the
	// answer. It is more where it may wait longer for one.
	newsAge = 350 * time.Millisecond
	// clockError is for clocks that do not go at one rate: three in a hundred.
	clockError = 50 * time.Millisecond
	// beatEvery is how often a gateway says that it is alive.
	beatEvery = 200 * time.Millisecond
)

// newsAge is how long news hold.
func (s *sharing) newsAge() time.Duration { return max(newsAge, s.timeout+beatEvery) }

// aloneAfter is how long after the store last counted this gateway as alive all
// others have learnt that it is missing. They have the same timeout.
func (s *sharing) aloneAfter() time.Duration {
	return AnswerAge + SilentAge + s.newsAge() + clockError
}

// news is what the store said of the gateways, and when it was asked.
type news struct {
	Gateways
	asked int64
}

// ours is the part of a limit that the gateways which are heard of may use: a
// missing one may be using its share.
func (n *news) ours() (live, of int64) {
	return int64(max(1, n.Live)), int64(max(1, n.Live+n.Missing))
}

// atLeast is whether the gateways that are heard of may use as much as by other
// news.
func (n *news) atLeast(other *news) bool {
	live, of := n.ours()
	otherLive, otherOf := other.ours()
	return live*otherOf >= otherLive*of
}

// pulse says that the gateway is alive, if it is: one that does without the store
// must be taken to be missing until it has reported what it used.
func (s *sharing) pulse(ctx context.Context) {
	if s.down.Load() {
		return
	}
	if s.beat(ctx, s.timeout) && !s.news.Load().Heard {
		s.beat(ctx, s.timeout) // the one before was late; this one is not
	}
}

// beat tells the store of this gateway and learns of the others. It is whether the
// store answered.
func (s *sharing) beat(ctx context.Context, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case s.beating <- struct{}{}:
		defer func() { <-s.beating }()
	case <-ctx.Done():
		return false
	}
	return s.exchange(ctx)
}

// exchange is the beat itself. The caller holds beating.
func (s *sharing) exchange(ctx context.Context) bool {
	asked := s.at()
	g, err := s.store.Beat(ctx, !s.down.Load())
	if s.trip(err) != nil {
		return false
	}
	s.news.Store(&news{g, asked})
	if g.Heard {
		s.heard.Store(s.at())
	}
	return true
}

// informed is whether what is known of the others still holds. Where a pause has
// made it old, one of the callers asks anew, for all.
func (s *sharing) informed(ctx context.Context) bool {
	if s.fresh() {
		return true
	}
	select {
	case s.beating <- struct{}{}:
		defer func() { <-s.beating }()
	case <-ctx.Done():
		return false
	}
	return s.fresh() || !s.down.Load() && s.exchange(ctx) && s.fresh()
}

func (s *sharing) fresh() bool { return s.at()-s.news.Load().asked < int64(s.newsAge()) }

// stillHolds is whether what was known when the store was asked held until it had
// answered. If not, what it granted may be the share of one that is missing.
func (s *sharing) stillHolds(ctx context.Context, known *news) bool {
	return s.informed(ctx) && s.news.Load().atLeast(known)
}

// noticed is whether the others must have learnt that this gateway does without
// the store.
func (s *sharing) noticed(now int64) bool {
	return s.down.Load() && now-s.heard.Load() >= int64(s.aloneAfter())
}
