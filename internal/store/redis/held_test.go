package redis

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/quota"
)

// Calls that two gateways have under way are never more than the limit, and the
// limit is reached.
func TestConcurrencyOfTwo(t *testing.T) {
	s := start(t)
	const limit = 10
	c := quota.Config{Rules: []quota.RuleConfig{{Name: "r", Per: []string{"tenant"}, Concurrent: limit}}}
	gs := []*gateway{join(t, s.url(), patient(), c), join(t, s.url(), patient(), c)}
	var running, most, done atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(3 * time.Second)
	for i := range 40 {
		wg.Go(func() {
			for time.Now().Before(end) {
				h, err := gs[i%2].reserve(key("a"), quota.Demand{})
				if err != nil {
					time.Sleep(time.Millisecond)
					continue
				}
				n := running.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond)
				running.Add(-1)
				h.Settle(quota.Settlement{}, time.Now())
				done.Add(1)
			}
		})
	}
	wg.Wait()
	t.Logf("%d calls, at most %d at once", done.Load(), most.Load())
	if most.Load() != limit {
		t.Errorf("%d at once, want %d", most.Load(), limit)
	}
	// When nobody uses them, all places can be had by either gateway.
	time.Sleep(1500 * time.Millisecond)
	for range limit {
		if _, err := gs[1].reserve(key("a"), quota.Demand{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := gs[0].reserve(key("a"), quota.Demand{}); err == nil {
		t.Error("one more than the limit")
	}
}

// What a killed gateway held is free after it has been silent for a while.
func TestKilledGateway(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := quota.Config{Rules: []quota.RuleConfig{{Name: "r", Per: []string{"tenant"}, Concurrent: 4}}}
	a, b := join(t, s.url(), patient(), c), join(t, s.url(), patient(), c)
	for range 4 {
		if _, err := a.reserve(key("a"), quota.Demand{}); err != nil {
			t.Fatal(err)
		}
	}
	held := func() bool {
		h, err := b.reserve(key("a"), quota.Demand{})
		if err == nil {
			h.Settle(quota.Settlement{}, time.Now())
		}
		return err != nil
	}
	time.Sleep(7 * time.Second) // longer than a silent gateway is believed
	if !held() {
		t.Fatal("what a living gateway holds was given away")
	}
	a.vanish()
	gone := time.Now()
	for held() {
		if time.Since(gone) > 15*time.Second {
			t.Fatal("a killed gateway holds its places for ever")
		}
		time.Sleep(50 * time.Millisecond)
	}
	if d := time.Since(gone); d < 2*time.Second {
		t.Errorf("free after %v, though the gateway may have been but slow", d)
	}
	for name, ttl := range s.keys(t) {
		if ttl <= 0 {
			t.Errorf("key %q expires in %v", name, ttl)
		}
	}
}

// A gateway that leaves gives its places back at once.
func TestLeavingGateway(t *testing.T) {
	s := start(t)
	c := quota.Config{Rules: []quota.RuleConfig{{Name: "r", Per: []string{"tenant"}, Concurrent: 100}}}
	a, b := join(t, s.url(), patient(), c), join(t, s.url(), patient(), c)
	h, err := a.reserve(key("a"), quota.Demand{})
	if err != nil {
		t.Fatal(err)
	}
	h.Settle(quota.Settlement{}, time.Now())
	a.leave()
	for i := range 100 {
		if _, err := b.reserve(key("a"), quota.Demand{}); err != nil {
			t.Fatalf("place %d of 100: %v", i, err)
		}
	}
}

// A budget that two gateways share pays for exactly as many calls as it can, and
// what was charged is what Redis counts.
func TestBudgetOfTwo(t *testing.T) {
	s := start(t)
	const calls = 100
	c := quota.Config{Budgets: []quota.BudgetConfig{{Name: "b", Per: []string{"tenant"}, Limit: quota.AmountConfig{USD: calls * llm.USD}, Period: "month"}}}
	gs := []*gateway{join(t, s.url(), patient(), c), join(t, s.url(), patient(), c)}
	price := dollar(t)
	var admitted, charged atomic.Int64
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			h, err := gs[i%2].reserve(key("a"), quota.Demand{Input: 500_000, Output: 500_000, Price: price})
			if err != nil {
				return
			}
			admitted.Add(1)
			time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
			for _, ch := range h.Settle(quota.Settlement{Usage: llm.Usage{Input: 500_000, Output: 500_000}, Price: price}, time.Now()) {
				charged.Add(ch.Amount)
			}
		})
	}
	wg.Wait()
	if n := admitted.Load(); n > calls || n < calls-2 {
		t.Errorf("%d calls let through, the budget pays for %d", n, calls)
	}
	if charged.Load() != admitted.Load()*int64(llm.USD) {
		t.Errorf("%d charged for %d calls", charged.Load(), admitted.Load())
	}
	for _, g := range gs {
		g.leave()
	}
	spent := s.spent(t)
	if spent != charged.Load() {
		t.Errorf("Redis counts %d, charged was %d", spent, charged.Load())
	}
}

// spent is what Redis counts as spent of the only budget.
func (s *server) spent(t testing.TB) (n int64) {
	t.Helper()
	for name := range s.keys(t) {
		if name == gatewaysKey {
			continue
		}
		m := s.do(t, "HGETALL", name)
		fields, err := m.AsStrMap()
		if err != nil {
			t.Fatal(err)
		}
		for field, v := range fields {
			var amount int64
			if _, err := fmt.Sscan(v, &amount); err != nil {
				t.Fatal(err)
			}
			switch {
			case field[:1] == "s", field == "base":
				n += amount
			case field[:1] == "l" && amount != 0:
				t.Errorf("%s %s still holds %d", name, field, amount)
			}
		}
	}
	return n
}

// Calls of random sizes, some of which use less, some more than they reserved, some
// in a stream that grows: what is charged is what Redis counts, and no more than
// the budget but for what calls used beyond their reservations.
func TestBudgetHistory(t *testing.T) {
	s := start(t)
	const limit = 5_000_000
	c := quota.Config{Budgets: []quota.BudgetConfig{{Name: "b", Per: []string{"tenant"}, Limit: quota.AmountConfig{Tokens: limit}, Period: "day"}}}
	gs := []*gateway{join(t, s.url(), patient(), c), join(t, s.url(), patient(), c)}
	var charged, beyond atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for range 200 {
				in, out := 1+r.Int64N(5000), 1+r.Int64N(5000)
				h, err := gs[i%2].reserve(key("a"), quota.Demand{Input: in, Output: out})
				if err != nil {
					continue
				}
				used := r.Int64N(2 * out)
				if used > out && h.Allow(llm.Usage{Input: in, Output: used}) > used {
					out = used
				}
				beyond.Add(max(0, used-out))
				for _, ch := range h.Settle(quota.Settlement{Usage: llm.Usage{Input: in, Output: used}}, time.Now()) {
					charged.Add(ch.Amount)
				}
			}
		})
	}
	wg.Wait()
	for _, g := range gs {
		g.leave()
	}
	t.Logf("charged %d of %d, %d of it beyond reservations", charged.Load(), limit, beyond.Load())
	if got := charged.Load(); got > limit+beyond.Load() || got < limit*9/10 {
		t.Errorf("charged %d of %d, %d of it beyond reservations", got, limit, beyond.Load())
	}
	if spent := s.spent(t); spent != charged.Load() {
		t.Errorf("Redis counts %d, charged was %d", spent, charged.Load())
	}
}
