package redis

import (
	"sync"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/meter"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/quota/limittest"
	"github.com/headgate-ai/headgate/internal/setting"
	"github.com/headgate-ai/headgate/lab/race"
)

// gateway is a room with its own connection, as a process has.
type gateway struct {
	room  *quota.Room
	plan  quota.Plan
	store *Store
}

// timed is for tests of what happens within milliseconds or at a rate.
func timed(t testing.TB) {
	t.Helper()
	if race.Enabled {
		t.Skip("the race detector takes its time; make test-bare runs this")
	}
}

// patient is a configuration whose timeout a busy machine does not reach.
func patient() quota.StoreConfig {
	return quota.StoreConfig{Kind: quota.StoreRedis, Lease: 100, Timeout: setting.Duration(5 * time.Second)}
}

func join(t testing.TB, url string, store quota.StoreConfig, c quota.Config) *gateway {
	t.Helper()
	s, err := Open(url, store.Timeout.Std())
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{room: quota.New(), store: s}
	g.room.Share(s, store, func(err error) { t.Log(time.Now().Format("05.000"), s.me, "store: ", err) })
	var p setting.Problems
	c.Validate("quota", &p)
	g.plan = g.room.Compile(&c, &p)
	if len(p) > 0 {
		t.Fatal(p)
	}
	t.Cleanup(func() { g.leave() })
	return g
}

var leaving sync.Map

func (g *gateway) leave() {
	if _, gone := leaving.LoadOrStore(g, true); !gone {
		_ = g.room.Close()
	}
}

// vanish ends a gateway as a kill would: nothing is given back.
func (g *gateway) vanish() {
	if _, gone := leaving.LoadOrStore(g, true); gone {
		return
	}
	g.store.mu.Lock()
	g.store.closed = true
	if g.store.client != nil {
		g.store.client.Close()
		g.store.client = nil
	}
	g.store.mu.Unlock()
	_ = g.room.Close()
}

func key(name string) *quota.Subject {
	return &quota.Subject{Principal: llm.Principal{Key: name, Tenant: "acme"}, Model: "gpt-4", Provider: "openai", IP: "192.0.2.1"}
}

func (g *gateway) reserve(s *quota.Subject, d quota.Demand) (*quota.Hold, error) {
	return g.room.Reserve(&g.plan, s, d, time.Now())
}

// rate is short for what many tests write.
var rate = limittest.Rate

func requests(t testing.TB, text string, burst int64, algorithm string) quota.Config {
	return quota.Config{Rules: []quota.RuleConfig{{Name: "r", Per: []string{"tenant"}, Requests: quota.RateConfig{Rate: rate(t, text), Burst: burst, Algorithm: algorithm}}}}
}

// dollar is a price of one dollar a million tokens, in and out.
func dollar(t testing.TB) *meter.Price {
	t.Helper()
	return limittest.Price(t, "1")
}

// flood asks both gateways from several goroutines until a time is over, and
// counts what is let through.
func flood(t testing.TB, gs []*gateway, each int, pause, during time.Duration, settle bool) int64 {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := int64(0)
	end := time.Now().Add(during)
	for _, g := range gs {
		for range each {
			wg.Go(func() {
				n := int64(0)
				for time.Now().Before(end) {
					h, err := g.reserve(key("a"), quota.Demand{})
					if err == nil {
						n++
						if settle {
							h.Settle(quota.Settlement{}, time.Now())
						}
					}
					time.Sleep(pause)
				}
				mu.Lock()
				total += n
				mu.Unlock()
			})
		}
	}
	wg.Wait()
	return total
}
