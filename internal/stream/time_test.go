package stream

import (
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/setting"
)

// step is a piece of a provider's stream and the silence before it.
type step struct {
	after time.Duration
	text  string
}

// script plays steps in (virtual) time into a pipe, whose writes wait for the
// relay's reads as a provider's do without any buffer between them.
func script(steps []step, end error) *playback {
	r, w := io.Pipe()
	p := &playback{PipeReader: r, quit: make(chan struct{}), over: make(chan struct{})}
	go func() {
		defer close(p.over)
		for _, s := range steps {
			select {
			case <-time.After(s.after):
			case <-p.quit:
				return
			}
			if _, err := w.Write([]byte(s.text)); err != nil {
				return
			}
			p.sent.Add(1)
		}
		_ = w.CloseWithError(end)
	}()
	return p
}

type playback struct {
	*io.PipeReader
	sent       atomic.Int64 // steps that were read
	quit, over chan struct{}
}

// stop ends the playing, wherever it is.
func (p *playback) stop() {
	_ = p.Close()
	close(p.quit)
	<-p.over
}

// arrival is one flush.
type arrival struct {
	at   time.Duration
	text string
}

// play runs a stream in a bubble of its own time and notes when what arrived.
func play(t *testing.T, v conversation, steps []step, end error, changes ...change) (r *result, seen []arrival, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		body := script(steps, end)
		began := time.Now()
		c := &client{onFlush: func(fresh []byte) { seen = append(seen, arrival{time.Since(began), string(fresh)}) }}
		r = relay(t, v, body, append([]change{func(_ *Config, e *Events) { e.To = c }}, changes...)...)
		took = time.Since(began)
		body.stop()
	})
	return r, seen, took
}

func events(v conversation) []string {
	return strings.SplitAfter(strings.TrimSuffix(v.text, "\n\n"), "\n\n")
}

func paced(v conversation, gap time.Duration) (steps []step) {
	for _, text := range events(v) {
		if !strings.HasSuffix(text, "\n\n") {
			text += "\n\n"
		}
		steps = append(steps, step{gap, text})
	}
	return steps
}

func idleOf(d time.Duration) change { return func(_ *Config, e *Events) { e.Idle = d } }
func pingEach(d time.Duration) change {
	return func(c *Config, _ *Events) { c.Keepalive = setting.Duration(d) }
}

func TestEventsAreFlushedAtOnce(t *testing.T) {
	for _, v := range conversations {
		steps := paced(v, 20*time.Millisecond)
		r, seen, _ := play(t, v, steps, io.EOF)
		if r.err != nil || len(seen) != len(steps) {
			t.Fatalf("%v, %d flushes", r.err, len(seen))
		}
		for i, s := range seen {
			if s.text != steps[i].text || s.at != time.Duration(i+1)*20*time.Millisecond {
				t.Errorf("%s: event %d came at %v", v.name, i, s.at)
			}
		}
	}
}

func TestKeepalive(t *testing.T) {
	for _, v := range conversations {
		steps := paced(v, time.Second)
		steps[0].after = 35 * time.Second
		steps[3].after = 20 * time.Second
		ping := string(v.d.Ping(nil, v.op))
		if want := map[string]string{"messages": "event: ping\ndata: {\"type\": \"ping\"}\n\n"}[v.name]; want != "" && ping != want || want == "" && ping != ": ping\n\n" {
			t.Fatalf("%s: %q", v.name, ping)
		}
		r, seen, _ := play(t, v, steps, io.EOF)
		var pings []time.Duration
		for _, s := range seen {
			if s.text == ping && s.at != 0 {
				pings = append(pings, s.at)
			}
		}
		want := []time.Duration{15 * time.Second, 30 * time.Second, 52 * time.Second}
		if v.name == "messages" { // the provider's own, the third event
			want = []time.Duration{15 * time.Second, 30 * time.Second, 37 * time.Second, 52 * time.Second}
		}
		if r.err != nil || !slices.Equal(pings, want) || strings.ReplaceAll(r.got, ping, "") != strings.ReplaceAll(v.text, ping, "") {
			t.Errorf("%s: %v, pings at %v: %q", v.name, r.err, pings, r.got)
		}
	}
	// A ping is a silence's, not a dropped event's or a slow one's.
	slow := []step{{0, role}, {0, token("a")[:20]}}
	for _, c := range token("a")[20:] {
		slow = append(slow, step{time.Second, string(c)})
	}
	slow = append(slow, step{0, stop + done})
	r, _, _ := play(t, chat, slow, io.EOF)
	if n := strings.Count(r.got, ": ping"); r.err != nil || n < 5 || strings.ReplaceAll(r.got, ": ping\n\n", "") != role+token("a")+stop+done {
		t.Errorf("while one event drips: %d pings, %v, %q", n, r.err, r.got)
	}
	// None at all.
	if r, _, _ = play(t, chat, []step{{time.Hour, chat.text}}, io.EOF, pingEach(0)); r.err != nil || r.got != chat.text {
		t.Errorf("%v %q", r.err, r.got)
	}
}

