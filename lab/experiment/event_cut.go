package experiment

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/lab/fake"
)

var eventCut = &Experiment{
	Name:  "event-cut",
	Row:   "E2, O14",
	Title: "a token limit that cuts a stream at any byte or at a TLS record's end, against one that ends it behind an event",
	Claim: "forced truncation leaves half a JSON text in the records that follow; the client's parser hangs for more than 2 s.",
	Wrong: "records have nothing to do with it: their borders cannot be seen through HTTP and need not be aligned to anything (Go varies their size). A cut at a record's " +
		"end hurts as much as any other. What must not be cut is an event; and the hang is the client's own time limit, in a stream that nobody ends.",
	Note: "streams of about 64 KiB over TLS on loopback, cut at a random place in each. by-byte falls silent there, by-record ends the body at a multiple of 16 KiB, by-event is " +
		"the gateway's own stream.Copy told to stop. The client's parser waits 2 s (quick: 800 ms) for a byte.",
	Arms: []Arm{
		{"by-byte", "stops sending at any byte"}, {"by-record", "ends the body at a multiple of 16 KiB"}, {"by-event", "ends behind an event, with a finish reason and [DONE]"},
	},
	Metrics: []Metric{
		{"hung", "", "share of streams whose parser hung"}, {"failed", "", "share whose parser failed"},
		{"stall_p95", "ms", "P95 from the last byte to knowing the end"}, {"length", "", "share that told the reason"},
	},
	Expect: []Expectation{
		{"cut at any byte every parser hangs", func(m map[string]Sample) bool { return m["by-byte"]["hung"] > .95 }},
		{"cut at a record's end it fails as well", func(m map[string]Sample) bool { return m["by-record"]["failed"] > .95 }},
		{"ended behind an event none hangs or fails, all know why, and the stall is below 50 ms", func(m map[string]Sample) bool {
			s := m["by-event"]
			return s["hung"]+s["failed"] == 0 && s["length"] == 1 && s["stall_p95"] < 50
		}},
	},
	Rounds: 4, QuickRounds: 2,
	Run: runEventCut,
}

// The streams of this experiment: 250 tokens make about 64 KiB.
const (
	cutTokens  = 250
	cutBytes   = 60 << 10
	cutStreams = 24
)

func runEventCut(ctx context.Context, arm string, r Round) (Sample, error) {
	patience := 2 * time.Second
	if r.Quick {
		patience = 800 * time.Millisecond
	}
	url, stop, err := simulator(func(c *fake.Config) { c.Tokens, c.Seed = fake.Count(cutTokens), r.Seed })
	if err != nil {
		return nil, err
	}
	defer stop()
	cert, pool, err := selfSigned()
	if err != nil {
		return nil, err
	}
	x := &limiter{relay: newRelay(url, 0), arm: arm}
	defer x.relay.close()
	address, stopLimiter, err := serve(x, func(s *http.Server) { s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}} })
	if err != nil {
		return nil, err
	}
	defer stopLimiter()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableCompression: true}}
	defer client.CloseIdleConnections()
	return cutSample(cutAll(ctx, client, "https://"+address, patience, r.Seed)), nil
}

// cutAll asks for all streams at once, each with its own place for the cut.
func cutAll(ctx context.Context, client *http.Client, url string, patience time.Duration, seed uint64) []cutVerdict {
	rng := rand.New(rand.NewPCG(seed, 4))
	all := make([]cutVerdict, cutStreams)
	var wg sync.WaitGroup
	for i := range all {
		at := 1 + rng.IntN(cutBytes)
		wg.Go(func() { all[i] = readCut(ctx, client, url, at, patience) })
	}
	wg.Wait()
	return all
}

func cutSample(all []cutVerdict) Sample {
	var stalls []time.Duration
	hung, failed, length := 0, 0, 0
	for _, v := range all {
		stalls = append(stalls, v.stall)
		switch {
		case v.hung:
			hung++
		case v.failed:
			failed++
		}
		if v.length {
			length++
		}
	}
	n := len(all)
	return Sample{"hung": share(hung, n), "failed": share(failed, n), "stall_p95": ms(quantile(stalls, .95)), "length": share(length, n)}
}

// readCut reads one stream as a client's parser does.
func readCut(ctx context.Context, client *http.Client, url string, at int, patience time.Duration) (v cutVerdict) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body := `{"model":"sim-small","stream":true,"messages":[{"role":"user","content":"Hello"}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return cutVerdict{failed: true}
	}
	req.Header.Set(cutHeader, fmt.Sprint(at))
	resp, err := client.Do(req)
	if err != nil {
		return cutVerdict{failed: true}
	}
	defer resp.Body.Close()
	p := cutParser{cancel: cancel, patience: patience}
	return p.read(resp.Body)
}

func selfSigned() (tls.Certificate, *x509.CertPool, error) {
	cert, leaf, err := makeCertificate(time.Now())
	if err != nil {
		return cert, nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return cert, pool, nil
}
