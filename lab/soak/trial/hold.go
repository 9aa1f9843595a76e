package trial

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/headgate-ai/headgate/lab/load"
)

// ramp is how long it takes to open all streams.
const ramp = 8 * time.Second

// hold opens the streams, keeps them, reloads, and drains while they run: each
// must come to its own end, and only then may the gateway.
func (o *Options) hold(ctx context.Context, s *stand) error {
	n := o.possible()
	const gap = 250 * time.Millisecond
	tokens := int((o.For + ramp) / gap)
	began := time.Now()
	idle, err := s.look(began)
	if err != nil {
		return err
	}
	var report *load.Report
	var loadErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		report, loadErr = load.Run(ctx, s.calls(fmt.Sprintf("own-small+first-token=0s+token-gap=%v+tokens=%d", gap, tokens), true, func(c *load.Config) {
			c.Rate, c.Requests, c.InFlight = float64(n)/ramp.Seconds(), n, n
			c.Duration, c.Timeout = 4*ramp, 2*o.For+4*ramp
		}))
	})
	var problems []error
	at := func(after time.Duration, what string, do func() error) {
		time.Sleep(time.Until(began.Add(after)))
		v, err := s.look(began)
		if err == nil {
			held := v.sum("headgate_streams_open")
			o.say("%6s  %5.0f streams open  %6.1f MiB (%.1f KiB a stream)  %5.0f goroutines  %5.0f descriptors; %s", v.at.Round(time.Second), held,
				v.rss/(1<<20), (v.rss-idle.rss)/1024/max(1, held), v.goroutines, v.open, what)
			if int(held) != n {
				err = fmt.Errorf("%.0f streams are open, not %d", held, n)
			}
		}
		if err = errors.Join(err, do()); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", what, err))
		}
	}
	at(ramp+2*time.Second, "a changed configuration", func() error { return s.rewrite(1, false) })
	at(ramp+o.For/4, "SIGHUP", s.hangUp)
	at(ramp+o.For/2, "a broken configuration", func() error { return s.rewrite(2, true) })
	at(ramp+o.For*3/4, "SIGTERM", func() error { return s.stop(o.For + ramp) })
	wg.Wait()
	if loadErr != nil {
		return errors.Join(append(problems, loadErr)...)
	}
	o.say("%d streams whole, %d tokens checked, %d lost, gap p50 %.0f ms p99 %.0f ms, added p99 %.1f ms", report.OK, report.Tokens.Received, report.Tokens.Lost,
		report.Gap.P50, report.Gap.P99, report.Added.P99)
	if int(report.OK) != n || report.Tokens.Received != int64(n*tokens) {
		problems = append(problems, fmt.Errorf("%d of %d streams with %d of %d tokens", report.OK, n, report.Tokens.Received, n*tokens))
	}
	return errors.Join(append(problems, fine(report))...)
}

// possible is how many streams the limit on descriptors allows: the gateway
// needs two for each.
func (o *Options) possible() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return o.Hold
	}
	most := int((min(limit.Max, 1<<30) - 200) / 2)
	if most < o.Hold {
		o.say("the limit on descriptors, %d, allows %d streams instead of %d", limit.Max, most, o.Hold)
	}
	return min(o.Hold, most)
}
