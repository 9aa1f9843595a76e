package quota

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Shared keeps counts for several gateways. It is asked once per lease, not once
// per call. Every method gives up when its context ends; what it was asked for
// may then have happened or not, and nothing here depends on which.
type Shared interface {
	// Acquire takes what every want needs, or nothing. Answers are in the order
	// of the wants.
	Acquire(ctx context.Context, wants []Want) (Answer, error)
	// Report tells what was used or is not needed, whatever the limits say.
	Report(ctx context.Context, changes []Change) error
	// Beat learns of the other gateways. With alive it also says that this one goes
	// by what the store grants; without, that it may be admitting calls alone. It
	// counts as a sign of life only if it comes within AnswerAge of the last
	// answer, so that one that was long on its way is none.
	Beat(ctx context.Context, alive bool) (Gateways, error)
	// Close says that this gateway leaves, and frees the connections.
	Close() error
}

// Keep is how a count is kept, which is how the store has to reckon.
type Keep uint8

// How counts are kept.
const (
	KeepBucket Keep = iota // refilled at a rate
	KeepWindow             // a sliding window of 63 slots
	KeepFixed              // a window of the clock
	KeepHeld               // what gateways hold, and have spent for good
)

// Account names one count and what it allows.
type Account struct {
	// Key is the count's name. Tag is the part of it by which counts lie
	// together on one server.
	Key, Tag string
	Keep     Keep
	// Count is allowed in a period; Burst at once, which is all there is to
	// KeepHeld.
	Count, Burst int64
	Period       time.Duration
	// Own is what this gateway has, for KeepHeld.
	Own Own
}

// Own is what one gateway has of a count that is held. It is the whole truth and
// no difference, so that it can be told twice, or late.
type Own struct {
	// Held is what it has reserved, used by calls or not; it lapses when the
	// gateway is not heard of.
	Held int64
	// Spent is what it has used for good since it began.
	Spent int64
	// Floor is what it knows all gateways to have spent.
	Floor int64
	// Seq orders what the gateway tells of one count. Successive ones are two
	// apart, so that a store can put a correction between them.
	Seq int64
	// Lasts is how long the count has a meaning; 0 is as long as it is held.
	Lasts time.Duration
}

// Want is what is asked of one count.
type Want struct {
	Account
	// Need must be there.
	Need int64
	// Extra is granted on top where there is plenty: at most an eighth of what
	// is left, so that small limits stay exact.
	Extra int64
	// Waiting is needed by other calls at this moment; it is granted as far as
	// there is.
	Waiting int64
	// Soft wants do not keep the others from being granted.
	Soft bool
}

// Answer is what became of the wants.
type Answer struct {
	// OK is whether everything that is not soft was granted.
	OK    bool
	Given []Given
}

// Given is the answer to one want.
type Given struct {
	// OK is whether the need was there.
	OK bool
	// Unasked is whether nobody looked, as another want was refused before.
	Unasked bool
	// Granted is what was taken, which is nothing unless all of it was.
	Granted int64
	// Remaining is what is left.
	Remaining int64
	// Wait is how long until the need is there. Reset is when all of it is.
	Wait, Reset time.Duration
}

// Change is an amount that is taken of a count, or given back where it is
// negative. What is held is told by Account.Own.
type Change struct {
	Account
	Amount int64
	// Age is how long ago an amount that is given back was taken.
	Age time.Duration
}

// Gateways is how many there are.
type Gateways struct {
	// Live gave a sign of life within SilentAge.
	Live int
	// Missing have gone silent without taking leave, and none has come in their
	// place: they may be cut off, and admit calls by their share.
	Missing int
	// Heard is whether the beat was a sign of life of this gateway.
	Heard bool
}

// SharedStats is what sharing has cost so far.
type SharedStats struct {
	// Trips are calls of the store, Failures those that failed.
	Trips, Failures int64
	// Outages is how often the store was given up, Local how many calls were
	// decided without it.
	Outages, Local int64
	// Down is whether it is given up now.
	Down bool
	Gateways
}

