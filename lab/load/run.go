package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// runner is one run.
type runner struct {
	cfg    *Config
	maker  *maker
	client client
	start  time.Time
	tally  *tally
	series *series
	ctx    context.Context // the caller's, whose end breaks the run off

	mu       sync.Mutex // guards sessions
	sessions sessions
	number   atomic.Int64
}

// Run makes the load and returns what was seen. When ctx ends the run is broken
// off, and what was seen until then is returned.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m, err := newMaker(&cfg)
	if err != nil {
		return nil, err
	}
	watch, err := watchProcess(cfg.PID)
	if err != nil {
		return nil, err
	}
	r := &runner{cfg: &cfg, maker: m, client: newClient(&cfg, m), start: time.Now(), ctx: ctx, sessions: newSessions(&cfg)}
	defer r.client.CloseIdleConnections()
	r.series = newSeries(r.start, cfg.Duration)
	r.tally = newTally(r.series)
	background, stop := context.WithCancel(context.Background())
	var helpers sync.WaitGroup
	helpers.Go(func() { watch.run(background) })
	helpers.Go(func() { r.progress(background) })
	if cfg.Rate > 0 {
		r.openLoop()
	} else {
		r.closedLoop()
	}
	elapsed := time.Since(r.start)
	stop()
	helpers.Wait()
	return r.report(elapsed, watch), nil
}

func (r *runner) stopped() bool { return r.ctx.Err() != nil }

// take gives out a request's number and session; ok is false when there have
// been enough.
func (r *runner) take() (n, session int, ok bool) {
	n = int(r.number.Add(1))
	if n > r.cfg.Requests {
		return 0, 0, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return n, r.sessions.next(), true
}

// openLoop sends requests when they are due. Where too many are on their way
// those that are due wait, and their latency counts from when they were due.
func (r *runner) openLoop() {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer punctual()()
	room := make(chan struct{}, r.cfg.InFlight)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for times := newArrivals(r.cfg); ; {
		offset := times.next()
		if offset >= r.cfg.Duration {
			return
		}
		due := r.start.Add(offset)
		if !waitUntil(r.ctx, timer, due) {
			return
		}
		select {
		case room <- struct{}{}:
		case <-r.ctx.Done():
			return
		}
		// A server so slow that the run's time is over is charged by what is on
		// its way; to send all that was due would have no end.
		n, session, ok := r.take()
		if !ok || time.Since(r.start) > r.cfg.Duration+r.cfg.Timeout {
			return
		}
		wg.Go(func() {
			defer func() { <-room }()
			r.do(r.ctx, n, session, due)
		})
	}
}

// closedLoop keeps a number of requests on their way: each waits for its
// answer before the next is sent.
func (r *runner) closedLoop() {
	var wg sync.WaitGroup
	defer wg.Wait()
	for range r.cfg.Connections {
		wg.Go(func() {
			for time.Since(r.start) < r.cfg.Duration && !r.stopped() {
				n, session, ok := r.take()
				if !ok {
					return
				}
				r.do(r.ctx, n, session, time.Now())
			}
		})
	}
}

// progress tells of the run until it is over.
func (r *runner) progress(ctx context.Context) {
	if r.cfg.Progress == nil {
		return
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			t := r.tally
			r.cfg.Progress(Progress{time.Since(r.start), r.cfg.Duration, t.ok.Load(), t.failed.Load(), t.open.Load(), t.latency.Quantile(.99)})
		}
	}
}
