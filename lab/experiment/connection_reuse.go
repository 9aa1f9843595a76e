package experiment

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/lab/fake"
)

var connectionReuse = &Experiment{
	Name:  "connection-reuse",
	Row:   "D1, O14, R1",
	Title: "a new HTTP client for every call, against one shared pool",
	Claim: "a client per call exhausts file descriptors and repeats handshakes; connections are reused by 17 % of requests on the flawed path and by 93 % normally; " +
		"with the patch 1,280 → 1,882 QPS and P99 352 → 187 ms.",
	Wrong: "a client per call alone does not even free what it no longer needs: each keeps its idle connection (arm leaked). Closing it frees the descriptor and leaves a port in " +
		"TIME_WAIT instead (arm closed). On loopback, without TLS, a handshake costs so little that descriptors tell more than latency.",
	Note: "500 calls per second for 2 s (quick: 1 s), open loop, to a model that takes 2 ms. Descriptors count both ends, since the model runs in this process.",
	Arms: []Arm{
		{"leaked", "a client per call, left as it is"}, {"closed", "a client per call, its connection closed behind it"}, {"shared", "one client for all"},
	},
	Metrics: []Metric{
		{"fds", "", "descriptors more at the end"}, {"time_wait", "", "ports in TIME_WAIT"}, {"reused", "", "share of calls on a connection in use before"},
		{"p50", "ms", "median"}, {"p99", "ms", "P99"}, {"failed", "", "calls that failed"},
	},
	Expect: []Expectation{
		{"the shared pool reuses ≥ 93 % of connections, a client per call none", func(m map[string]Sample) bool {
			return m["shared"]["reused"] >= .93 && m["leaked"]["reused"] == 0 && m["closed"]["reused"] == 0
		}},
		{"descriptors grow with every call only where clients are leaked", func(m map[string]Sample) bool {
			_, counted := m["leaked"]["fds"]
			return !counted || m["leaked"]["fds"] > 10*max(20, m["shared"]["fds"])
		}},
		{"ports wait only where connections are closed for each call", func(m map[string]Sample) bool {
			_, counted := m["closed"]["time_wait"]
			return !counted || m["closed"]["time_wait"] > 10*max(10, m["shared"]["time_wait"])
		}},
		{"every call succeeds with the shared pool", func(m map[string]Sample) bool { return m["shared"]["failed"] == 0 }},
	},
	Rounds: 4, QuickRounds: 1,
	Run: runConnectionReuse,
}

// caller makes the calls of one arm.
type caller struct {
	url, arm string
	shared   *http.Client

	mu             sync.Mutex
	leaked         []*http.Client
	latency        []time.Duration
	reused, failed int
}

func runConnectionReuse(ctx context.Context, arm string, r Round) (Sample, error) {
	const rate = 500
	calls := 2 * rate
	if r.Quick {
		calls = rate
	}
	url, stop, err := simulator(func(c *fake.Config) { c.FirstToken, c.Tokens = fake.Wait(2*time.Millisecond), fake.Count(4) })
	if err != nil {
		return nil, err
	}
	defer stop()
	x := &caller{url: url + "/v1/chat/completions", arm: arm, shared: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	defer x.close()
	before, counts := openFiles()
	x.run(ctx, calls, rate)
	after, _ := openFiles()
	s := Sample{
		"reused": share(x.reused, calls), "failed": float64(x.failed), "p50": ms(quantile(x.latency, .5)), "p99": ms(quantile(x.latency, .99)),
	}
	if counts {
		s["fds"] = float64(after - before)
	}
	if n, ok := timeWait(url[strings.LastIndexByte(url, ':')+1:]); ok {
		s["time_wait"] = float64(n)
	}
	return s, nil
}

func (x *caller) close() {
	x.shared.CloseIdleConnections()
	for _, c := range x.leaked {
		c.CloseIdleConnections()
	}
}

// run makes calls when they are due.
func (x *caller) run(ctx context.Context, calls, rate int) {
	var wg sync.WaitGroup
	begun := time.Now()
	for i := range calls {
		due := begun.Add(time.Duration(i) * time.Second / time.Duration(rate))
		pause(ctx, time.Until(due))
		wg.Go(func() { x.call(ctx, due) })
	}
	wg.Wait()
}

func (x *caller) call(ctx context.Context, due time.Time) {
	client := x.shared
	if x.arm != "shared" {
		client = &http.Client{Transport: &http.Transport{}}
	}
	if x.arm == "closed" {
		defer client.CloseIdleConnections()
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	reused := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
	err := post(ctx, client, x.url)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.latency = append(x.latency, time.Since(due))
	if err != nil {
		x.failed++
	}
	if reused {
		x.reused++
	}
	if x.arm == "leaked" {
		x.leaked = append(x.leaked, client)
	}
}

// post makes one call and reads its answer to the end, without which no
// connection is used again.
func post(ctx context.Context, client *http.Client, url string) error {
	body := `{"model":"sim-small","messages":[{"role":"user","content":"Hello"}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// openFiles counts this process's descriptors, where the system tells.
func openFiles() (int, bool) {
	all, err := os.ReadDir("/proc/self/fd")
	return len(all), err == nil
}

// timeWait counts connections to a port on loopback that are in TIME_WAIT,
// where the system tells.
func timeWait(port string) (n int, ok bool) {
	b, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0, false
	}
	var number int
	_, _ = fmt.Sscan(port, &number)
	remote := fmt.Sprintf(":%04X", number)
	const remoteField, state, waiting = 2, 3, "06"
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) > state && f[state] == waiting && strings.HasSuffix(f[remoteField], remote) {
			n++
		}
	}
	return n, true
}
