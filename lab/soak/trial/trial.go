// Package trial puts a running gateway to the test of time. It starts the
// binary and a simulated provider as processes and watches the gateway's from
// outside.
//
// The soak is mixed load at half of what the machine reached before: answers in
// one piece and streams, HTTP/1.1 and HTTP/2, both dialects, both transports
// towards the provider; clients that leave, that read slowly or stop reading;
// calls that are refused; reloads by SIGHUP, by a changed file and by a broken
// one; a log that is rotated; operators who read everything. Every token of
// every stream that is read is checked. Memory, goroutines and descriptors must
// stay level after the warm-up and return to what they were when the load ends,
// and a drain with open streams must be clean.
//
// The hold is thousands of streams open at once, with reloads and the drain
// among them; every token is checked there, too.
//
// Who should import this: lab/soak.
package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/lab/load"
)

// Options is what to do.
type Options struct {
	Binary string
	For    time.Duration
	Hold   int
	Out    io.Writer
}

func (o *Options) say(format string, args ...any) { fmt.Fprintf(o.Out, format+"\n", args...) }

// Run does it. Its error is everything that was wrong.
func Run(ctx context.Context, o Options) error {
	s, err := build(ctx, &o)
	if err != nil {
		return err
	}
	defer s.raze()
	if o.Hold > 0 {
		return o.hold(ctx, s)
	}
	return o.soak(ctx, s)
}

// expected are the faults that the soak's own clients cause; any other is a
// mistake of somebody's.
var expected = []string{"canceled", "slow_client", "model_not_found", "unauthenticated"}

func (o *Options) soak(ctx context.Context, s *stand) error {
	began := time.Now()
	idle, err := s.settled(began)
	if err != nil {
		return err
	}
	unary, err := s.capacity(ctx, "own-small+token-gap=0s+first-token=0s", false, 32)
	if err != nil {
		return err
	}
	// Enough of them for their pauses not to be what bounds them: tokens that come
	// one by one cost more than those that come together.
	streams, err := s.capacity(ctx, "own-small", true, 800)
	if err != nil {
		return err
	}
	o.say("capacity: %.0f calls/s, or %.0f streams of 40 tokens/s; the load is half of it, for %v", unary, streams, o.For)

	c := &crowd{stand: s}
	began = time.Now()
	background, stop := context.WithCancel(ctx)
	defer stop()
	rate := func(n float64) func(*load.Config) {
		return func(c *load.Config) { c.Rate, c.Duration = max(1, n), o.For }
	}
	c.steady(ctx, s.calls("own-small+token-gap=0s", false, rate(unary*.15)))
	c.steady(ctx, s.calls("std-small+token-gap=0s", false, rate(unary*.05)))
	c.steady(ctx, s.calls("own-small", true, rate(streams*.08)))
	c.steady(ctx, s.calls("std-small", true, rate(streams*.04)))
	c.steady(ctx, s.calls("claude-small", true, rate(streams*.04)))
	c.steady(ctx, s.calls("own-h2", true, func(c *load.Config) { rate(streams * .04)(c); c.HTTP2 = true }))
	for range 4 {
		c.again(background, 100*time.Millisecond, c.abort)
		c.again(background, 500*time.Millisecond, c.dawdle)
	}
	for range 2 {
		c.again(background, 2*time.Second, c.stall)
	}
	c.again(background, 100*time.Millisecond, c.mistake)
	c.again(background, 2*time.Second, c.reload)
	c.again(background, 500*time.Millisecond, c.scrape)

	all := o.watch(ctx, s, began)
	stop()
	c.wg.Wait()
	problems := append(c.problems, level(all, o.For)...)
	o.say("%d calls whole, %d tokens checked, %d clients left, %d slow, %d stalled, %d refused, %d reloads, %d scrapes",
		c.requests.Load(), c.tokens.Load(), c.aborted.Load(), c.slow.Load(), c.stalled.Load(), c.refused.Load(), c.reloads.Load(), c.scrapes.Load())
	problems = append(problems, o.settle(ctx, s, idle)...)
	problems = append(problems, o.drain(s)...)
	return errors.Join(problems...)
}

// watch takes a sample every second until the load ends.
func (o *Options) watch(ctx context.Context, s *stand, began time.Time) (all []sample) {
	for time.Since(began) < o.For && ctx.Err() == nil {
		time.Sleep(time.Second)
		v, err := s.look(began)
		if err != nil {
			o.say("no sample: %v", err)
			continue
		}
		all = append(all, v)
		if every := max(1, int(o.For.Seconds())/12); len(all)%every == 1 || every == 1 {
			o.say("%6s  %6.1f MiB  %5.0f goroutines  %5.0f descriptors  %4.0f streams open", v.at.Round(time.Second), v.rss/(1<<20), v.goroutines, v.open, v.sum("headgate_streams_open"))
		}
	}
	return all
}

