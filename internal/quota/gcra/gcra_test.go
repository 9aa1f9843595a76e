package gcra

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// oracle is a bucket with exact fractions.
type oracle struct {
	tokens *big.Rat
	last   int64
}

func (o *oracle) at(l Limit, now int64) *big.Rat {
	if o.tokens == nil {
		o.tokens = new(big.Rat).SetInt64(l.Burst)
	}
	if now > o.last {
		came := big.NewRat(now-o.last, l.Period)
		o.tokens.Add(o.tokens, came.Mul(came, new(big.Rat).SetInt64(l.Count)))
		o.last = now
	}
	if full := new(big.Rat).SetInt64(l.Burst); o.tokens.Cmp(full) > 0 {
		o.tokens.Set(full)
	}
	return o.tokens
}

func (o *oracle) available(l Limit, now int64) int64 {
	t := o.at(l, now)
	return new(big.Int).Div(t.Num(), t.Denom()).Int64() // rounds down, negative ones too
}

func limits(r *rand.Rand) Limit {
	periods := []int64{1, 1e6, 1e9, 60e9, 3600e9, 86400e9}
	l := Limit{1 + r.Int64N(1<<r.IntN(24)), periods[r.IntN(len(periods))], 1 + r.Int64N(1<<r.IntN(20))}
	const years = int64(3e8 * 1e9) // what configurations allow a bucket to take to fill
	l.Burst = min(l.Burst, max(1, years/l.Period*l.Count))
	return l
}

func TestAgainstExactBucket(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 3000 {
		l := limits(r)
		now := int64(1.8e18) + r.Int64N(1e15)
		o := oracle{last: now}
		var s State
		for range 60 {
			now += r.Int64N(1 + 4*l.Period/l.Count + l.Period/(1+r.Int64N(100)))
			n := 1 + r.Int64N(max(1, l.Burst+l.Burst/4))
			if got, want := l.Available(s, now), o.available(l, now); got != want {
				t.Fatalf("%+v: %d available, want %d", l, got, want)
			}
			wait := l.Wait(s, n, now)
			switch {
			case n > l.Burst:
				if wait != math.MaxInt64 {
					t.Fatalf("%+v: %d of at most %d in %d", l, n, l.Burst, wait)
				}
			case (wait == 0) != (o.available(l, now) >= n):
				t.Fatalf("%+v: wait %d for %d of %d", l, wait, n, o.available(l, now))
			case wait > 0:
				before := oracle{new(big.Rat).Set(o.tokens), o.last}
				if before.available(l, now+wait-1) >= n {
					t.Fatalf("%+v: %d ns to wait for %d is too long", l, wait, n)
				}
				after := oracle{new(big.Rat).Set(o.tokens), o.last}
				if after.available(l, now+wait) < n {
					t.Fatalf("%+v: %d ns to wait for %d is too short", l, wait, n)
				}
			}
			switch {
			case n <= l.Burst && (wait == 0 || r.IntN(4) == 0): // what is not there is owed
				s = l.Take(s, n, now)
				o.at(l, now).Sub(o.tokens, new(big.Rat).SetInt64(n))
			case r.IntN(3) == 0:
				s = l.Give(s, n, now)
				o.at(l, now).Add(o.tokens, new(big.Rat).SetInt64(n))
				o.at(l, now)
			}
		}
		if left := l.Reset(s, now); l.Available(s, now+left) != l.Burst || left > 0 && l.Available(s, now+left-1) == l.Burst && o.available(l, now+left-1) == l.Burst {
			t.Fatalf("%+v: not just full after %d", l, left)
		}
	}
}

// Whoever asks often gets all that comes: the seed of this package, which
// rounded to whole tokens at every look, granted nothing at all at ten a second
// when asked every 50 ms.
func TestNoDrift(t *testing.T) {
	for _, step := range []int64{1e3, 333_333, 1e6, 50e6, 99_999_999} {
		l := Limit{Count: 10, Period: 1e9, Burst: 5}
		var s State
		granted, start := int64(0), int64(1.8e18)
		for now := start; now <= start+10e9; now += step {
			for l.Wait(s, 1, now) == 0 {
				s = l.Take(s, 1, now)
				granted++
			}
		}
		if want := int64(10*10 + 5); granted < want-1 || granted > want+1 {
			t.Errorf("asked every %d ns: %d granted, want %d", step, granted, want)
		}
	}
}

func TestAdoptGrantsNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for range 2000 {
		was, is := limits(r), limits(r)
		now := int64(1.8e18)
		s := was.Take(State{}, 1+r.Int64N(2*was.Burst), now)
		now += r.Int64N(1e9)
		had := was.Available(s, now)
		if got, want := is.Available(is.Adopt(was, s, now), now), min(had, is.Burst); got != want {
			t.Fatalf("%+v to %+v: had %d, has %d, want %d", was, is, had, got, want)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	l := Limit{Count: 1e6, Period: 1e9, Burst: 1000}
	var s State
	now := int64(1.8e18)
	for b.Loop() {
		now += 1500
		if l.Wait(s, 1, now) == 0 {
			s = l.Take(s, 1, now)
		}
	}
}
