// Package limittest is what the tests of limits have in common: the contract of
// all algorithms (Run), that of the token buckets against one with exact
// fractions (Bucket), and rates and prices to test with. Only tests use it.
package limittest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/meter"
	"github.com/headgate-ai/headgate/internal/setting"
)

// Limit is one limit of an algorithm together with its state. Times are in
// nanoseconds.
type Limit struct {
	// Most is how many tokens can be taken at once of a limit that was not used.
	Most int64
	// Available, Wait and Reset are what the algorithm says at a time.
	Available func(now int64) int64
	Wait      func(n, now int64) int64
	Reset     func(now int64) int64
	// Take and Give change the state; what is given was taken at a time before.
	Take func(n, now int64)
	Give func(n, taken, now int64)
	// Copy is the limit with a state of its own from now on.
	Copy func() Limit
}

// Start is a time at which histories begin, in this century.
const Start = int64(1.8e18)

// Run is the contract of every algorithm, over random histories of random limits.
// make gives an unused limit, and about how long it takes for a token to come.
func Run(t *testing.T, make func(r *rand.Rand) (l Limit, step int64)) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		l, step := make(r)
		now := Start + r.Int64N(1e15)
		if l.Available(now) != l.Most || l.Reset(now) != 0 {
			t.Fatalf("%d of %d available of what was not used, in %d", l.Available(now), l.Most, l.Reset(now))
		}
		for range 60 {
			now += r.Int64N(1 + 4*step)
			n := 1 + r.Int64N(max(1, l.Most+l.Most/4))
			l.waits(t, n, now)
			if l.Wait(n, now) == 0 {
				l.takes(t, r, n, now)
			}
		}
		if left := l.Reset(now); l.Available(now+left) != l.Most {
			t.Fatalf("%d of %d available when all should be", l.Available(now+left), l.Most)
		}
	}
}

// waits looks at what is said of n tokens at a time: whether they are there, and
// if not, when they will be, neither earlier nor later.
func (l *Limit) waits(t *testing.T, n, now int64) {
	t.Helper()
	had, wait := l.Available(now), l.Wait(n, now)
	switch {
	case n > l.Most:
		if wait != math.MaxInt64 {
			t.Fatalf("%d of at most %d in %d", n, l.Most, wait)
		}
	case (wait == 0) != (had >= n):
		t.Fatalf("%d to wait for %d, and %d are there", wait, n, had)
	case wait > 0:
		if later := l.Copy(); later.Wait(n, now+wait-1) == 0 {
			t.Fatalf("%d to wait for %d is too long", wait, n)
		}
		if later := l.Copy(); later.Wait(n, now+wait) != 0 {
			t.Fatalf("%d to wait for %d is too short", wait, n)
		}
	}
	if l.Available(now) != had {
		t.Fatalf("to look has changed %d available to %d", had, l.Available(now))
	}
}

// takes takes n tokens that are there, and gives some of them back.
func (l *Limit) takes(t *testing.T, r *rand.Rand, n, now int64) {
	t.Helper()
	had := l.Available(now)
	l.Take(n, now)
	if got := l.Available(now); got != had-n {
		t.Fatalf("%d available after %d of %d were taken", got, n, had)
	}
	if back := r.Int64N(n + 1); r.IntN(3) == 0 {
		l.Give(back, now, now)
		if got := l.Available(now); got != had-n+back {
			t.Fatalf("%d available after %d of %d were taken and %d given back", got, n, had, back)
		}
	}
	if got := l.Copy(); got.Available(now-r.Int64N(1e12)) > l.Available(now) {
		t.Fatal("a clock that went back has granted something")
	}
}

// Rate is a rate as configurations write it.
func Rate(t testing.TB, text string) setting.Rate {
	t.Helper()
	var r setting.Rate
	if err := r.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return r
}

// Price is a price of so many dollars a million tokens, in and out.
func Price(t testing.TB, dollars string) *meter.Price {
	t.Helper()
	p, ok := Prices(t, dollars).Price("gpt-4", "openai", time.Now())
	if !ok {
		t.Fatal("no price")
	}
	return p
}

// Prices is a table in which every model has that price.
func Prices(t testing.TB, dollars string) meter.Table {
	t.Helper()
	rate, err := meter.ParseRate(dollars)
	if err != nil {
		t.Fatal(err)
	}
	return meter.Config{{Model: "*", RatesConfig: meter.RatesConfig{Input: rate, Output: rate}}}.Compile()
}
