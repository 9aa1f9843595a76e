package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/wire/sse"
	"github.com/headgate-ai/headgate/lab/race"
)

const goldenStream = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"Hé"},"finish_reason":null}]}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"llo"},"finish_reason":null}]}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

`

// A provider that dies at any byte, with a broken chunked body or with a clean
// end, leaves its client with a whole answer or an error, never with silence.
func TestProviderDiesAtEveryByte(t *testing.T) {
	var at atomic.Int64
	g := start(t, setup{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		n := at.Load()
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		text := goldenStream[:n/2]
		if n%2 == 0 { // the end of the connection is the end of the body
			fmt.Fprintf(rw, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n%s", text)
		} else { // a chunk that promises more
			fmt.Fprintf(rw, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s", len(goldenStream)+1, text)
		}
		_ = rw.Flush()
	})})
	step := 1
	if race.Enabled {
		step = 7
	}
	_, want := scan(goldenStream)
	whole := strings.Index(goldenStream, `"stop"`)
	for n := 0; n < 2*len(goldenStream); n += step {
		at.Store(int64(n))
		a := g.post(chatPath, streamBody(""))
		if a.StatusCode != 200 {
			if a.StatusCode != 502 || within(a.JSON(t), "error", "type") != "server_error" || n/2 > strings.Index(goldenStream, "\n\n")+2 {
				t.Fatalf("cut at %d: %d %s", n/2, a.StatusCode, a.Bytes)
			}
			continue
		}
		_, got := scan(string(a.Bytes))
		if slices.Equal(got, want) {
			if n/2 < whole {
				t.Fatalf("cut at %d: looks whole: %s", n/2, a.Bytes)
			}
			continue
		}
		last := got[len(got)-1]
		var m map[string]any
		if err := json.Unmarshal([]byte(last), &m); err != nil || within(m, "error", "code") != "UPSTREAM_TRUNCATED" {
			t.Fatalf("cut at %d: ends with %s", n/2, last)
		}
		if !slices.Equal(got[:len(got)-1], want[:len(got)-1]) {
			t.Fatalf("cut at %d: %q", n/2, got)
		}
	}
	if n := g.metric("headgate_faults_total", `kind="upstream_truncated"`); n < 10 {
		t.Errorf("only %v were counted", n)
	}
}

func scan(text string) (names, datas []string) {
	var s sse.Scanner
	for b := []byte(text); ; {
		ev, ok := s.Next(b)
		if !ok {
			return names, datas
		}
		if ev.HasData {
			names, datas = append(names, string(ev.Name)), append(datas, string(ev.Data))
		}
		b = b[ev.Size:]
	}
}

// Every misbehaviour of the simulator within a stream: the client gets a whole
// stream or is told of an error, with the right kind in the record.
func TestStreamFaults(t *testing.T) {
	g := start(t, setup{Provider: "timeouts: {idle: 1s, first_token: 5s}", More: "stream: {max_event: 256KiB}"})
	for fault, want := range map[string]string{
		"none": "", "no-done": "", "no-blank": "", "crlf": "", "cr": "", "bom": "", "comments": "", "multi-line": "", "split": "", "drip": "", "gzip": "",
		"wrong-usage": "", "no-usage": "",
		"empty": "upstream_malformed", "half-json": "upstream_truncated", "error-event": "upstream_failed", "malformed": "upstream_malformed",
		"cut-utf8": "upstream_truncated", "cut-json": "upstream_truncated", "reset": "upstream_truncated", "abort": "upstream_truncated",
		"giant": "upstream_malformed", "stall": "upstream_idle", "html": "upstream_failed",
	} {
		body := streamBody("tokens=10+fault=" + fault)
		if fault == "none" {
			body = streamBody("tokens=10")
		}
		a := g.post(chatPath, body, "X-Request-Id", "fault-"+fault)
		rec := g.record("fault-" + fault)
		if kind, _ := within(rec, "fault", "kind").(string); kind != want {
			t.Errorf("%s: recorded as %q: %s", fault, kind, a.Bytes)
		}
		if a.StatusCode != 200 {
			if want == "" || within(a.JSON(t), "error") == nil {
				t.Errorf("%s: %d %s", fault, a.StatusCode, a.Bytes)
			}
			continue
		}
		if !strings.Contains(string(a.Bytes), "retry: 3000\n") || a.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %.200s", fault, a.Bytes)
		}
		_, got := scan(string(a.Bytes))
		if err := complete(got); (err == nil) != (want == "") {
			t.Errorf("%s: %v", fault, err)
		}
		if want != "" && !strings.Contains(got[len(got)-1], `"error":{`) {
			t.Errorf("%s ends with %s", fault, got[len(got)-1])
		}
		if want == "" && len(got) != 10+3 {
			t.Errorf("%s: %d events", fault, len(got))
		}
	}
}

// The vectors of the WHATWG's format tests, through listener and relay.
func TestWHATWGThroughTheGateway(t *testing.T) {
	var text atomic.Pointer[string]
	g := start(t, setup{Upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, *text.Load())
	})})
	for in, want := range map[string][]string{
		"data:\x00\ndata:  2\rData:1\ndata\x00:2\ndata:1\r\x00data:4\nda-ta:3\rdata_5\ndata:3\rdata:\r\n data:32\ndata:4\n\n": {"\x00\n 2\n1\n3\n\n4"},
		"\xef\xbb\xbfdata:1\n\n\xef\xbb\xbfdata:2\n\ndata:3\n\n":                                                              {"1", "3"},
		"data:1\r:\x00\n:\r\ndata:2\n:x\rdata:3\n:data:fail\r:x\ndata:4\n\n":                                                  {"1\n2\n3\n4"},
		"data:\n\ndata\ndata\n\ndata:test\n\n":                                                                                {"\n", "test"},
		"data:\ttest\rdata: \ndata:test\n\n":                                                                                  {"\ttest\n\ntest"},
		"data:test\r\ndata\ndata:test\r\n\r\n":                                                                                {"test\n\ntest"},
	} {
		text.Store(&in)
		a := g.post("/v1/audio/speech", `{"model":"sim-tts","input":"x","stream_format":"sse","stream":true}`)
		if _, got := scan(string(a.Bytes)); a.StatusCode != 200 || !slices.Equal(got, want) {
			t.Errorf("%q: %d %q from %q", in, a.StatusCode, got, a.Bytes)
		}
		for name, value := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no", "X-Response-Mode": "streaming"} {
			if a.Header.Get(name) != value {
				t.Errorf("%s: %q", name, a.Header.Get(name))
			}
		}
	}
}

// stampedDelays reads a stream of 200 events and tells for each how long ago the
// provider wrote it.
func stampedDelays(g *Gateway) (all []time.Duration, err error) {
	l, err := g.open(g.t.Context(), g.Client, "delivery", streamBody("tokens=200+token-gap=4ms+stamp=1"))
	if err != nil {
		return nil, err
	}
	defer l.Body.Close()
	for {
		data, err := l.next()
		switch at, ok := stamp(data); {
		case err != nil && len(all) != 200:
			return nil, fmt.Errorf("%d events, then %w", len(all), err)
		case err != nil:
			return all, nil
		case ok:
			all = append(all, time.Since(at))
		}
	}
}

// besideDirect reads two streams at once: one through the gateway, and as a
// control one from the provider itself, which tells what the machine adds.
func besideDirect(g *Gateway) (through, direct []time.Duration) {
	g.t.Helper()
	provider := &Gateway{t: g.t, URL: g.UpstreamURL, Key: upstreamKey, Client: g.Client}
	var errs [2]error
	var wg sync.WaitGroup
	wg.Go(func() { direct, errs[0] = stampedDelays(provider) })
	through, errs[1] = stampedDelays(g)
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		g.t.Fatal(err)
	}
	return through, direct
}

// From the provider's write of an event to the client's read of it: below 5 ms
// on loopback at the 99th percentile (20 ms under the race detector), and
// visibly more where the gateway buffers. On a machine so busy that a stream
// without a gateway takes more than a third of that, three times as long as that
// stream: there are two hops in the place of one.
func TestDelivery(t *testing.T) {
	allowed := func(direct time.Duration) time.Duration {
		if race.Enabled {
			return max(20*time.Millisecond, 3*direct)
		}
		return max(5*time.Millisecond, 3*direct)
	}
	g := start(t, setup{})
	bestOf(t, 5, "p99 of delivery", func() (string, bool) {
		through, direct := besideDirect(g)
		p, control := quantile(through, 0.99), quantile(direct, 0.99)
		return fmt.Sprintf("%v, without a gateway %v", p, control), p < allowed(control)
	})
	g = start(t, setup{More: "stream: {flush: full, buffer_limit: 8KiB}"})
	bestOf(t, 3, "median when buffering, without which the test measures nothing", func() (string, bool) {
		through, direct := besideDirect(g)
		p, control := quantile(through, 0.5), quantile(direct, 0.5)
		return fmt.Sprintf("%v, without a gateway %v", p, control), p > 40*time.Millisecond+control
	})
	g = start(t, setup{More: "stream: {flush: coalesce}"})
	bestOf(t, 3, "longest delay when coalescing", func() (string, bool) {
		through, direct := besideDirect(g)
		p, control := quantile(through, 1), quantile(direct, 1)
		return fmt.Sprintf("%v, without a gateway %v", p, control), p < 105*time.Millisecond+allowed(control) && quantile(through, 0.5) > 2*time.Millisecond
	})
}

// The stages of a record add up to the request, and agree with the provider's
// own clock.
func TestStagesAddUp(t *testing.T) {
	g := start(t, setup{})
	for n := range 3 {
		id := fmt.Sprint("stages-", n)
		began := time.Now()
		l, err := g.open(t.Context(), g.Client, id, streamBody("first-token=60ms+tokens=20+token-gap=10ms+stamp=1"))
		if err != nil {
			t.Fatal(err)
		}
		all, err := l.rest()
		_ = l.Body.Close()
		took := time.Since(began)
		if err != nil || complete(all) != nil {
			t.Fatal(err, all)
		}
		var stamps []time.Time
		for _, data := range all {
			if at, ok := stamp(data); ok {
				stamps = append(stamps, at)
			}
		}
		rec := g.record(id)
		us := func(path ...any) time.Duration {
			f, _ := within(rec, path...).(float64)
			return time.Duration(f) * time.Microsecond
		}
		var sum, own time.Duration
		for name := range rec["stages_us"].(map[string]any) {
			d := us("stages_us", name)
			sum += d
			if name == "decode" || name == "identify" || name == "route" || name == "reserve" || name == "prepare" || name == "finish" {
				own += d
			}
		}
		elapsed := us("elapsed_us")
		if off := (sum - elapsed).Abs(); off > elapsed/20 {
			t.Errorf("the stages are %v, the request %v", sum, elapsed)
		}
		if off := (own - us("own_us")).Abs(); off > 20*time.Microsecond {
			t.Errorf("own is %v, of the stages %v", us("own_us"), own)
		}
		if elapsed > took+time.Millisecond || elapsed < took-50*time.Millisecond {
			t.Errorf("elapsed %v, the client saw %v", elapsed, took)
		}
		relay := stamps[len(stamps)-1].Sub(stamps[0])
		if off := (us("stages_us", "relay") - relay).Abs(); off > 30*time.Millisecond {
			t.Errorf("relay is %v, at the provider %v", us("stages_us", "relay"), relay)
		}
		if first := us("first_token_us"); first < 60*time.Millisecond || first > 60*time.Millisecond+took-relay {
			t.Errorf("first token after %v", first)
		}
		if count, p50 := within(rec, "gaps", "count"), us("gaps", "p50_us"); count != 19.0 || p50 < 8*time.Millisecond || p50 > 20*time.Millisecond {
			t.Errorf("gaps %v", rec["gaps"])
		}
		if rec["events"] != 23.0 && rec["events"] != 22.0 {
			t.Errorf("%v events", rec["events"])
		}
	}
}
