package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate-ai/headgate/lab/fake"
	"github.com/headgate-ai/headgate/lab/load"
)

var streamLayer = &Experiment{
	Name:  "stream-layer",
	Row:   "E6, R36",
	Title: "time to first byte and jitter behind a hop that buffers, against the gateway's streaming layer",
	Claim: "time to first byte 820 ms without and 142 ms with the streaming layer; standard deviation ±310 ms and ±28 ms.",
	Wrong: "no hop can be faster than none: what was gained is the buffering that the layer replaces (nginx's proxy_buffering on). " +
		"The loop that was printed for it writes \"data: data:\", makes events of blank lines, dies on lines above 64 KiB (bufio.Scanner) and does not see clients leave.",
	Note: "20 streams at once, a token every 15–25 ms after 100 ms. The buffering hop holds an 8 KiB buffer back until it is full, as each of " +
		"nginx's is (proxy_buffers 4 8k: the others only wait for slow clients). The layer is the real gateway, in this process.",
	Arms: []Arm{{"buffering", "a hop that stores until 8 KiB are full"}, {"layer", "headgate"}, {"direct", "no hop at all: what the source itself does"}},
	Metrics: []Metric{
		{"ttft_p50", "ms", "median time to first token"}, {"ttft_p95", "ms", "P95 of it"}, {"gap_sigma", "ms", "deviation of gaps between tokens"},
		{"added_p99", "ms", "P99 of a token's added delay"}, {"failed", "", "streams that failed"},
	},
	Expect: []Expectation{
		{"first token in at most 0.25 × the time", func(m map[string]Sample) bool {
			return m["layer"]["ttft_p50"] <= .25*m["buffering"]["ttft_p50"]
		}},
		{"deviation of gaps at most 0.15 ×, or no more than 1.5 × the source's own", func(m map[string]Sample) bool {
			return m["layer"]["gap_sigma"] <= max(.15*m["buffering"]["gap_sigma"], 1.5*m["direct"]["gap_sigma"])
		}},
		{"the layer is not faster than no hop", func(m map[string]Sample) bool { return m["layer"]["ttft_p50"] >= .9*m["direct"]["ttft_p50"] }},
		{"no stream fails", func(m map[string]Sample) bool { return m["layer"]["failed"] == 0 && m["buffering"]["failed"] == 0 }},
	},
	Rounds: 3, QuickRounds: 1,
	Run: runStreamLayer,
}

// gatewayYAML is a gateway in front of one provider, for any model.
const gatewayYAML = `
server:
  api: {listen: "127.0.0.1:0", shutdown_grace: 1s}
  admin: {listen: "127.0.0.1:0"}
auth: none
providers:
  - {name: sim, dialect: openai, base_url: %s/v1, credentials: [{secret: "literal:sk-experiment"}]}
models:
  - {name: "*", targets: [{provider: sim}]}
`

func runStreamLayer(ctx context.Context, arm string, r Round) (Sample, error) {
	// A buffer takes about 33 tokens. A quick run has two of them and not three;
	// to make it faster instead would make the machine's own noise larger.
	tokens := 100
	if r.Quick {
		tokens = 68
	}
	url, stop, err := simulator(func(c *fake.Config) {
		c.Stamp, c.Seed, c.Tokens, c.FirstToken = true, r.Seed, fake.Count(tokens), fake.Wait(100*time.Millisecond)
		c.TokenGap = fake.MustDist("uniform(15ms,25ms)")
	})
	if err != nil {
		return nil, err
	}
	defer stop()
	hop, stopHop, err := streamHop(ctx, arm, url, r)
	if err != nil {
		return nil, err
	}
	defer stopHop()
	c := load.Default()
	c.URL, c.Model, c.Stream, c.Connections, c.Requests, c.MaxTokens, c.Timeout, c.Seed = hop, "sim-small", true, 20, 20, 1000, 20*time.Second, r.Seed
	rep, err := load.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	s := Sample{"ttft_p50": rep.TTFT.P50, "ttft_p95": rep.TTFT.P95, "gap_sigma": rep.Gap.Deviation, "failed": float64(rep.Failed)}
	if rep.Added != nil {
		s["added_p99"] = rep.Added.P99
	}
	return s, nil
}

func streamHop(ctx context.Context, arm, url string, r Round) (string, func(), error) {
	switch arm {
	case "direct":
		return url, func() {}, nil
	case "buffering":
		x := newRelay(url, 8<<10)
		address, stop, err := serve(x, nil)
		return "http://" + address, func() { stop(); x.close() }, err
	}
	if r.Gateway == nil {
		return "", nil, errors.New("this experiment needs a gateway to run, and there is none here")
	}
	address, stop, err := r.Gateway(ctx, fmt.Sprintf(gatewayYAML, url))
	return address, func() { _ = stop() }, err
}
