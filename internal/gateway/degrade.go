package gateway

import (
	"sync/atomic"
	"time"

	"github.com/headgate-ai/headgate/internal/authn"
	"github.com/headgate-ai/headgate/internal/edge"
	"github.com/headgate-ai/headgate/internal/fault"
)

// Degradation is how far operators have turned the gateway down, until a time
// that they name. Its zero value is not at all. Many goroutines may use it.
type Degradation struct{ now atomic.Pointer[degraded] }

type degraded struct {
	level int
	until time.Time
}

// batchOnly is the level at which requests of the least urgent class are
// refused. The levels below are published and refuse nobody.
const batchOnly = 3

// Set sets the level until a time, from which on it is 0.
func (d *Degradation) Set(level int, until time.Time) { d.now.Store(&degraded{level, until}) }

// Level is the level that holds at a time, and until when.
func (d *Degradation) Level(now time.Time) (level int, until time.Time) {
	if s := d.now.Load(); s != nil && now.Before(s.until) {
		return s.level, s.until
	}
	return 0, time.Time{}
}

// longestWait is the longest that a refused client is told to stay away: the
// level may be taken back before its time.
const longestWait = time.Minute

// admit refuses who is not urgent enough for the level. It comes before the body
// is read, and asks nothing while the gateway is not turned down.
func (d *Degradation) admit(p *authn.Plan, who *authn.Grant, x *edge.Exchange, now time.Time) error {
	if d.now.Load() == nil || x.Route.Body == edge.NoBody {
		return nil
	}
	level, until := d.Level(now)
	if level < batchOnly || p.Class(who) != "P2" {
		return nil
	}
	e := fault.New(fault.Overloaded, "gateway.degrade", "The gateway is turned down and takes no requests of the priority class P2 for now; try again later.")
	e.RetryAfter = min(until.Sub(now), longestWait)
	return e
}
