package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/wire/sse"
	"github.com/headgate-ai/headgate/lab/fake"
)

// streamBody asks for a streamed answer of the simulated model with overrides,
// such as "tokens=20+token-gap=5ms".
func streamBody(overrides string) string {
	model := "sim-small"
	if overrides != "" {
		model += "+" + overrides
	}
	return `{"model":"` + model + `","stream":true,"max_tokens":1000000,"messages":[{"role":"user","content":"hi"}]}`
}

// h2c is a client that speaks HTTP/2 with prior knowledge.
func h2c(t testing.TB) *http.Client {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: &p, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// live is a stream that is being read.
type live struct {
	*http.Response
	r    *bufio.Reader
	scan sse.Scanner
	buf  []byte
	from int
}

// open begins a stream. It may be called from any goroutine.
func (g *Gateway) open(ctx context.Context, c *http.Client, id, body string) (*live, error) {
	r, err := http.NewRequestWithContext(ctx, "POST", g.URL+chatPath, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+g.Key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Request-Id", id)
	res, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != 200 {
		b, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		return nil, fmt.Errorf("%d: %s", res.StatusCode, b)
	}
	return &live{Response: res, r: bufio.NewReader(res.Body)}, nil
}

// next is the data of the next event; io.EOF at the end.
func (l *live) next() (string, error) {
	for {
		for {
			ev, ok := l.scan.Next(l.buf[l.from:])
			if !ok {
				break
			}
			l.from += ev.Size
			if ev.HasData {
				return string(ev.Data), nil
			}
		}
		l.buf, l.from = append(l.buf[:0], l.buf[l.from:]...), 0
		l.buf = slices.Grow(l.buf, 4096)
		n, err := l.r.Read(l.buf[len(l.buf):cap(l.buf)])
		l.buf = l.buf[:len(l.buf)+n]
		if n == 0 && err != nil {
			return "", err
		}
	}
}

// rest reads to the end.
func (l *live) rest() (all []string, err error) {
	for {
		data, err := l.next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, data)
	}
}

// complete is whether events are a whole, well-formed chat stream.
func complete(events []string) error {
	if len(events) == 0 || events[len(events)-1] != "[DONE]" {
		return fmt.Errorf("no [DONE] at the end of %d events: %.300q", len(events), events[max(0, len(events)-2):])
	}
	finished := false
	for _, data := range events[:len(events)-1] {
		var m any
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			return fmt.Errorf("%w in %q", err, data)
		}
		if within(m, "error") != nil {
			return fmt.Errorf("an error event: %s", data)
		}
		finished = finished || within(m, "choices", 0, "finish_reason") != nil
	}
	if !finished {
		return fmt.Errorf("no finish_reason in %d events", len(events))
	}
	return nil
}

var stampForm = regexp.MustCompile(`~(\d+)\.(\d+)~`)

// stamp is when the simulator sent a token.
func stamp(data string) (time.Time, bool) {
	m := stampForm.FindStringSubmatch(data)
	if m == nil {
		return time.Time{}, false
	}
	ns, _ := strconv.ParseInt(m[2], 10, 64)
	return time.Unix(0, ns), true
}

// await waits for the simulated provider's counts.
func (g *Gateway) await(ok func(fake.Stats) bool) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := g.Fake.WaitFor(ctx, ok); err != nil {
		g.t.Fatal(err)
	}
}

func quantile(all []time.Duration, q float64) time.Duration {
	all = slices.Clone(all)
	slices.Sort(all)
	return all[int(q*float64(len(all)-1))]
}

// bestOf runs a measurement up to n times until it satisfies: the machine has
// few cores and other work, and a test must tell it from the gateway's own.
func bestOf(t *testing.T, n int, what string, measure func() (string, bool)) {
	t.Helper()
	var got []string
	for range n {
		text, ok := measure()
		if got = append(got, text); ok {
			t.Logf("%s: %s", what, text)
			return
		}
	}
	t.Errorf("%s: %s", what, strings.Join(got, "; "))
}

// inUse is the memory of heap and stacks.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
