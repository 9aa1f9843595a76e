package redis

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/lab/chaos"
)

// The limit of these tests, and what they tolerate: one lease, of an eighth of
// what can be there, for each of two gateways.
const (
	cutRate, cutBurst = 200, 200
	cutTolerance      = 2 * cutBurst / 8
)

// overshoot is the most by which what was let through since a time exceeds the
// rate, whenever one stops counting. What is left of the burst then counts too, so
// that it has to be used up before.
func overshoot(admitted []time.Time, since time.Time) (most float64) {
	admitted = slices.SortedFunc(slices.Values(admitted), time.Time.Compare)
	n := 0
	for _, at := range admitted {
		if at.After(since) {
			n++
			most = max(most, float64(n)-at.Sub(since).Seconds()*cutRate)
		}
	}
	return most
}

// One of two gateways is cut off. It spends a lease, waits until the other leaves
// it its share, and goes on with that: both together keep to the limit all the
// time, and use it again when the wait is over.
func TestOneCutOff(t *testing.T) {
	timed(t)
	t.Parallel()
	s := start(t)
	cfg := requests(t, "200/s", cutBurst, "gcra")
	p, url := through(t, s)
	cut := join(t, url, impatient(), cfg)
	gs := []*gateway{cut, join(t, s.url(), patient(), cfg)}
	time.Sleep(time.Second) // until they know of each other
	r, stop := watch(gs)
	defer stop()
	time.Sleep(2 * time.Second) // until the burst is used up
	p.Set(chaos.Fault{Drop: true})
	broken := time.Now()
	time.Sleep(3 * time.Second)
	noticed := time.Now()
	time.Sleep(4 * time.Second)
	p.Set(chaos.Fault{})
	mended := time.Now()
	time.Sleep(2 * time.Second)
	stop()
	during := r.between(noticed, mended) / mended.Sub(noticed).Seconds()
	t.Logf("%+.0f at most since the cut, %.0f/s when it was noticed, of %d decisions", overshoot(r.admitted, broken), during, len(r.took))
	if most := overshoot(r.admitted, broken); most > cutTolerance {
		t.Errorf("%.0f too many since the cut, two leases are %d", most, cutTolerance)
	}
	if during < cutRate*0.8 {
		t.Errorf("%.0f a second let through, the limit is %d", during, cutRate)
	}
	if st, _ := cut.room.Shared(); st.Local == 0 || st.Down {
		t.Errorf("%+v", st)
	}
}

// A gateway that is cut off dies when it has begun to use its share. The other
// leaves it that, as it cannot know.
func TestKilledWhileCutOff(t *testing.T) {
	timed(t)
	t.Parallel()
	s := start(t)
	cfg := requests(t, "200/s", cutBurst, "gcra")
	p, url := through(t, s)
	other := process(t, url)
	g := join(t, s.url(), patient(), cfg)
	for st, _ := g.room.Shared(); st.Live < 2; st, _ = g.room.Shared() {
		time.Sleep(10 * time.Millisecond)
	}
	r, stop := watch([]*gateway{g})
	defer stop()
	time.Sleep(2 * time.Second)
	p.Set(chaos.Fault{Drop: true})
	broken := time.Now()
	time.Sleep(3 * time.Second)
	killed := time.Now()
	if err := other.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	theirs := other.admitted(t)
	time.Sleep(2 * time.Second)
	stop()
	all := append(theirs, r.admitted...)
	alone := between(theirs, broken, killed)
	t.Logf("%+.0f at most since the cut; %.0f of the other's after it", overshoot(all, broken), alone)
	if most := overshoot(all, broken); most > cutTolerance {
		t.Errorf("%.0f too many since the cut, two leases are %d", most, cutTolerance)
	}
	if alone < cutRate/2 {
		t.Errorf("the other let %.0f through while it was cut off", alone)
	}
	if st, _ := g.room.Shared(); st.Live != 1 || st.Missing != 1 {
		t.Errorf("%+v", st)
	}
}

// gatewayURL is in the environment of this program when it is to be a gateway of
// TestKilledWhileCutOff, and is where that finds Redis.
const gatewayURL = "HEADGATE_TEST_GATEWAY_URL"

// child is a gateway in a process of its own.
type child struct {
	cmd *exec.Cmd
	out bytes.Buffer
}

// process starts a child that asks for as much as it can get.
func process(t *testing.T, url string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0], "-test.run=^TestGatewayProcess$")}
	c.cmd.Env = append(os.Environ(), gatewayURL+"="+url)
	c.cmd.Stdout = &c.out
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill(); _ = c.cmd.Wait() })
	return c
}

// admitted is when the child let calls through. It is dead.
func (c *child) admitted(t *testing.T) (all []time.Time) {
	t.Helper()
	_ = c.cmd.Wait()
	for lines := bufio.NewScanner(&c.out); lines.Scan(); {
		if n, err := strconv.ParseInt(lines.Text(), 10, 64); err == nil {
			all = append(all, time.Unix(0, n))
		}
	}
	return all
}

// The child's part: it prints when it let a call through, until it is killed.
func TestGatewayProcess(t *testing.T) {
	url := os.Getenv(gatewayURL)
	if url == "" {
		return // TestKilledWhileCutOff starts it
	}
	g := join(t, url, impatient(), requests(t, "200/s", cutBurst, "gcra"))
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if h, err := g.reserve(key("a"), quota.Demand{}); err == nil {
			now := time.Now()
			h.Settle(quota.Settlement{}, now)
			_, _ = os.Stdout.WriteString(strconv.FormatInt(now.UnixNano(), 10) + "\n")
		}
	}
}

// A beat counts as a sign of life only once after each answer that got through, and
// not when it comes late; what decides alone counts as missing.
func TestSignsOfLife(t *testing.T) {
	timed(t)
	t.Parallel()
	s := start(t)
	open := func() *Store {
		st, err := Open(s.url(), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		return st
	}
	a, b := open(), open()
	beat := func(st *Store, alive bool) quota.Gateways {
		t.Helper()
		g, err := st.Beat(t.Context(), alive)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	want := func(what string, got, want quota.Gateways) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	want("the first", beat(a, true), quota.Gateways{Live: 1, Heard: true})
	want("the second", beat(b, true), quota.Gateways{Live: 2, Heard: true})
	lost := a.answer
	want("in time", beat(a, true), quota.Gateways{Live: 2, Heard: true})
	a.answer = lost // the last answer did not get through
	want("without the last answer", beat(a, true), quota.Gateways{Live: 2})
	want("with it", beat(a, true), quota.Gateways{Live: 2, Heard: true})
	time.Sleep(quota.AnswerAge + 10*time.Millisecond)
	want("late", beat(a, true), quota.Gateways{Live: 2})
	time.Sleep(quota.SilentAge - quota.AnswerAge)
	beat(b, true)
	want("of the other when one is silent", beat(b, true), quota.Gateways{Live: 1, Missing: 1, Heard: true})
	want("of one that decides alone", beat(a, false), quota.Gateways{Live: 1, Missing: 1})
	want("of one that is back", beat(a, true), quota.Gateways{Live: 2, Heard: true})
	want("of one that decides alone for a moment", beat(a, false), quota.Gateways{Live: 2})
}
