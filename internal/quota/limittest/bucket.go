package limittest

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/lab/cputime"
	"github.com/headgate-ai/headgate/lab/race"
)

// fields are those of both token buckets: Count tokens every Period nanoseconds,
// at most Burst at once.
type fields = struct{ Count, Period, Burst int64 }

// TokenBucket is a limit L with the state S that is a token bucket, whatever it
// keeps.
type TokenBucket[L, S any] interface {
	~struct{ Count, Period, Burst int64 }
	Available(s S, now int64) int64
	Wait(s S, n, now int64) int64
	Reset(s S, now int64) int64
	Take(s S, n, now int64) S
	Give(s S, n, now int64) S
	Adopt(was L, s S, now int64) S
}

// Bucket is the contract of the token buckets. It has Run in it.
func Bucket[L TokenBucket[L, S], S any](t *testing.T) {
	t.Run("contract", func(t *testing.T) {
		Run(t, func(r *rand.Rand) (Limit, int64) {
			f := randomBucket(r)
			var zero S
			return limitOf(L(f), f.Burst, zero), f.Period/f.Count + f.Period/(1+r.Int64N(100))
		})
	})
	t.Run("exact", exact[L, S])
	t.Run("no drift", noDrift[L, S])
	t.Run("fast", fast[L, S])
	t.Run("adopt grants nothing", adoptGrantsNothing[L, S])
}

func limitOf[L TokenBucket[L, S], S any](l L, burst int64, s S) Limit {
	return Limit{
		Most:      burst,
		Available: func(now int64) int64 { return l.Available(s, now) },
		Wait:      func(n, now int64) int64 { return l.Wait(s, n, now) },
		Reset:     func(now int64) int64 { return l.Reset(s, now) },
		Take:      func(n, now int64) { s = l.Take(s, n, now) },
		Give:      func(n, _, now int64) { s = l.Give(s, n, now) },
		Copy:      func() Limit { return limitOf(l, burst, s) },
	}
}

// exactBucket is a bucket with exact fractions.
type exactBucket struct {
	tokens *big.Rat
	last   int64
}

func (o *exactBucket) at(l fields, now int64) *big.Rat {
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

func (o *exactBucket) available(l fields, now int64) int64 {
	t := o.at(l, now)
	return new(big.Int).Div(t.Num(), t.Denom()).Int64() // rounds down, negative ones too
}

// after is what is available at a time to come, if nothing is taken until then.
func (o *exactBucket) after(l fields, now int64) int64 {
	later := exactBucket{new(big.Rat).Set(o.tokens), o.last}
	return later.available(l, now)
}

func randomBucket(r *rand.Rand) fields {
	periods := []int64{1, 1e6, 1e9, 60e9, 3600e9, 86400e9}
	l := fields{1 + r.Int64N(1<<r.IntN(24)), periods[r.IntN(len(periods))], 1 + r.Int64N(1<<r.IntN(20))}
	const years = int64(3e8 * 1e9) // what configurations allow a bucket to take to fill
	l.Burst = min(l.Burst, max(1, years/l.Period*l.Count))
	return l
}

// exact holds a bucket against the one with exact fractions, debts included.
func exact[L TokenBucket[L, S], S any](t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 3000 {
		f := randomBucket(r)
		l, now := L(f), Start+r.Int64N(1e15)
		o := &exactBucket{last: now}
		var s S
		for range 60 {
			now += r.Int64N(1 + 4*f.Period/f.Count + f.Period/(1+r.Int64N(100)))
			n := 1 + r.Int64N(max(1, f.Burst+f.Burst/4))
			if got, want := l.Available(s, now), o.available(f, now); got != want {
				t.Fatalf("%+v: %d available, want %d", l, got, want)
			}
			wait := l.Wait(s, n, now)
			if wait > 0 && wait != math.MaxInt64 && (o.after(f, now+wait-1) >= n || o.after(f, now+wait) < n) {
				t.Fatalf("%+v: %d ns to wait for %d of %d", l, wait, n, o.available(f, now))
			}
			switch {
			case n <= f.Burst && (wait == 0 || r.IntN(4) == 0): // what is not there is owed
				s = l.Take(s, n, now)
				o.at(f, now).Sub(o.tokens, new(big.Rat).SetInt64(n))
			case r.IntN(3) == 0:
				s = l.Give(s, n, now)
				o.at(f, now).Add(o.tokens, new(big.Rat).SetInt64(n))
				o.at(f, now)
			}
		}
		if left := l.Reset(s, now); l.Available(s, now+left) != f.Burst || left > 0 && l.Available(s, now+left-1) == f.Burst && o.available(f, now+left-1) == f.Burst {
			t.Fatalf("%+v: not just full after %d", l, left)
		}
	}
}

// noDrift: whoever asks often gets all that comes.
func noDrift[L TokenBucket[L, S], S any](t *testing.T) {
	for _, step := range []int64{1e3, 333_333, 1e6, 50e6, 99_999_999} {
		l := L(fields{Count: 10, Period: 1e9, Burst: 5})
		var s S
		granted := int64(0)
		for now := Start; now <= Start+10e9; now += step {
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

func adoptGrantsNothing[L TokenBucket[L, S], S any](t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for range 2000 {
		before, after := randomBucket(r), randomBucket(r)
		was, is, now := L(before), L(after), Start
		var s S
		s = was.Take(s, 1+r.Int64N(2*before.Burst), now)
		now += r.Int64N(1e9)
		had := was.Available(s, now)
		if got, want := is.Available(is.Adopt(was, s, now), now), min(had, after.Burst); got != want {
			t.Fatalf("%+v to %+v: had %d, has %d, want %d", was, is, had, got, want)
		}
	}
}

// taking takes a token of a bucket that is mostly full.
func taking[L TokenBucket[L, S], S any]() func() {
	l := L(fields{Count: 1e6, Period: 1e9, Burst: 1000})
	var s S
	now := Start
	return func() {
		now += 1500
		if l.Wait(s, 1, now) == 0 {
			s = l.Take(s, 1, now)
		}
	}
}

// fast: a decision takes less than 100 ns.
func fast[L TokenBucket[L, S], S any](t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector takes its time")
	}
	const each = 10_000
	take := taking[L, S]()
	cputime.Budget(t, 100*time.Nanosecond, 200, each, func() {
		for range each {
			take()
		}
	})
}

// BenchmarkBucket takes a token of a bucket that is mostly full.
func BenchmarkBucket[L TokenBucket[L, S], S any](b *testing.B) {
	take := taking[L, S]()
	for b.Loop() {
		take()
	}
}
