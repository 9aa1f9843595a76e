package stream

import (
	"context"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/lab/race"
)

// sink is a client that costs nothing.
type sink struct{ begun bool }

func (s *sink) Write(p []byte) (int, error)      { s.begun = true; return len(p), nil }
func (s *sink) Flush() error                     { return nil }
func (s *sink) SetWriteDeadline(time.Time) error { return nil }
func (s *sink) Begun() bool                      { return s.begun }

type nobody struct{}

func (nobody) FirstToken()                            {}
func (nobody) Abort(error)                            {}
func (nobody) Why(_ context.Context, err error) error { return err }

// byEvent gives one event a read, as providers send them, n times the middle.
type byEvent struct {
	all  []string
	n    int
	i, k int
}

func (b *byEvent) Read(p []byte) (int, error) {
	if b.i == len(b.all) {
		return 0, io.EOF
	}
	text := b.all[b.i]
	if strings.Contains(text, "delta") && strings.Contains(text, "llo") && b.k < b.n {
		b.k++
	} else {
		b.i++
	}
	return copy(p, text), nil
}
func (*byEvent) Close() error { return nil }

func carry(tb testing.TB, p *Plan, v conversation, all []string, n int, allow func(llm.Usage) int64) {
	e := Events{Body: &byEvent{all: all, n: n}, From: nobody{}, To: &sink{}, In: v.d, Out: v.d, Op: v.op, Tap: v.d.Tap(v.op),
		OnFirst: func(time.Time) {}, Allow: allow}
	if _, err := Copy(context.Background(), p, &e); err != nil {
		tb.Fatal(err)
	}
}

func whole(v conversation) (all []string) {
	for _, text := range events(v) {
		if !strings.HasSuffix(text, "\n\n") {
			text += "\n\n"
		}
		all = append(all, text)
	}
	return all
}

// The budget: no event allocates, and a stream allocates a fixed few times. Where
// there is a bound on a stream of the Responses API, its text is kept, which takes
// room that doubles.
func TestAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	c := Default()
	p := c.Compile()
	for _, v := range conversations {
		all := whole(v)
		for _, allow := range []func(llm.Usage) int64{nil, plenty} {
			few := testing.AllocsPerRun(200, func() { carry(t, &p, v, all, 100, allow) })
			many := testing.AllocsPerRun(200, func() { carry(t, &p, v, all, 1100, allow) })
			t.Logf("%s, a bound %t: %.1f allocations a stream, %.4f an event", v.name, allow != nil, few, (many-few)/1000)
			most, keeps := float64(streamAllocs), v.op == llm.Responses && allow != nil
			if keeps {
				most += 10
			}
			if many-few >= 1 && !keeps || many-few > 10 {
				t.Errorf("%s: an event allocates %.3f times", v.name, (many-few)/1000)
			}
			if few > most {
				t.Errorf("%s: a stream allocates %.1f times, the budget is %v", v.name, few, most)
			}
		}
	}
}

// streamAllocs is the budget of one stream, the test's own few included.
const streamAllocs = 20

// plenty is a bound that is never reached.
func plenty(llm.Usage) int64 { return math.MaxInt64 }

func BenchmarkCopy(b *testing.B)        { benchmarkCopy(b, nil) }
func BenchmarkCopyBounded(b *testing.B) { benchmarkCopy(b, plenty) }

func benchmarkCopy(b *testing.B, allow func(llm.Usage) int64) {
	for _, v := range conversations {
		b.Run(v.name, func(b *testing.B) {
			c := Default()
			p := c.Compile()
			all := whole(v)
			const n = 1000
			b.ReportAllocs()
			for b.Loop() {
				carry(b, &p, v, all, n, allow)
			}
			b.ReportMetric(float64(b.N)*(n+float64(len(all)))/b.Elapsed().Seconds(), "events/s")
		})
	}
}
