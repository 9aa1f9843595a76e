package quota

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
)

// shares of all gateways add up to no more than the limit, as far as there is one
// for each.
func TestShares(t *testing.T) {
	for _, b := range []bound{
		{algorithm: algGCRA, count: 100, period: 1e9, burst: 100}, {algorithm: algBucket, count: 7, period: 60e9, burst: 30}, {algorithm: algWindow, count: 600, period: 60e9, burst: 20},
		{algorithm: algFixed, count: 1000, period: 3600e9, burst: 1000}, {algorithm: algConcurrent, count: 0, period: 0, burst: 64},
	} {
		for n := int64(1); n <= 8; n++ {
			p := b.part(1, n)
			if p.algorithm != b.algorithm || p.burst*n > max(b.burst, n) || p.burst < 1 {
				t.Errorf("a share of 1 in %d of %+v is %+v", n, b, p)
			}
			if b.period > 0 {
				whole, share := float64(b.count)/float64(b.period), float64(p.count)/float64(p.period)*float64(n)
				if share > whole*1.001 || share < whole*0.9 && b.count > 10*n {
					t.Errorf("shares of 1 in %d of %+v come back at %v of it", n, b, share/whole)
				}
			}
			if all := b.part(n, n); all != b {
				t.Errorf("all of %+v is %+v", b, all)
			}
		}
	}
}

// A tag follows from what a limit is kept for; a client cannot end it early.
func TestTags(t *testing.T) {
	s := &Subject{Principal: llm.Principal{Key: "k}1", Tenant: "a{c|me", User: "u"}}
	for want, all := range map[string][][]string{
		"{t:a%7Bc%7Cme}": {{"model", "tenant", "key"}, {"key", "user"}, {"user"}, {"claim:team"}}, "{g}": {{"ip", "model"}, {"provider", "region"}, nil},
	} {
		for _, per := range all {
			l := &limit{rule: &rule{per: apart(per)}}
			if got := l.tag(s); got != want {
				t.Errorf("%v: %s, want %s", per, got, want)
			}
		}
	}
}

// slowStore is a store that answers after a time, or never, and grants everything.
type slowStore struct {
	delay    atomic.Int64
	asked    atomic.Int64
	reported atomic.Int64 // debts less returns
	missing  atomic.Int64 // gateways
}

func (s *slowStore) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(s.delay.Load())):
		return nil
	}
}

func (s *slowStore) Acquire(ctx context.Context, wants []Want) (Answer, error) {
	s.asked.Add(1)
	if err := s.wait(ctx); err != nil {
		return Answer{}, err
	}
	a := Answer{OK: true}
	for _, w := range wants {
		n := w.Need + max(w.Extra, w.Waiting)
		a.Given = append(a.Given, Given{OK: true, Granted: n, Remaining: w.Burst})
	}
	return a, nil
}

func (s *slowStore) Report(ctx context.Context, changes []Change) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	for _, c := range changes {
		s.reported.Add(c.Amount)
	}
	return nil
}

func (s *slowStore) Beat(ctx context.Context, alive bool) (Gateways, error) {
	err := s.wait(ctx)
	return Gateways{Live: 2, Missing: int(s.missing.Load()), Heard: alive}, err
}

func (s *slowStore) Close() error { return nil }

func sharing2(t *testing.T, store Shared, c Config) (*Room, *Plan) {
	r := New()
	c.Store = StoreConfig{Kind: StoreRedis, URL: storeURL(t, "redis://h"), Lease: 10, Timeout: setting.Duration(50 * time.Millisecond)}
	r.Share(store, c.Store, func(error) {})
	return r, compile(t, r, c)
}

