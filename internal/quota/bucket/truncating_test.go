package bucket

import (
	"testing"

	"github.com/headgate-ai/headgate/internal/quota/limittest"
)

// truncating is the bucket as it is often written, with its mistake: it rounds
// down to whole tokens at every look, and moves its clock on all the same.
type truncating struct{ rate, capacity, tokens, last int64 }

func (b *truncating) take(now int64) bool {
	b.tokens = min(b.capacity, b.tokens+int64(float64(b.rate)*float64(now-b.last)/1e9))
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// Ten a second, asked for every 50 ms for ten seconds from an empty bucket: the
// one that truncates grants nothing at all, ours a hundred.
func TestTruncatingGrantsNothing(t *testing.T) {
	wrong := truncating{rate: 10, capacity: 5, last: limittest.Start}
	l, s := Limit{Count: 10, Period: 1e9, Burst: 5}, State{}
	s = l.Take(s, l.Burst, limittest.Start)
	wrongly, granted := 0, 0
	for now := limittest.Start; now <= limittest.Start+10e9; now += 50e6 {
		if wrong.take(now) {
			wrongly++
		}
		if l.Wait(s, 1, now) == 0 {
			s = l.Take(s, 1, now)
			granted++
		}
	}
	if wrongly != 0 || granted != 100 {
		t.Errorf("the bucket that truncates granted %d, ours %d; want 0 and 100", wrongly, granted)
	}
}