// A ping between a CR and its LF leaves no blank line behind.
func TestKeepaliveBetweenCRAndLF(t *testing.T) {
	text := eol(chat.text, "\r\n")
	for i := range text {
		if text[i] != '\n' {
			continue
		}
		r, _, _ := play(t, chat, []step{{0, text[:i]}, {20 * time.Second, text[i:]}}, io.EOF)
		_, got := parse(t, r.got)
		if _, want := parse(t, chat.text); r.err != nil || !slices.Equal(got, want) || strings.Contains(r.got, "ping\n\n\n") {
			t.Fatalf("at %d: %v %q", i, r.err, r.got)
		}
	}
}

func TestIdle(t *testing.T) {
	steps := []step{{40 * time.Second, role}, {40 * time.Second, token("a")}, {19 * time.Second, token("b")}, {time.Hour, stop}}
	r, _, took := play(t, chat, steps, io.EOF, idleOf(20*time.Second))
	// Before the first content the idle timeout does not run.
	if kind(r.err) != fault.UpstreamIdle || took != 119*time.Second || !strings.HasPrefix(strings.ReplaceAll(r.got, ": ping\n\n", ""), role+token("a")+token("b")) {
		t.Errorf("%v after %v: %q", r.err, took, r.got)
	}
	// Bytes are life, even without a whole event; pings of our own are not.
	drip := []step{{0, role + token("a")}}
	for _, c := range token("b") {
		drip = append(drip, step{19 * time.Second, string(c)})
	}
	if r, _, _ = play(t, chat, append(drip, step{0, stop + done}), io.EOF, idleOf(20*time.Second), pingEach(time.Second)); r.err != nil {
		t.Error(r.err)
	}
	if r, _, took = play(t, chat, []step{{0, role + token("a")}, {time.Hour, ""}}, io.EOF, idleOf(20*time.Second), pingEach(time.Second)); kind(r.err) != fault.UpstreamIdle || took != 20*time.Second {
		t.Errorf("%v after %v", r.err, took)
	}
}

// A provider is not silent while nobody listens to it.
func TestASlowClientIsNoSilence(t *testing.T) {
	steps := append([]step{{0, role + token("a")}}, paced(conversation{text: token("b") + token("c") + stop + done}, 3*time.Second)...)
	r, _, _ := play(t, chat, steps, io.EOF, idleOf(5*time.Second), func(_ *Config, e *Events) { e.To.(*client).slow = 25 * time.Second })
	if r.err != nil {
		t.Error(r.err)
	}
}

func TestDeadClientIsEnded(t *testing.T) {
	for _, mode := range []change{func(*Config, *Events) {}, decouple} {
		synctest.Test(t, func(t *testing.T) {
			body := script(append(paced(chat, time.Second), step{0, strings.Repeat(token("x"), 10)}), io.EOF)
			c := &client{stuck: make(chan struct{})}
			began := time.Now()
			r := relay(t, chat, body, mode, func(cfg *Config, e *Events) {
				e.To = c
				cfg.WriteTimeout = setting.Duration(10 * time.Second)
				cfg.Keepalive = setting.Duration(3 * time.Second)
			})
			if took := time.Since(began); kind(r.err) != fault.SlowClient || took < 11*time.Second || took > 11200*time.Millisecond {
				t.Errorf("%v after %v", r.err, took)
			}
			if r.BackPressure < 10*time.Second {
				t.Errorf("waited for the client for %v", r.BackPressure)
			}
			body.stop()
		})
	}
}

