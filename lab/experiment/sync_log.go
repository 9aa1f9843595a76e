package experiment

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/headgate-ai/headgate/internal/journal"
	"github.com/headgate-ai/headgate/internal/llm"
)

var syncLog = &Experiment{
	Name:  "sync-log",
	Row:   "J9",
	Title: "a log that each request writes itself, against the gateway's ring, while the disk stands still",
	Claim: "synchronous logging blocks goroutines; a channel of 1,000 entries and one writer do not (no figures of its own; one of five causes of P99 200 → 800 ms).",
	Wrong: "the channel as printed blocks, too, when it is full: it only moves the stall. The ring drops lines and counts them instead, and lets errors wait for a bounded time.",
	Note: "250 requests per second of 2 ms each, open loop; the log's disk takes nothing for 1 s of 2 s (quick: 700 ms of 1.2 s). The ring holds 100 lines here, so that it overflows. " +
		"free is the ring with a disk that never stands.",
	Arms: []Arm{{"sync", "log.Printf to the disk"}, {"async", "the gateway's journal"}, {"free", "the journal, and a disk that never stands"}},
	Metrics: []Metric{
		{"p50", "ms", "median"}, {"p99", "ms", "P99"}, {"max", "ms", "longest"}, {"lost", "", "lines that were dropped"},
	},
	Expect: []Expectation{
		{"P99 of the synchronous log is ≥ 3 × that of the ring", func(m map[string]Sample) bool { return m["sync"]["p99"] >= 3*m["async"]["p99"] }},
		{"the ring's P99 is as if the disk had never stood (within 2 ×, or a fifth of what the synchronous log shows)", func(m map[string]Sample) bool {
			return m["async"]["p99"] <= max(2*m["free"]["p99"], m["free"]["p99"]+.2*m["sync"]["p99"])
		}},
		{"the ring drops lines while the disk stands, and none otherwise", func(m map[string]Sample) bool {
			return m["async"]["lost"] > 0 && m["free"]["lost"] == 0 && m["sync"]["lost"] == 0
		}},
	},
	Rounds: 4, QuickRounds: 1,
	Run: runSyncLog,
}

// logger is an arm's way to log one request; close waits until all is written.
type logger struct {
	log   func(n int, begun time.Time)
	close func()
}

func runSyncLog(ctx context.Context, arm string, r Round) (Sample, error) {
	const rate = 250
	length, stall := 2*time.Second, time.Second
	if r.Quick {
		length, stall = 1200*time.Millisecond, 700*time.Millisecond
	}
	if arm == "free" {
		stall = 0
	}
	calls := int(length.Seconds() * rate)
	d := &disk{}
	// A fifth of the run passes before the stall, so that all arms begin well.
	stallAt := time.AfterFunc(length/5, func() { d.stand(stall) })
	defer stallAt.Stop()
	l, err := newLogger(arm, d)
	if err != nil {
		return nil, err
	}
	var number atomic.Int64
	address, stop, err := serve(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		begun := time.Now()
		pause(req.Context(), 2*time.Millisecond)
		l.log(int(number.Add(1)), begun)
		_, _ = io.WriteString(w, "{}")
	}), nil)
	if err != nil {
		return nil, err
	}
	x := &caller{url: "http://" + address, arm: "shared", shared: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}}
	x.run(ctx, calls, rate)
	x.close()
	stop()
	l.close()
	return Sample{
		"p50": ms(quantile(x.latency, .5)), "p99": ms(quantile(x.latency, .99)), "max": ms(quantile(x.latency, 1)), "lost": float64(calls - int(d.lines.Load())),
	}, ctx.Err()
}

func newLogger(arm string, w io.Writer) (*logger, error) {
	if arm == "sync" {
		l := log.New(w, "", log.LstdFlags|log.Lmicroseconds)
		return &logger{
			log: func(n int, begun time.Time) {
				l.Printf("msg=request id=%032d method=POST route=/v1/chat/completions status=200 elapsed=%v", n, time.Since(begun))
			},
			close: func() {},
		}, nil
	}
	cfg := journal.Default()
	cfg.Log.Buffer, cfg.Recent = 100, 0
	plan, err := cfg.Compile()
	if err != nil {
		return nil, err
	}
	room, err := journal.New(journal.Options{Config: cfg, Output: w, Notify: func(string) {}})
	if err != nil {
		return nil, err
	}
	return &logger{
		log: func(n int, begun time.Time) {
			rec := &journal.Record{ID: fmt.Sprintf("%032d", n), Start: begun, Method: http.MethodPost, Route: "/v1/chat/completions", Dialect: llm.OpenAI, Op: llm.Chat, Status: http.StatusOK}
			room.Begin(&plan, rec, "")
			room.Close(&plan, rec)
		},
		close: func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			_ = room.Shutdown(ctx) // what it could not write shows as lost
		},
	}, nil
}

// disk takes whatever is written and counts the lines, except while it stands
// still. Like a full pipe or a hung file system it then lets writers wait.
type disk struct {
	until atomic.Int64 // when it goes on, in Unix nanoseconds
	lines atomic.Int64
}

func (d *disk) stand(length time.Duration) { d.until.Store(time.Now().Add(length).UnixNano()) }

// Write takes all of p.
func (d *disk) Write(p []byte) (int, error) {
	if wait := time.Until(time.Unix(0, d.until.Load())); wait > 0 {
		time.Sleep(wait)
	}
	d.lines.Add(int64(bytes.Count(p, []byte{'\n'})))
	return len(p), nil
}
