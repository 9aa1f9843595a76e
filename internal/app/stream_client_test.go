package app_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/lab/fake"
	"github.com/headgate-ai/headgate/lab/race"
)

// A client that leaves takes its provider's work with it, at once, and what was
// produced until then is counted.
func TestClientLeaves(t *testing.T) {
	g := start(t, setup{})
	for proto, client := range map[string]*http.Client{"h1": g.Client, "h2c": h2c(t)} {
		for when, overrides := range map[string]string{
			"before the first byte": "first-token=1h",
			"after the head":        "first-token=1h+early-headers=1",
			"in the middle":         "tokens=100000+token-gap=2ms",
			"at full speed":         "tokens=100000+bytes-per-token=100",
		} {
			n := 0
			bestOf(t, 5, proto+" "+when, func() (string, bool) {
				n++
				id := fmt.Sprintf("leave-%s-%d-%d", proto, len(overrides), n)
				before := g.Fake.Stats()
				usage := g.admin("GET", "/admin/v1/usage").JSON(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				first := make(chan struct{})
				go func() {
					l, err := g.open(ctx, client, id, streamBody(overrides))
					for i := 0; err == nil; i++ {
						if i == 5 {
							close(first)
						}
						_, err = l.next()
					}
					if l != nil {
						_ = l.Body.Close()
					}
					ended <- err
				}()
				if when == "in the middle" || when == "at full speed" {
					<-first
				} else {
					_ = g.Fake.WaitRequests(ctx, before.Requests+1)
				}
				began := time.Now()
				cancel()
				g.await(func(s fake.Stats) bool { return s.Cancelled > before.Cancelled })
				took := time.Since(began)
				<-ended
				rec := g.record(id)
				if rec["outcome"] != "cancelled" || within(rec, "fault", "blame") != "nobody" || within(rec, "fault", "kind") != "canceled" {
					t.Errorf("%s %s: %v", proto, when, rec)
				}
				out := within(rec, "usage", "output_tokens").(float64)
				if produced := when == "in the middle" || when == "at full speed"; produced && (out < 4 || within(rec, "usage", "estimated") != true || rec["status"] != 200.0) || !produced && out != 0 {
					t.Errorf("%s %s: usage %v, status %v", proto, when, rec["usage"], rec["status"])
				}
				if when == "before the first byte" && rec["status"] != 499.0 {
					t.Errorf("%s %s: status %v", proto, when, rec["status"])
				}
				after := g.admin("GET", "/admin/v1/usage").JSON(t)
				if after["cancelled"].(float64) != usage["cancelled"].(float64)+1 || after["completion_tokens"].(float64) != usage["completion_tokens"].(float64)+out || after["errors"] != usage["errors"] {
					t.Errorf("%s %s: %v after %v", proto, when, after, usage)
				}
				return took.String(), took < 100*time.Millisecond
			})
		}
	}
}

// raw opens a stream over a connection of its own that nobody reads.
func (g *Gateway) raw(t testing.TB, addr, id, body string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nX-Request-Id: %s\r\nContent-Length: %d\r\n\r\n%s", chatPath, g.Key, id, len(body), body)
	return c
}

// One client that stopped reading holds up its own provider's stream and
// nothing else, and is ended when its time is up.
func TestStalledReader(t *testing.T) {
	for _, mode := range []string{"propagate", "decouple"} {
		g := start(t, setup{More: "stream: {write_timeout: 1s, mode: " + mode + ", buffer_limit: 64KiB}"})
		const others, tokens = 99, 30
		round := func() time.Duration {
			var mu sync.Mutex
			var took []time.Duration
			var wg sync.WaitGroup
			for i := range others {
				wg.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond)
					began := time.Now()
					l, err := g.open(t.Context(), g.Client, fmt.Sprint("n-", i), streamBody(fmt.Sprint("tokens=", tokens, "+token-gap=10ms")))
					if err != nil {
						t.Error(err)
						return
					}
					all, err := l.rest()
					_ = l.Body.Close()
					if err == nil {
						err = complete(all)
					}
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					took = append(took, time.Since(began))
					mu.Unlock()
				})
			}
			wg.Wait()
			return quantile(took, 0.99)
		}
		round() // connections
		bestOf(t, 3, mode+": p99 of the others", func() (string, bool) {
			alone := round()
			before := g.Fake.Stats().Cancelled + g.Fake.Stats().Broken
			memory := inUse()
			id := fmt.Sprint("stalled-", time.Now().UnixNano())
			c := g.raw(t, g.API(), id, streamBody("tokens=1000000+bytes-per-token=1000"))
			sent := int64(-1)
			wait(t, "the provider to be held up, when the sockets between are full", func() bool {
				before := sent
				sent = g.Fake.Stats().Tokens
				time.Sleep(20 * time.Millisecond)
				return sent == before
			})
			if grown := inUse() - memory; grown > 4<<20 {
				t.Errorf("%s: %d KiB of memory for a client that does not read", mode, grown>>10)
			}
			beside := round()
			rec := g.record(id)
			_ = c.Close()
			if within(rec, "fault", "kind") != "slow_client" || rec["outcome"] != "error" || within(rec, "fault", "blame") != "client" {
				t.Errorf("%s: %v", mode, rec["fault"])
			}
			elapsed := time.Duration(rec["elapsed_us"].(float64)) * time.Microsecond
			if elapsed < time.Second || elapsed > 4*time.Second || rec["backpressure_us"].(float64) < 0.9e6 {
				t.Errorf("%s: ended after %v, %v µs of them waiting", mode, elapsed, rec["backpressure_us"])
			}
			wait(t, "the provider's end", func() bool {
				s := g.Fake.Stats()
				return s.Cancelled+s.Broken > before
			})
			slack := 30 * time.Millisecond
			if race.Enabled {
				slack = time.Second
			}
			return fmt.Sprintf("%v alone, %v beside a stalled one", alone, beside), beside < alone*11/10+slack
		})
		if n := g.metric("headgate_faults_total", `kind="slow_client"`); n < 1 {
			t.Errorf("%s: metric %v", mode, n)
		}
		side := map[string]string{"propagate": `side="client"`, "decouple": `side="upstream"`}[mode]
		if n := g.metric("headgate_stream_backpressure_seconds_total", side); n < 0.5 {
			t.Errorf("%s: %v s of back-pressure with %s", mode, n, side)
		}
	}
}