// level wants what the process takes up to stay level behind the warm-up, the
// first third. Memory: a straight line through it must be flat. Goroutines and
// descriptors: the least of the last third must not be above the most of the
// second. Where the machine was busy for a while, clients have more connections
// than before and keep them; so many are no growth. What has leaked more slowly
// is found when the load is over, see settle.
func level(all []sample, span time.Duration) (problems []error) {
	var middle, last []sample
	for _, v := range all {
		switch {
		case v.at > span*2/3:
			last = append(last, v)
		case v.at > span/3:
			middle = append(middle, v)
		}
	}
	if len(middle) < 5 || len(last) < 5 {
		return []error{fmt.Errorf("only %d and %d samples behind the warm-up", len(middle), len(last))}
	}
	mean, grown := line(append(middle, last...), func(v sample) float64 { return v.rss / (1 << 20) })
	const connections = 6 * most // of six kinds of calls
	if grown > 8+mean/10+connections*20.0/1024 {
		problems = append(problems, fmt.Errorf("resident memory grew by %.1f MiB, from about %.1f", grown, mean-grown/2))
	}
	for name, of := range map[string]func(sample) float64{
		"goroutines": func(v sample) float64 { return v.goroutines }, "descriptors": func(v sample) float64 { return v.open },
	} {
		highest, least := of(middle[0]), of(last[0])
		for _, v := range middle {
			highest = max(highest, of(v))
		}
		for _, v := range last {
			least = min(least, of(v))
		}
		if least > highest*1.1+connections {
			problems = append(problems, fmt.Errorf("%s grew from at most %.0f to at least %.0f", name, highest, least))
		}
	}
	return problems
}

// line fits a straight line, and returns its middle and its rise over all.
func line(all []sample, of func(sample) float64) (mean, rise float64) {
	var t, y, tt, ty float64
	for _, v := range all {
		t += v.at.Seconds()
		y += of(v)
	}
	n := float64(len(all))
	t, y = t/n, y/n
	for _, v := range all {
		d := v.at.Seconds() - t
		tt += d * d
		ty += d * (of(v) - y)
	}
	return y, ty / tt * (all[len(all)-1].at - all[0].at).Seconds()
}

// settle waits for everything to be given back, which for pooled connections
// takes half a minute, and looks at what went wrong meanwhile.
func (o *Options) settle(ctx context.Context, s *stand, idle sample) (problems []error) {
	var v sample
	var err error
	for end := time.Now().Add(50 * time.Second); ; time.Sleep(500 * time.Millisecond) {
		if v, err = s.look(time.Now()); err != nil {
			return []error{err}
		}
		back := v.sum("headgate_inflight_requests") == 0 && v.sum("headgate_streams_open") == 0 && v.goroutines <= idle.goroutines+10 && v.open <= idle.open+10
		if back || ctx.Err() != nil {
			break
		}
		if time.Now().After(end) {
			return []error{fmt.Errorf("after the load %.0f requests are in flight, %.0f streams open; %.0f goroutines (%.0f before), %.0f descriptors (%.0f before)",
				v.sum("headgate_inflight_requests"), v.sum("headgate_streams_open"), v.goroutines, idle.goroutines, v.open, idle.open)}
		}
	}
	if v, err = s.settled(time.Now()); err != nil {
		return []error{err}
	}
	used := func(v sample) float64 {
		return (v.metrics["go_memstats_heap_alloc_bytes"] + v.metrics["go_memstats_stack_inuse_bytes"]) / (1 << 20)
	}
	o.say("settled: %.1f MiB in use (%.1f before), %.1f resident (%.1f), %.0f goroutines (%.0f), %.0f descriptors (%.0f)",
		used(v), used(idle), v.rss/(1<<20), idle.rss/(1<<20), v.goroutines, idle.goroutines, v.open, idle.open)
	if grown := used(v) - used(idle); grown > 10 { // the latest 1000 requests are kept
		problems = append(problems, fmt.Errorf("%.1f MiB more are in use than before the load", grown))
	}
	for name, n := range v.metrics {
		kind, ok := strings.CutPrefix(name, "headgate_faults_total{")
		if !ok || n == 0 {
			continue
		}
		known := false
		for _, k := range expected {
			known = known || strings.Contains(kind, `kind="`+k+`"`)
		}
		if !known {
			problems = append(problems, fmt.Errorf("%.0f × %s", n, name))
		}
	}
	if n := v.sum("headgate_log_dropped_total"); n > 0 {
		problems = append(problems, fmt.Errorf("%.0f log lines were lost", n))
	}
	return problems
}

// drain stops the gateway with streams open: those within the grace end whole,
// the others with an error event, and it exits with 0.
func (o *Options) drain(s *stand) (problems []error) {
	type end struct {
		seen
		err error
	}
	const each, tokens = 25, 200
	open := func(model string) chan end {
		ended := make(chan end, each)
		for range each {
			res, closeAll, err := s.ask(context.Background(), model)
			if err != nil {
				ended <- end{err: err}
				continue
			}
			go func() {
				defer closeAll()
				v, err := readStream(res.Body)
				ended <- end{v, err}
			}()
		}
		return ended
	}
	short, long := open(fmt.Sprintf("own-small+tokens=%d+token-gap=10ms", tokens)), open("std-small+tokens=1000000+token-gap=10ms")
	if err := s.stop(o.grace() + 8*time.Second); err != nil {
		problems = append(problems, err)
	}
	for range each {
		if e := <-short; e.err != nil || e.whole(tokens) != nil {
			problems = append(problems, fmt.Errorf("within the grace: %w", errors.Join(e.err, e.whole(tokens))))
		}
		if e := <-long; e.err != nil || e.done || e.wrong != "" || !strings.Contains(e.fault, "SHUTTING_DOWN") {
			problems = append(problems, fmt.Errorf("beyond the grace: %+v", e))
		}
	}
	if len(problems) == 0 {
		o.say("drained: %d streams to their end, %d ended by an error event; exit 0", each, each)
	}
	return problems
}