// A room that is closed while it reports or beats gives back all that it has, as
// one does that is closed at any other time.
func TestCloseWithinBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(slowStore)
		r, p := sharing2(t, store, Config{Rules: []RuleConfig{{Name: "r", Requests: RateConfig{Rate: rate(t, "1000/s"), Burst: 1000}}}})
		h, err := r.Reserve(p, by("a"), Demand{}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		h.Settle(Settlement{}, time.Now())
		store.delay.Store(int64(20 * time.Millisecond))
		time.Sleep(beatEvery + 10*time.Millisecond) // one is on its way
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if n := store.reported.Load(); n != -10 || r.sharing.failures.Load() > 0 {
			t.Errorf("%d were given back of 10, with %d failures", -n, r.sharing.failures.Load())
		}
	})
}

// The first call that the store leaves without an answer waits for the timeout, no
// other does, until the store answers again.
func TestNobodyWaitsTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(slowStore)
		r, p := sharing2(t, store, Config{Rules: []RuleConfig{{Name: "r", Requests: RateConfig{Rate: rate(t, "10/s")}}}})
		defer r.Close()
		call := func() (time.Duration, error) {
			begun := time.Now()
			h, err := r.Reserve(p, by("a"), Demand{}, begun)
			if err == nil {
				h.Settle(Settlement{}, time.Now())
			}
			return time.Since(begun), err
		}
		// One asks for ten more.
		for range 11 {
			if d, err := call(); err != nil || d != 0 {
				t.Fatal(d, err)
			}
		}
		if n := store.asked.Load(); n != 1 {
			t.Errorf("%d questions for 11 calls", n)
		}
		store.delay.Store(int64(2400 * time.Millisecond))
		if d, err := call(); d != 50*time.Millisecond {
			t.Errorf("the first waited %v, %v", d, err)
		}
		// The gateway's half of the burst is used up by the calls from before.
		if d, err := call(); d != 0 || err == nil {
			t.Errorf("the next waited %v, %v", d, err)
		}
		time.Sleep(r.sharing.aloneAfter())
		n := -5 // the share's burst has come back meanwhile
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			d, err := call()
			if d > 0 {
				t.Fatalf("a call waited %v", d)
			}
			if err == nil {
				n++
			}
		}
		if n < 49 || n > 51 {
			t.Errorf("%d calls in ten seconds, half of ten a second is 50", n)
		}
		before := store.reported.Load()
		store.delay.Store(0)
		time.Sleep(time.Second)
		if st, _ := r.Shared(); st.Down || st.Outages != 1 || st.Live != 2 {
			t.Errorf("%+v", st)
		}
		// Of the calls meanwhile, those that have not come back are owed: no more than
		// a share's burst.
		if owed := store.reported.Load() - before; owed < 1 || owed > 5 {
			t.Errorf("%d were reported", owed)
		}
	})
}

// A gateway that has lost the store lets no more than a lease through until the
// others must have learnt of it; then it has its share. Who is turned away before
// that is not told of a limit that nobody has looked at.
func TestShareInTime(t *testing.T) {
	for name, rule := range map[string]RuleConfig{
		"rate":   {Name: "r", Requests: RateConfig{Rate: rate(t, "160/s")}},
		"window": {Name: "r", Requests: RateConfig{Rate: rate(t, "160/s"), Algorithm: "window"}},
		"places": {Name: "r", Concurrent: 160},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { shareInTime(t, rule) }) })
	}
}

func shareInTime(t *testing.T, rule RuleConfig) {
	const lease, share = 10, 80
	store := new(slowStore)
	r, p := sharing2(t, store, Config{Rules: []RuleConfig{rule}})
	defer r.Close()
	admitted := func() (n int) {
		for {
			_, err := r.Reserve(p, by("a"), Demand{}, time.Now())
			if err == nil {
				n++
				continue
			}
			if f, ok := errors.AsType[*fault.Error](err); !ok || f.RetryAfter <= 0 || (f.Kind == fault.Overloaded) != !r.sharing.noticed(r.sharing.at()) {
				t.Errorf("refused with %+v", err)
			}
			return n
		}
	}
	time.Sleep(2 * time.Second)
	store.delay.Store(int64(time.Hour))
	cut := time.Now()
	early := 0
	for time.Since(cut) < r.sharing.aloneAfter()-beatEvery {
		early += admitted()
		time.Sleep(10 * time.Millisecond)
	}
	if early != lease {
		t.Errorf("%d let through before the others can know, a lease is %d", early, lease)
	}
	time.Sleep(time.Until(cut.Add(r.sharing.aloneAfter() + time.Second)))
	if n := admitted(); n != share && n+early != share {
		t.Errorf("%d let through then, the share is %d", n, share)
	}
}