// A client that stopped reading in a silence is found out by the ping.
func TestDeadClientIsFoundByThePing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := script([]step{{0, role + token("a")}, {time.Hour, stop}}, io.EOF)
		c := &client{}
		began := time.Now()
		time.AfterFunc(time.Second, func() { c.mu.Lock(); c.stuck = make(chan struct{}); c.mu.Unlock() })
		r := relay(t, chat, body, func(_ *Config, e *Events) { e.To = c })
		if took := time.Since(began); kind(r.err) != fault.SlowClient || took < 45*time.Second || took > 46*time.Second {
			t.Errorf("%v after %v", r.err, took)
		}
		body.stop()
	})
}

func TestAGoneClient(t *testing.T) {
	r, _, _ := play(t, chat, paced(chat, time.Second), io.EOF, func(_ *Config, e *Events) { e.To.(*client).gone = errors.New("broken pipe") })
	if kind(r.err) != fault.Canceled {
		t.Error(r.err)
	}
}

// A large event to a client that reads slowly but does read.
func TestLargeWriteHasLonger(t *testing.T) {
	big := role + token(strings.Repeat("x", 4<<20)) + stop + done
	r, _, _ := play(t, chat, []step{{0, big}}, io.EOF, func(_ *Config, e *Events) { e.To.(*client).slow = 60 * time.Second })
	if r.err != nil {
		t.Error(r.err)
	}
}

func TestCoalesce(t *testing.T) {
	for gap := time.Millisecond; gap < 300*time.Millisecond; gap = gap*7/4 + 137*time.Microsecond {
		var steps []step
		for i := range 40 {
			steps = append(steps, step{gap * time.Duration(1+i%3), token("word")})
		}
		steps = append([]step{{0, role}}, append(steps, step{gap, stop + done})...)
		r, seen, _ := play(t, chat, steps, io.EOF, coalesce)
		if r.err != nil {
			t.Fatal(r.err)
		}
		// When each byte was there to send, against when it was flushed.
		at, offset, flush, flushed := time.Duration(0), 0, 0, 0
		for _, s := range steps {
			at += s.after
			offset += len(s.text)
			for flushed < offset {
				flushed += len(seen[flush].text)
				flush++
			}
			if waited := seen[flush-1].at - at; waited > 105*time.Millisecond {
				t.Fatalf("gap %v: a byte waited for %v", gap, waited)
			}
		}
		if gap < 20*time.Millisecond && len(seen) > len(steps)/2 {
			t.Errorf("gap %v: %d flushes for %d events, which is no coalescing", gap, len(seen), len(steps))
		}
	}
	// 4 KiB go at once.
	_, seen, _ := play(t, chat, []step{{0, role}, {time.Millisecond, token(strings.Repeat("x", 4096))}, {time.Second, stop + done}}, io.EOF, coalesce)
	if len(seen) != 2 || seen[0].at != time.Millisecond {
		t.Errorf("%d flushes, the first at %v", len(seen), seen[0].at)
	}
}

func TestFlushFull(t *testing.T) {
	var steps []step
	for range 100 {
		steps = append(steps, step{20 * time.Millisecond, token(strings.Repeat("x", 100))})
	}
	steps = append(steps, step{0, stop + done})
	size := len(steps[0].text)
	r, seen, _ := play(t, chat, steps, io.EOF, full, func(c *Config, _ *Events) { c.BufferLimit = 8 << 10 }, pingEach(time.Millisecond))
	each := (8<<10 + size - 1) / size
	if r.err != nil || len(seen) != 100/each+1 || seen[0].at != time.Duration(each)*20*time.Millisecond {
		t.Errorf("%v: %d flushes, the first at %v", r.err, len(seen), seen[0].at)
	}
}

