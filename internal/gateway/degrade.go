package gateway

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-ai/headgate/internal/authn"
	"github.com/headgate-ai/headgate/internal/edge"
	"github.com/headgate-ai/headgate/internal/fault"
)

// Degradation is how far operators have turned the gateway down, all of it or
// one model, until a time that they name. Its zero value is not at all. Many
// goroutines may use it.
type Degradation struct {
	setting sync.Mutex
	now     atomic.Pointer[map[string]degraded] // by model, "" for all; never changed
}

type degraded struct {
	level int
	until time.Time
}

// batchOnly is the level at which requests of the least urgent class are
// refused. The levels below are published and refuse nobody.
const batchOnly = 3

// Set sets the level of a configured model, or of all where it is "", until a
// time, from which on it is 0.
func (d *Degradation) Set(model string, level int, until time.Time) {
	d.setting.Lock()
	defer d.setting.Unlock()
	next := map[string]degraded{}
	if s := d.now.Load(); s != nil {
		maps.Copy(next, *s)
	}
	now := time.Now()
	next[model] = degraded{level, until}
	maps.DeleteFunc(next, func(_ string, s degraded) bool { return s.level == 0 || !now.Before(s.until) })
	if len(next) == 0 {
		d.now.Store(nil)
		return
	}
	d.now.Store(&next)
}

// Level is the level of a model, or of all where it is "", that holds at a time,
// and until when.
func (d *Degradation) Level(model string, now time.Time) (level int, until time.Time) {
	if all := d.now.Load(); all != nil {
		if s := (*all)[model]; now.Before(s.until) {
			return s.level, s.until
		}
	}
	return 0, time.Time{}
}

// Models are those that have a level of their own, by name.
func (d *Degradation) Models(now time.Time) (names []string) {
	all := d.now.Load()
	if all == nil {
		return nil
	}
	for model, s := range *all {
		if model != "" && now.Before(s.until) {
			names = append(names, model)
		}
	}
	slices.Sort(names)
	return names
}

// longestWait is the longest that a refused client is told to stay away: the
// level may be taken back before its time.
const longestWait = time.Minute

// admit refuses who is not urgent enough for the level of a model, or of all
// where it is "". For all it is asked before the body is read, and it costs
// nothing while nothing is turned down.
func (d *Degradation) admit(p *authn.Plan, who *authn.Grant, x *edge.Exchange, model string, now time.Time) error {
	if d.now.Load() == nil || x.Route.Body == edge.NoBody {
		return nil
	}
	level, until := d.Level(model, now)
	if level < batchOnly || p.Class(who) != "P2" {
		return nil
	}
	what := "The gateway"
	if model != "" {
		what = "The model"
	}
	e := fault.New(fault.Overloaded, "gateway.degrade", "%s is turned down and takes no requests of the priority class P2 for now; try again later.", what)
	e.RetryAfter = min(until.Sub(now), longestWait)
	return e
}
