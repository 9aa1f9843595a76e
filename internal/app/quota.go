package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/headgate-ai/headgate/internal/journal"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/store/redis"
)

// shareCounts keeps the counts of limits and budgets where the configuration says.
// A store that is out of reach does not keep the gateway from starting.
func (a *App) shareCounts(c quota.StoreConfig) error {
	c = c.Default()
	if c.Kind != quota.StoreRedis {
		return nil
	}
	address, err := c.URL.Resolve()
	if err != nil {
		return fmt.Errorf("cannot share the counts of limits (quota.store.url): %w", err)
	}
	store, err := redis.Open(address, c.Timeout.Std())
	if err != nil {
		return fmt.Errorf("cannot share the counts of limits (quota.store.url): %w", err)
	}
	var down atomic.Pointer[time.Time]
	a.gateway.Quota.Share(timedStore{store, a.journal}, c, func(err error) {
		if err == nil {
			a.log.Info("limits are shared again", "store", c.URL.String(), "after", time.Since(*down.Load()).Round(time.Millisecond).String())
			return
		}
		now := time.Now()
		down.Store(&now)
		a.log.Warn("the store of the limits does not answer; they are kept without it until it does", "store", c.URL.String(), "policy", c.OnOutage, "error", err.Error())
	})
	return nil
}

// unshareCounts gives back what this gateway has of shared counts, for the others
// to use.
func (a *App) unshareCounts() {
	if err := a.gateway.Quota.Close(); err != nil {
		a.log.Warn("what this gateway had of shared limits comes back to the others in some seconds", "error", err.Error())
	}
}

// timedStore keeps how long calls of a store take.
type timedStore struct {
	quota.Shared
	journal *journal.Room
}

// Acquire implements quota.Shared.
func (s timedStore) Acquire(ctx context.Context, wants []quota.Want) (quota.Answer, error) {
	defer s.took("acquire", time.Now())
	return s.Shared.Acquire(ctx, wants)
}

// Report implements quota.Shared.
func (s timedStore) Report(ctx context.Context, changes []quota.Change) error {
	defer s.took("report", time.Now())
	return s.Shared.Report(ctx, changes)
}

// Beat implements quota.Shared.
func (s timedStore) Beat(ctx context.Context, alive bool) (quota.Gateways, error) {
	defer s.took("beat", time.Now())
	return s.Shared.Beat(ctx, alive)
}

func (s timedStore) took(call string, begun time.Time) { s.journal.Synced(call, time.Since(begun)) }