// Propagate lets the provider wait as soon as the client does; decouple reads
// on up to the limit, and then waits, too.
func TestBackPressure(t *testing.T) {
	const limit, events = 64 << 10, 200
	for _, mode := range []string{"propagate", "decouple"} {
		synctest.Test(t, func(t *testing.T) {
			one := token(strings.Repeat("x", 1000))
			steps := []step{{0, role}}
			for range events {
				steps = append(steps, step{0, one})
			}
			body := script(append(steps, step{0, stop + done}), io.EOF)
			c := &client{}
			hold := make(chan struct{})
			c.stuck = hold
			ended := make(chan *result, 1)
			go func() {
				ended <- relay(t, chat, body, func(cfg *Config, e *Events) {
					cfg.Mode, cfg.BufferLimit, e.To = mode, limit, c
				})
			}()
			time.Sleep(10 * time.Second)
			held := int(body.sent.Load()) * len(one)
			switch mode {
			case "propagate":
				if held > firstBuffer+grownBuffer {
					t.Errorf("%d bytes were read from the provider while the client did not read", held)
				}
			case "decouple":
				if held < limit-aheadRead-len(one) || held > limit+aheadRead+grownBuffer {
					t.Errorf("%d bytes were read ahead; the limit is %d", held, limit)
				}
			}
			close(hold)
			r := <-ended
			body.stop()
			if r.err != nil || r.BackPressure < 9*time.Second || (mode == "decouple") != (r.Ahead > 9*time.Second) {
				t.Errorf("%s: %v, %v waiting for the client, %v for room", mode, r.err, r.BackPressure, r.Ahead)
			}
			if !strings.HasSuffix(r.got, done) || len(r.got) != len(role)+events*len(one)+len(stop)+len(done) {
				t.Errorf("%s: %d bytes", mode, len(r.got))
			}
		})
	}
}

func TestAfterTheEndMark(t *testing.T) {
	// A provider that does not end its body holds nobody up for long.
	r, _, took := play(t, chat, []step{{0, chat.text}, {time.Hour, ""}}, io.EOF)
	if r.err != nil || took != linger || !r.provider.aborted {
		t.Errorf("%v after %v", r.err, took)
	}
	// Nor one that goes on and on.
	steps := []step{{0, chat.text}}
	for range 1000 {
		steps = append(steps, step{time.Millisecond, token("more")})
	}
	if r, _, took = play(t, chat, steps, io.EOF); r.err != nil || took > linger || r.got != chat.text {
		t.Errorf("%v after %v", r.err, took)
	}
}

func TestGaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() time.Duration{
		"uniform":   func() time.Duration { return time.Duration(rng.Int64N(int64(100 * time.Millisecond))) },
		"lognormal": func() time.Duration { return time.Duration(float64(20*time.Millisecond) * math.Exp(rng.NormFloat64())) },
		"tail":      func() time.Duration { return time.Duration(float64(time.Millisecond) / math.Pow(1-rng.Float64(), 1.2)) },
		"tiny":      func() time.Duration { return time.Duration(rng.Int64N(50_000)) },
		"constant":  func() time.Duration { return 20 * time.Millisecond },
	} {
		for _, n := range []int{1, 2, 10, 1000, 20_000} {
			var h histogram
			all := make([]time.Duration, n)
			for i := range all {
				all[i] = draw()
				h.add(all[i])
			}
			slices.Sort(all)
			got := h.summary()
			if got.Count != n || got.Max != all[n-1] {
				t.Errorf("%s: %+v", name, got)
			}
			for q, v := range map[float64]time.Duration{0.5: got.P50, 0.95: got.P95} {
				exact := all[int(q*float64(n-1))]
				if exact > time.Minute { // beyond the histogram's range
					continue
				}
				if off := math.Abs(float64(v - exact)); off > 0.0667*float64(exact)+float64(time.Microsecond) {
					t.Errorf("%s, n %d: p%v is %v, exactly %v", name, n, q*100, v, exact)
				}
			}
		}
	}
	for us := range uint64(1 << 27) {
		if us > 1<<14 && us&(us-1) != 0 && us%9973 != 0 {
			continue
		}
		d := time.Duration(us) * time.Microsecond
		if m := middle(bucket(d)); math.Abs(float64(m-d)) > 0.0667*float64(d)+float64(time.Microsecond) {
			t.Fatalf("%v is counted as %v", d, m)
		}
	}
	steps := paced(conversation{text: token("a") + token("b") + token("c") + token("d")}, 50*time.Millisecond)
	r, _, _ := play(t, chat, append(steps, step{0, stop + done}), io.EOF)
	if g := r.Gaps; r.err != nil || g.Count != 3 || g.Max != 50*time.Millisecond || g.P50 < 47*time.Millisecond || g.P95 > 50*time.Millisecond {
		t.Errorf("%v %+v", r.err, g)
	}
}