const (
	// leaseAge is how long a lease of a rate may be used.
	leaseAge = int64(time.Second)
	// flushEvery is how often what was used is reported.
	flushEvery = 100 * time.Millisecond
	// startTime is how long a gateway waits for the store when it starts.
	startTime = time.Second
	// renewEvery is how often it says what it holds, which lapses after three
	// times as long.
	renewEvery = 2 * time.Second
)

// sharing is what a room that shares its counts knows of the others.
type sharing struct {
	store   Shared
	lease   int64
	outage  outage
	timeout time.Duration
	fixed   int64 // replicas as configured, 0 learns them
	note    func(error)

	down    atomic.Bool
	news    atomic.Pointer[news]
	heard   atomic.Int64  // when the store last said that it counts this gateway as alive
	beating chan struct{} // held by whoever sends a beat
	renewed int64         // when all that is held was told last; run's alone
	at      func() int64

	mu    sync.Mutex
	live  []*cell  // those with something to report or to renew
	backs []Change // what calls of long ago did not use

	stop    func()
	workers sync.WaitGroup

	trips, failures, outages, local atomic.Int64
}

// Share keeps the room's counts in a store from now on. It is called before the
// first call is; note is told when the store is given up and, with nil, when it
// is back. The room closes the store with itself.
func (r *Room) Share(store Shared, c StoreConfig, note func(error)) {
	c = c.Default()
	ctx, stop := context.WithCancel(context.Background())
	s := &sharing{
		store: store, lease: int64(max(1, c.Lease)), outage: outages[c.OnOutage], timeout: c.Timeout.Std(), fixed: int64(c.Replicas), note: note,
		at: func() int64 { return r.at(time.Now()) }, stop: stop, beating: make(chan struct{}, 1),
	}
	s.news.Store(&news{Gateways: Gateways{Live: max(1, c.Replicas)}})
	s.heard.Store(-int64(s.aloneAfter())) // nobody leaves a share to who never was there
	r.sharing = s
	s.beat(ctx, max(s.timeout, startTime))
	s.workers.Go(func() { every(ctx, flushEvery, s.round) })
	s.workers.Go(func() { every(ctx, beatEvery, s.pulse) })
}

// Close gives back what the room has of shared counts.
func (r *Room) Close() error {
	if r.sharing == nil {
		return nil
	}
	return r.sharing.close()
}

// Shared is what sharing has cost; ok is false where nothing is shared.
func (r *Room) Shared() (st SharedStats, ok bool) {
	s := r.sharing
	if s == nil {
		return st, false
	}
	return SharedStats{
		Trips: s.trips.Load(), Failures: s.failures.Load(),
		Outages: s.outages.Load(), Local: s.local.Load(), Down: s.down.Load(), Gateways: s.news.Load().Gateways,
	}, true
}

// replicas is how many gateways a limit is divided among when the store is gone.
func (s *sharing) replicas() int64 {
	if s.fixed > 0 {
		return s.fixed
	}
	g := s.news.Load()
	return int64(max(1, g.Live+g.Missing))
}

// trip counts a call of the store, and gives the store up if it failed.
func (s *sharing) trip(err error) error {
	s.trips.Add(1)
	if err != nil {
		s.failures.Add(1)
		if s.down.CompareAndSwap(false, true) {
			s.outages.Add(1)
			s.note(err)
		}
	}
	return err
}

var errAnswers = errors.New("the store answered another question")

// acquire asks the store.
func (s *sharing) acquire(ctx context.Context, wants []Want) (Answer, error) {
	a, err := s.store.Acquire(ctx, wants)
	if err == nil && len(a.Given) != len(wants) {
		err = errAnswers
	}
	return a, s.trip(err)
}

// part is the limit of a part of the gateways: num of den.
func (b bound) part(num, den int64) bound {
	if num >= den || den <= 0 {
		return b
	}
	switch b.algorithm {
	case algGCRA, algBucket:
		b.period = b.period / num * den
		b.burst = max(1, b.burst*num/den)
	case algWindow, algFixed:
		b.count = max(1, b.count*num/den)
		b.burst = max(1, b.burst*num/den)
	case algConcurrent:
		b.burst = max(1, b.burst*num/den)
	}
	return b
}
