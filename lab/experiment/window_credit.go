package experiment

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/headgate-ai/headgate/lab/fake"
)

var windowCredit = &Experiment{
	Name:  "window-credit",
	Row:   "E1, O14, R1",
	Title: "an HTTP/2 receiver that returns credit for each token, against one that returns it for each byte",
	Claim: "with window updates of the token count, 187 requests per second have a mean latency of 2342 ms against an SLA of 300 ms (with two other flaws).",
	Wrong: "the code shown updates the window on the sending side. Credit is granted by the receiver, in octets (RFC 9113, section 6.9); a sender cannot " +
		"grant itself any. The flaw can only be in a receiver. Nor does the window swing: the connection runs dry after its 65,535 bytes and stands still, for all its streams.",
	Note: "187 streams per second on one connection, 16 tokens of about 230 bytes each, from a real HTTP/2 server; the receiver is made of frames. Streams are given up after " +
		"2 s (quick: 500 ms), which then counts as their time to first byte: for the first arm that is a lower bound.",
	Arms: []Arm{{"per-token", "returns credit of 1 for each token"}, {"per-byte", "returns credit for each byte"}},
	Metrics: []Metric{
		{"ttfb_p95", "ms", "P95 of time to first byte of data"}, {"ttfb_p50", "ms", "median of it"}, {"finished", "", "share of streams that finished"},
		{"bytes", "B", "bytes received in all"}, {"throughput", "KiB/s", "throughput"}, {"dry_after", "B", "bytes after which nothing came for the rest of the run"},
	},
	Expect: []Expectation{
		{"credit for tokens stalls once the window of 65,535 bytes is used", func(m map[string]Sample) bool {
			return m["per-token"]["bytes"] < 1.05*65535 && m["per-token"]["dry_after"] > .9*65535
		}},
		{"P95 of time to first byte above 300 ms, and ≥ 8 × that of credit for bytes", func(m map[string]Sample) bool {
			return m["per-token"]["ttfb_p95"] > 300 && m["per-token"]["ttfb_p95"] >= 8*m["per-byte"]["ttfb_p95"]
		}},
		{"credit for bytes never stalls", func(m map[string]Sample) bool {
			return m["per-byte"]["finished"] == 1 && m["per-byte"]["dry_after"] == 0
		}},
	},
	Rounds: 4, QuickRounds: 2,
	Run: runWindowCredit,
}

func runWindowCredit(ctx context.Context, arm string, r Round) (Sample, error) {
	const rate = 187
	length, patience := 1500*time.Millisecond, 2*time.Second
	if r.Quick {
		length, patience = 400*time.Millisecond, 500*time.Millisecond
	}
	c := fake.Default()
	c.Keep, c.Seed, c.TokenGap = 0, r.Seed, fake.Wait(2*time.Millisecond)
	address, stop, err := serve(fake.New(c), func(s *http.Server) {
		s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 2000} // a stall must not look like a refusal
	})
	if err != nil {
		return nil, err
	}
	defer stop()
	x, err := dialFrames(address, arm == "per-token")
	if err != nil {
		return nil, err
	}
	defer x.close()
	begun := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		due := time.Duration(i) * time.Second / rate
		if due >= length {
			break
		}
		pause(ctx, time.Until(begun.Add(due)))
		body := fmt.Sprintf(`{"model":"sim-small","stream":true,"messages":[{"role":"user","content":"Request %d"}]}`, i)
		if err := x.open("/v1/chat/completions", body); err != nil {
			return nil, err
		}
	}
	x.wait(ctx, patience)
	return x.sample(patience, time.Since(begun)), nil
}

// sample sums up the connection's streams. One without data counts with the
// time for which it was waited for.
func (x *frames) sample(patience, elapsed time.Duration) Sample {
	x.mu.Lock()
	defer x.mu.Unlock()
	var first []time.Duration
	finished := 0
	for _, s := range x.streams {
		if s.first > 0 {
			first = append(first, s.first)
		} else {
			first = append(first, patience)
		}
		if s.finished {
			finished++
		}
	}
	slices.Sort(first)
	dry := 0
	if finished < len(x.streams) {
		dry = x.bytes
	}
	return Sample{
		"ttfb_p95": ms(quantile(first, .95)), "ttfb_p50": ms(quantile(first, .5)), "finished": share(finished, len(x.streams)), "bytes": float64(x.bytes),
		"throughput": float64(x.bytes) / 1024 / elapsed.Seconds(), "dry_after": float64(dry),
	}
}
