package app

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/internal/admin"
	"github.com/headgate-ai/headgate/internal/fleet"
	"github.com/headgate-ai/headgate/internal/quota"
)

// adaptEvery is how often limits that move do so.
const adaptEvery = time.Second

// adapter looks at the providers once a second and moves the limits that go by
// how they are doing. What it learned outlasts reloads.
type adapter struct {
	pulses func() map[string]*fleet.Pulse
	plan   func() *quota.Plan
	quota  *quota.Room
	// record is told what belongs on record, renamed that a provider has changed
	// its version.
	record  func(quota.Adaptation)
	renamed func(provider, was, is string)

	at      time.Time
	trends  map[string]*fleet.Trend
	seen    map[string]fleet.Seen
	renames renames
}

// renames are how often each provider has changed its version.
type renames struct {
	mu   sync.Mutex
	was  map[string]string    // the version that was seen last
	told map[string]time.Time // when that was logged last
	n    map[string]int64
}

// renameLogEvery bounds how often the log tells of one provider: behind one
// address there may be several versions at once.
const renameLogEvery = 10 * time.Second

// run moves limits until its context ends.
func (d *adapter) run(ctx context.Context) {
	tick := time.NewTicker(adaptEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			d.step(now)
		}
	}
}

// step moves limits once. Where none moves, providers are not looked at either:
// their calls are not counted then.
func (d *adapter) step(now time.Time) {
	plan := d.plan()
	if !plan.Adapts() {
		d.at = time.Time{}
		return
	}
	seconds := adaptEvery.Seconds()
	if !d.at.IsZero() {
		seconds = now.Sub(d.at).Seconds()
	}
	d.at = now
	d.look(seconds, now)
	for _, a := range d.quota.Adapt(plan, func(provider string) fleet.Seen { return d.seen[provider] }, now) {
		d.record(a)
	}
}

// look takes up what the providers' pulses have counted.
func (d *adapter) look(seconds float64, now time.Time) {
	pulses := d.pulses()
	if d.trends == nil {
		d.trends = map[string]*fleet.Trend{}
	}
	maps.DeleteFunc(d.trends, func(name string, _ *fleet.Trend) bool { return pulses[name] == nil })
	d.seen = make(map[string]fleet.Seen, len(pulses)+1)
	all := make([]*fleet.Trend, 0, len(pulses))
	calls, health := 0.0, 0.0
	for name, pulse := range pulses {
		t := d.trends[name]
		if t == nil {
			t = new(fleet.Trend)
			d.trends[name] = t
		}
		s := t.Follow(pulse, seconds)
		d.seen[name] = s
		all = append(all, t)
		calls, health = calls+s.Calls, health+s.Calls*s.Health
		if was, ok := d.renames.note(name, s.Version, now); ok {
			d.renamed(name, was, s.Version)
		}
	}
	together := fleet.Together(all)
	if calls > 0 {
		together.Health = health / calls // each by how much it is used
	}
	d.seen[""] = together
}

// note takes up a provider's version. It returns the one before, and whether the
// log should tell of the change.
func (r *renames) note(provider, version string, now time.Time) (was string, tell bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was = r.was[provider]
	if version == "" || version == was {
		return was, false
	}
	if r.was == nil {
		r.was, r.told, r.n = map[string]string{}, map[string]time.Time{}, map[string]int64{}
	}
	r.was[provider] = version
	if was == "" {
		return was, false // the first that is seen is no change
	}
	r.n[provider]++
	if now.Sub(r.told[provider]) < renameLogEvery {
		return was, false
	}
	r.told[provider] = now
	return was, true
}

// counts is how often each provider has changed its version.
func (r *renames) counts() map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.n)
}

// newAdapter makes the adapter of the gateway.
func (a *App) newAdapter() *adapter {
	return &adapter{
		pulses: a.gateway.Upstream.Pulses, quota: a.gateway.Quota,
		plan: func() *quota.Plan { return &a.gateway.Snapshot().Quota },
		record: func(x quota.Adaptation) {
			a.record(admin.Entry{
				Who: "the gateway", Operation: "limits.adapt", Target: x.Rule + "/" + x.Dimension, Step: "done", Old: x.Was, New: x.Is, Reason: x.Reason,
			})
		},
		renamed: func(provider, was, is string) {
			a.log.Warn("a provider has changed its version; limits with a profile for it follow", "provider", provider, "was", was, "is", is)
		},
	}
}

// adapt moves limits while the gateway runs.
func (a *App) adapt(ctx context.Context) {
	defer a.started.Done()
	a.adapter.run(ctx)
}