// What was granted by what was known of the others is not used if that may have
// become wrong meanwhile.
func TestGrantByOldNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(slowStore)
		r, p := sharing2(t, store, Config{Rules: []RuleConfig{{Name: "r", Requests: RateConfig{Rate: rate(t, "160/s")}}}})
		defer r.Close()
		s := r.sharing
		s.stop() // nothing but calls asks who is there
		s.workers.Wait()
		time.Sleep(time.Second)
		store.delay.Store(int64(10 * time.Millisecond))
		before := store.asked.Load()
		h, err := r.Reserve(p, by("a"), Demand{}, time.Now())
		if err != nil || store.asked.Load() != before+1 || !s.fresh() {
			t.Errorf("%v, %d questions, fresh %v", err, store.asked.Load()-before, s.fresh())
		}
		e := h.cell(t).lease
		e.n = 0
		store.missing.Store(1)
		time.Sleep(time.Duration(s.news.Load().asked + int64(newsAge) - s.at() - 1))
		store.delay.Store(int64(10 * time.Millisecond))
		before = store.asked.Load()
		if _, err := r.Reserve(p, by("a"), Demand{}, time.Now()); err != nil || store.asked.Load() != before+2 || e.unpaid != 0 {
			t.Errorf("%v after %d questions, %d in advance; want another question when the other is missing", err, store.asked.Load()-before, e.unpaid)
		}
	})
}

// What calls use beyond or below what they reserved reaches the store.
func TestSharedSettlement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(slowStore)
		r, p := sharing2(t, store, Config{Rules: []RuleConfig{{Name: "r", Tokens: TokensConfig{RateConfig: RateConfig{Rate: rate(t, "100000/s")}}}}})
		defer r.Close()
		for used, reported := range map[int64]int64{150: 50, 20: 0} {
			h, err := r.Reserve(p, by("a"), Demand{Input: 50, Output: 50}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			before := store.reported.Load()
			h.cell(t).lease.n = 0 // nothing to draw from
			h.Settle(Settlement{Usage: llm.Usage{Output: used}}, time.Now())
			time.Sleep(150 * time.Millisecond)
			if got := store.reported.Load() - before; got != reported {
				t.Errorf("%d of 100 used: %d reported, want %d", used, got, reported)
			}
			// What is left over goes back when nobody uses it.
			time.Sleep(2 * time.Second)
			if got := store.reported.Load() - before; got != used-100 {
				t.Errorf("%d of 100 used: %d reported in the end, want %d", used, got, used-100)
			}
		}
	})
}

func (h *Hold) cell(t *testing.T) *cell {
	if len(h.taken) != 1 {
		t.Fatal("not one cell")
	}
	return h.taken[0].cell
}

// With the policy strict nobody passes without the store, and hears why.
func TestStrict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(slowStore)
		store.delay.Store(int64(time.Hour))
		r := New()
		c := Config{Rules: []RuleConfig{{Name: "r", Requests: RateConfig{Rate: rate(t, "10/s")}}}}
		var told []error
		r.Share(store, StoreConfig{Kind: StoreRedis, OnOutage: "strict"}, func(err error) { told = append(told, err) })
		defer r.Close()
		_, err := r.Reserve(compile(t, r, c), by("a"), Demand{}, time.Now())
		if f := refused(t, err, fault.Overloaded); f.RetryAfter < time.Second || f.Public == "" {
			t.Errorf("%+v", f)
		}
		if len(told) != 1 || !errors.Is(told[0], context.DeadlineExceeded) {
			t.Errorf("told %v", told)
		}
	})
}
