package redis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/quota"
)

// taken is an amount that was granted or changed, and between which times the
// server did so.
type taken struct {
	n             int64
	before, after time.Time
}

// Random wants, returns and debts at rates of all kinds against the plain log of
// what was granted. The server's time lies between those that are taken here, on
// the same machine, before and after each call.
func TestRatesAgainstLog(t *testing.T) {
	s := start(t)
	st := opened(t, s.url())
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 3))
			a := quota.Account{
				Key: fmt.Sprint("hg:{g}:history", i), Tag: "{g}", Keep: quota.Keep(i % 3),
				Count: 20 + r.Int64N(300), Period: time.Duration(200+r.IntN(800)) * time.Millisecond, Burst: 10 + r.Int64N(100),
			}
			if a.Keep == quota.KeepFixed || a.Burst > a.Count {
				a.Burst = a.Count
			}
			history(t, st, a, r)
		})
	}
	wg.Wait()
}

func opened(t testing.TB, url string) *Store {
	t.Helper()
	st, err := Open(url, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

func history(t *testing.T, st *Store, a quota.Account, r *rand.Rand) {
	var log []taken
	for range 300 {
		before := time.Now()
		w := quota.Want{Account: a, Need: 1 + r.Int64N(8), Extra: r.Int64N(60)}
		ans, err := st.Acquire(t.Context(), []quota.Want{w})
		if err != nil {
			t.Error(err)
			return
		}
		after, g := time.Now(), ans.Given[0]
		switch {
		case ans.OK != g.OK || g.OK && (g.Granted < w.Need || g.Granted > w.Need+w.Extra) || !g.OK && g.Granted != 0:
			t.Errorf("%+v answered %+v", w, ans)
			return
		case g.OK:
			log = append(log, taken{g.Granted, before, after})
			if over := excess(&a, log); over > 0 {
				t.Errorf("%+v: %d too many", a, over)
				return
			}
		case surelyThere(&a, log, before, w.Need):
			t.Errorf("%+v: refused %d that were there: %+v", a, w.Need, g)
			return
		case g.Wait <= 0:
			t.Errorf("%+v: refused with nothing to wait for", a)
			return
		}
		time.Sleep(time.Duration(r.IntN(4)) * time.Millisecond)
	}
}

// excess is by how much more was granted than the limit allows, at the latest grant
// and the most favourable times.
func excess(a *quota.Account, log []taken) int64 {
	last, sum, worst := log[len(log)-1].after, int64(0), int64(math.MinInt64)
	perNano := float64(a.Count) / float64(a.Period)
	for i := len(log) - 1; i >= 0; i-- {
		sum += log[i].n
		span := last.Sub(log[i].before)
		switch a.Keep {
		case quota.KeepBucket:
			worst = max(worst, sum-a.Burst-int64(math.Ceil(float64(span)*perNano)))
		case quota.KeepWindow:
			if span <= a.Period {
				worst = max(worst, sum-a.Count)
			}
			if slot := (a.Period.Microseconds() + 62) / 63; log[i].before.UnixMicro()/slot == last.UnixMicro()/slot {
				worst = max(worst, sum-a.Burst)
			}
		case quota.KeepFixed:
			if log[i].before.UnixNano()/int64(a.Period) == last.UnixNano()/int64(a.Period) {
				worst = max(worst, sum-a.Count)
			}
		}
	}
	return worst
}

// surelyThere is whether n must have been there at a time, whenever the server did
// what the log says.
func surelyThere(a *quota.Account, log []taken, at time.Time, n int64) bool {
	switch a.Keep {
	case quota.KeepBucket:
		full, had := at, float64(a.Burst)
		if len(log) > 0 {
			full = log[0].after
		}
		for _, g := range log {
			had = min(float64(a.Burst), had+max(0, float64(g.after.Sub(full)))*float64(a.Count)/float64(a.Period)) - float64(g.n)
			full = g.after
		}
		had = min(float64(a.Burst), had+max(0, float64(at.Sub(full)))*float64(a.Count)/float64(a.Period))
		// Earlier grants at later times than assumed cost at most their spans.
		slack := 0.0
		for _, g := range log[max(0, len(log)-1):] {
			slack += float64(g.after.Sub(g.before)) * float64(a.Count) / float64(a.Period)
		}
		return had-slack-1 > float64(n)
	case quota.KeepWindow:
		// All that the 64 slots can hold, and the newest slot for the burst.
		slot := a.Period/63 + time.Microsecond
		sum, near := int64(0), int64(0)
		for _, g := range log {
			if at.Sub(g.after) <= 64*slot+5*time.Millisecond {
				sum += g.n
			}
			if at.Sub(g.after) <= slot+5*time.Millisecond {
				near += g.n
			}
		}
		return sum+n <= a.Count && (a.Burst >= a.Count || near+n <= a.Burst)
	}
	sum := int64(0)
	for _, g := range log {
		if g.after.UnixNano()/int64(a.Period) >= at.UnixNano()/int64(a.Period) {
			sum += g.n
		}
	}
	return sum+n <= a.Count
}

// All wants of a call are granted or none is; soft ones stand in nobody's way.
func TestAllOrNothing(t *testing.T) {
	s := start(t)
	allOrNothing(t, opened(t, s.url()))
}

func allOrNothing(t *testing.T, st *Store) {
	t.Helper()
	account := func(tag string, n int64) quota.Account {
		return quota.Account{Key: "hg:" + tag + ":all", Tag: tag, Keep: quota.KeepBucket, Count: n, Burst: n, Period: time.Hour}
	}
	plenty, scarce := account("{t:a}", 100), account("{g}", 1)
	ask := func(wants ...quota.Want) quota.Answer {
		a, err := st.Acquire(t.Context(), wants)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := ask(quota.Want{Account: plenty, Need: 10}, quota.Want{Account: scarce, Need: 1}); !a.OK || a.Given[0].Remaining != 90 || a.Given[1].Remaining != 0 {
		t.Errorf("%+v", a)
	}
	if a := ask(quota.Want{Account: plenty, Need: 10}, quota.Want{Account: scarce, Need: 1}); a.OK || a.Given[1].OK || a.Given[0].Granted != 0 {
		t.Errorf("%+v", a)
	}
	if a := ask(quota.Want{Account: plenty, Need: 10}, quota.Want{Account: scarce, Need: 1, Soft: true}); !a.OK || a.Given[0].Remaining != 80 || a.Given[1].OK {
		t.Errorf("%+v", a)
	}
	// Debts and returns.
	if err := st.Report(t.Context(), []quota.Change{{Account: plenty, Amount: 100}, {Account: scarce, Amount: -1}}); err != nil {
		t.Fatal(err)
	}
	if a := ask(quota.Want{Account: plenty, Need: 1}); a.OK || a.Given[0].Remaining != -20 {
		t.Errorf("%+v", a)
	}
	if a := ask(quota.Want{Account: scarce, Need: 1}); !a.OK {
		t.Errorf("%+v", a)
	}
}

// What a gateway said of what it holds is not undone by what it said before and
// comes late.
func TestLateReports(t *testing.T) {
	s := start(t)
	st := opened(t, s.url())
	a := quota.Account{Key: "hg:{g}:late", Tag: "{g}", Keep: quota.KeepHeld, Burst: 10}
	tell := func(held, seq int64) {
		c := a
		c.Own = quota.Own{Held: held, Seq: seq}
		if err := st.Report(t.Context(), []quota.Change{{Account: c}}); err != nil {
			t.Fatal(err)
		}
	}
	tell(8, 4)
	tell(2, 2) // late
	if got := s.held(t, "late"); got != 8 {
		t.Errorf("%d held, want 8", got)
	}
	tell(8, 4) // twice
	if got := s.held(t, "late"); got != 8 {
		t.Errorf("%d held, want 8", got)
	}
	tell(3, 6)
	if got := s.held(t, "late"); got != 3 {
		t.Errorf("%d held, want 3", got)
	}
}

// In a cluster, counts with other tags lie elsewhere: one script cannot reach them
// all, and what some granted is given back when others refuse.
func TestCluster(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bus := l.Addr().(*net.TCPAddr).Port
	l.Close()
	s := start(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus))
	s.do(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		m := s.do(t, "CLUSTER", "INFO")
		if text, _ := m.ToString(); strings.Contains(text, "cluster_state:ok") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the cluster does not come up")
		}
	}
	st := opened(t, "redis://"+s.address())
	allOrNothing(t, st)
	c := requests(t, "100/h", 100, "gcra")
	c.Rules = append(c.Rules, quota.RuleConfig{Name: "all", Requests: quota.RateConfig{Rate: rate(t, "30/h"), Algorithm: "fixed"}, Concurrent: 50})
	g := join(t, "redis://"+s.address(), patient(), c)
	n := 0
	for range 60 {
		if h, err := g.reserve(key("a"), quota.Demand{}); err == nil {
			n++
			h.Settle(quota.Settlement{}, time.Now())
		}
	}
	if n != 30 {
		t.Errorf("%d let through, want 30", n)
	}
}

// An address that cannot be read is refused without being repeated.
func TestAddress(t *testing.T) {
	for _, address := range []string{"redis://:hunter2@host/notanumber", "http://hunter2", "redis://:hunter2%zz@h"} {
		if _, err := Open(address, time.Second); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