// First token, idle and stream timeouts: an error answer before the first byte,
// an error event behind it.
func TestStreamTimeouts(t *testing.T) {
	g := start(t, setup{Provider: "timeouts: {first_token: 300ms, idle: 700ms, stream: 1500ms}"})
	a := g.post(chatPath, streamBody("first-token=1h"))
	if a.StatusCode != 504 || within(a.JSON(t), "error", "code") != "UPSTREAM_TIMEOUT" {
		t.Errorf("%d %s", a.StatusCode, a.Bytes)
	}
	for overrides, code := range map[string]string{
		"first-token=1h+early-headers=1": "UPSTREAM_TIMEOUT",
		"tokens=50+stall-after=3":        "UPSTREAM_IDLE",
		"tokens=10000+token-gap=20ms":    "UPSTREAM_TIMEOUT",
	} {
		cancelled := g.Fake.Stats().Cancelled
		l, err := g.open(t.Context(), g.Client, "timeout", streamBody(overrides))
		if err != nil {
			t.Fatal(err)
		}
		all, err := l.rest()
		_ = l.Body.Close()
		if err != nil || len(all) == 0 || complete(all) == nil {
			t.Fatalf("%s: %v %q", overrides, err, all)
		}
		var last any = answer{Bytes: []byte(all[len(all)-1])}.JSON(t)
		if within(last, "error", "code") != code {
			t.Errorf("%s: %v", overrides, last)
		}
		g.await(func(s fake.Stats) bool { return s.Cancelled > cancelled })
	}
}

// 200 streams at once take less than 64 KiB of memory each, however long their
// prompts were: 220 KB here. The provider and
// the client live in the same process, so what they take without a gateway
// between them is measured first, and taken off.
func TestMemoryPerStream(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector's own memory is in the way")
	}
	const n = 200
	g := start(t, setup{Fake: func(c *fake.Config) { c.Keep = 0 }})
	measure := func(addr, body string) int64 {
		conns := make([]net.Conn, n)
		before := inUse()
		for i := range conns {
			conns[i] = g.raw(t, addr, "mem", body)
			go func() { _, _ = io.Copy(io.Discard, conns[i]) }()
		}
		g.await(func(s fake.Stats) bool { return s.InFlight == n })
		time.Sleep(300 * time.Millisecond)
		used := inUse() - before
		for _, c := range conns {
			_ = c.Close()
		}
		g.await(func(s fake.Stats) bool { return s.InFlight == 0 })
		time.Sleep(100 * time.Millisecond)
		return used / n
	}
	direct := strings.TrimPrefix(g.UpstreamURL, "http://")
	short := streamBody("tokens=100000+token-gap=50ms")
	for name, body := range map[string]string{
		"a short prompt": short,
		"a long prompt":  strings.Replace(short, `"hi"`, `"`+strings.Repeat("and so on, ", 20_000)+`"`, 1),
	} {
		bestOf(t, 3, "memory of one stream with "+name, func() (string, bool) {
			without, with := measure(direct, body), measure(g.API(), body)
			own := with - without
			return fmt.Sprintf("%.1f KiB (%.1f with the gateway, %.1f without)", float64(own)/1024, float64(with)/1024, float64(without)/1024), own < 64<<10
		})
	}
}
