package experiment

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/lab/fake"
)

var bufferLimit = &Experiment{
	Name:  "buffer-limit",
	Row:   "E7, R28",
	Title: "a relay that stores until its buffer is full, against one that passes on each event",
	Claim: "buffer of 4 MB: P99 8.3 s, 736 QPS, 12.7 % timeouts; 256 KB: 1.9 s, 1142, 0.3 %; 64 KB: 1.3 s, 1258, 0.0 %.",
	Wrong: "Envoy's per_connection_buffer_limit_bytes is 1 MiB by default, not 4 MB, and it is a soft watermark for back-pressure, " +
		"which by itself delays nothing. What costs is to store until full; a smaller buffer only makes the same mistake smaller, and the arm event has none of it.",
	Note: "questions of log-normal length (4 KiB events) from 12 clients that take 2 ms to digest an event, give up after 600 ms " +
		"without a byte and ask again, twice at most, as SDKs do (quick: 6 clients, 500 ms). Time is scaled down; P99 is of a question with its repetitions; questions/s " +
		"is of those that were answered, by Little's law.",
	Arms: []Arm{
		{"full-4MiB", "stores until 4 MiB are full"}, {"full-256KiB", "stores until 256 KiB are full"},
		{"full-64KiB", "stores until 64 KiB are full"}, {"event", "passes on each event when it is whole"},
	},
	Metrics: []Metric{
		{"p99", "ms", "P99 of a question"}, {"p50", "ms", "median of a question"}, {"ttfb_p50", "ms", "median time to first byte"},
		{"qps", "1/s", "questions answered"}, {"timeouts", "", "share of tries given up"},
	},
	Expect: []Expectation{
		{"P99 falls with the buffer (4 MiB > 256 KiB ≥ 64 KiB ≥ event, to within 15 %)", func(m map[string]Sample) bool {
			return m["full-4MiB"]["p99"] > 1.1*m["full-64KiB"]["p99"] && ordered(m, "p99", .85, "full-4MiB", "full-256KiB", "full-64KiB", "event")
		}},
		{"answers per second rise (64 KiB and event ≥ 1.3 × 4 MiB)", func(m map[string]Sample) bool {
			return m["full-64KiB"]["qps"] >= 1.3*m["full-4MiB"]["qps"] && m["event"]["qps"] >= 1.3*m["full-4MiB"]["qps"]
		}},
		{"only the largest buffer makes clients give up", func(m map[string]Sample) bool {
			return m["full-4MiB"]["timeouts"] > .05 && m["full-64KiB"]["timeouts"] < .02 && m["event"]["timeouts"] < .02
		}},
	},
	Rounds: 3, QuickRounds: 1,
	Run: runBufferLimit,
}

// ordered is whether the arms' values fall in the order given, each at least
// slack times the next.
func ordered(m map[string]Sample, metric string, slack float64, arms ...string) bool {
	for i := 1; i < len(arms); i++ {
		if m[arms[i-1]][metric] < slack*m[arms[i]][metric] {
			return false
		}
	}
	return true
}

var bufferSizes = map[string]int{"full-4MiB": 4 << 20, "full-256KiB": 256 << 10, "full-64KiB": 64 << 10, "event": 0}

// questioner is the clients of this experiment.
type questioner struct {
	url              string
	client           *http.Client
	patience, digest time.Duration

	mu              sync.Mutex
	latency, first  []time.Duration
	tries, timeouts int
	answered        int
}

func runBufferLimit(ctx context.Context, arm string, r Round) (Sample, error) {
	// Time is what is scaled for quick runs; sizes are as the claim has them.
	questions, workers, gap := 48, 12, 4*time.Millisecond
	q := &questioner{patience: 600 * time.Millisecond, digest: 2 * time.Millisecond, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	if r.Quick {
		questions, workers, gap, q.patience = 12, 6, 3*time.Millisecond, 500*time.Millisecond
	}
	url, stop, err := simulator(func(c *fake.Config) { c.BytesPerToken, c.TokenGap = 4096, fake.Wait(gap) })
	if err != nil {
		return nil, err
	}
	defer stop()
	relay := newRelay(url, bufferSizes[arm])
	defer relay.close()
	address, stopRelay, err := serve(relay, nil)
	if err != nil {
		return nil, err
	}
	defer stopRelay()
	defer q.client.CloseIdleConnections()
	q.url = "http://" + address + "/v1/chat/completions"
	q.ask(ctx, lengths(questions, r.Seed), workers)
	var busy time.Duration
	for _, d := range q.latency {
		busy += d
	}
	return Sample{
		"p99": ms(quantile(q.latency, .99)), "p50": ms(quantile(q.latency, .5)), "ttfb_p50": ms(quantile(q.first, .5)),
		"qps": float64(q.answered*workers) / busy.Seconds(), "timeouts": share(q.timeouts, q.tries),
	}, nil
}

// lengths are n log-normal numbers of tokens, median 75: the quantiles
// themselves, in random order, so that every arm and round has the same tail.
func lengths(n int, seed uint64) []int {
	all := make([]int, n)
	for i := range all {
		z := math.Sqrt2 * math.Erfinv(2*(float64(i)+.5)/float64(n)-1)
		all[i] = int(min(300, 75*math.Exp(.6*z)))
	}
	rand.New(rand.NewPCG(seed, 3)).Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func (q *questioner) ask(ctx context.Context, lengths []int, workers int) {
	work := make(chan int, len(lengths))
	for _, n := range lengths {
		work <- n
	}
	close(work)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for n := range work {
				q.question(ctx, n)
			}
		})
	}
	wg.Wait()
}

// question tries up to three times.
func (q *questioner) question(ctx context.Context, tokens int) {
	const most = 3
	begun, answered, tries := time.Now(), false, 0
	var first time.Duration
	for ; tries < most && !answered && ctx.Err() == nil; tries++ {
		first, answered = q.try(ctx, tokens)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.latency = append(q.latency, time.Since(begun))
	q.tries += tries
	q.timeouts += tries
	if answered {
		q.first = append(q.first, first)
		q.answered++
		q.timeouts--
	}
}

// try reads one answer, an event's worth at a time.
func (q *questioner) try(ctx context.Context, tokens int) (first time.Duration, ok bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(q.patience, cancel)
	defer silence.Stop()
	body := fmt.Sprintf(`{"model":"sim-small+tokens=%d","stream":true,"messages":[{"role":"user","content":"Hello"}]}`, tokens)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, q.url, strings.NewReader(body))
	if err != nil {
		return 0, false
	}
	begun := time.Now()
	resp, err := q.client.Do(req)
	if err != nil {
		return 0, false
	}
	defer resp.Body.Close()
	for buf := make([]byte, 4300); ; {
		n, err := io.ReadFull(resp.Body, buf)
		if n > 0 && first == 0 {
			first = time.Since(begun)
		}
		if err != nil {
			return first, ctx.Err() == nil
		}
		silence.Reset(q.patience)
		pause(ctx, q.digest)
	}
}
