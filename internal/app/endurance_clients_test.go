package app_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/headgate-ai/headgate/lab/fake"
)

func readFile(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A client that takes no answer in one piece either is ended when its time is
// up: one second for every 64 KiB beside the write timeout.
func TestStalledReaderOfAWholeAnswer(t *testing.T) {
	t.Parallel()
	const size = 6 << 20
	g := start(t, setup{More: "stream: {write_timeout: 1s, whole_limit: 64KiB}", Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"c","object":"chat.completion","choices":[],"pad":%q}`, strings.Repeat("x", size))
	})})
	c := g.raw(t, g.API(), "stalled-whole", chatBody)
	rec := g.record("stalled-whole")
	_ = c.Close()
	if within(rec, "fault", "kind") != "slow_client" || rec["elapsed_us"].(float64) > 8e6 {
		t.Errorf("%v after %v µs", rec["fault"], rec["elapsed_us"])
	}
	if n := g.metric("headgate_inflight_requests"); n != 0 {
		t.Errorf("%v requests are in flight", n)
	}
	if a := g.post(chatPath, chatBody); a.StatusCode != 200 || len(a.Bytes) < size {
		t.Errorf("the next: %d, %d bytes", a.StatusCode, len(a.Bytes))
	}
}

// An HTTP/2 stream whose window is never opened holds up neither the other
// streams of its connection nor memory, and is ended when its time is up.
func TestStalledHTTP2Stream(t *testing.T) {
	t.Parallel()
	g := start(t, setup{More: "stream: {write_timeout: 1s}"})
	f, _ := dial(t, g.API(), nil)
	_ = f.f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 10})
	stalled, err := f.call(streamBody("tokens=1000000+bytes-per-token=1000"))
	if err != nil {
		t.Fatal(err)
	}
	_ = f.f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 10})
	ended, other, began := false, uint32(0), time.Now()
	got, stop := map[uint32]int{}, false
	for !ended || !stop {
		frame, err := f.f.ReadFrame()
		if err != nil {
			t.Fatalf("%v: the stalled stream ended %v, the other %v; %v bytes", err, ended, stop, got)
		}
		switch frame := frame.(type) {
		case *http2.DataFrame:
			got[frame.StreamID] += len(frame.Data())
			if frame.StreamID == stalled && other == 0 {
				if other, err = f.call(streamBody("tokens=50+token-gap=1ms")); err != nil {
					t.Fatal(err)
				}
			}
			if frame.StreamID == other {
				_ = f.f.WriteWindowUpdate(other, uint32(max(1, len(frame.Data()))))
				stop = stop || frame.StreamEnded()
			}
		case *http2.RSTStreamFrame:
			if frame.StreamID != stalled {
				t.Fatalf("stream %d was reset: %v", frame.StreamID, frame.ErrCode)
			}
			ended = true
		case *http2.GoAwayFrame:
			t.Fatalf("the connection is ended: %v", frame.ErrCode)
		}
	}
	if took := time.Since(began); took > 6*time.Second || got[stalled] > 1<<10 || got[other] < 1000 {
		t.Errorf("after %v: %d bytes of the stalled stream, %d of the other", took, got[stalled], got[other])
	}
	g.await(func(s fake.Stats) bool { return s.InFlight == 0 })
	wait(t, "the slow client to be counted", func() bool { return g.metric("headgate_faults_total", `kind="slow_client"`) == 1 })
}

// A client that is slow, but reads all the time, gets its whole stream, though
// that takes many times as long as a single write may.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	for what, api := range map[string]string{"own loop": "", "net/http": "fast_path: off"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			g := start(t, setup{API: api, More: "stream: {write_timeout: 1s}"})
			const tokens, size = 3000, 4000 // more than all sockets on the way can hold
			l, err := g.open(t.Context(), g.Client, "slow", streamBody(fmt.Sprintf("tokens=%d+bytes-per-token=%d", tokens, size)))
			if err != nil {
				t.Fatal(err)
			}
			l.r = bufio.NewReaderSize(&slowly{Reader: l.Body, until: time.Now().Add(3 * time.Second)}, 4<<10)
			all, err := l.rest()
			_ = l.Body.Close()
			if err == nil {
				err = complete(all)
			}
			content := 0
			for _, data := range all {
				content += strings.Count(data, `"content":"`) - strings.Count(data, `"content":""`)
			}
			if err != nil || content != tokens {
				t.Errorf("%v, %d tokens", err, content)
			}
			if rec := g.record("slow"); rec["outcome"] != "ok" || rec["elapsed_us"].(float64) < 2e6 {
				t.Errorf("%v", rec)
			}
		})
	}
}

// slowly takes its time until some moment.
type slowly struct {
	io.Reader
	until time.Time
}

func (s *slowly) Read(p []byte) (int, error) {
	if time.Now().Before(s.until) {
		time.Sleep(20 * time.Millisecond)
	}
	return s.Reader.Read(p)
}

// A body longer or shorter than its Content-Length: what is beyond is no part
// of the request, and what is missing makes it none.
func TestLengthOfBodyIsAnother(t *testing.T) {
	t.Parallel()
	for what, api := range map[string]string{"own loop": "", "net/http": "fast_path: off"} {
		g := start(t, setup{API: api})
		head := func(length int) string {
			return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", chatPath, key, length)
		}
		c, r := raw(t, g)
		_, _ = io.WriteString(c, head(len(chatBody))+chatBody+"and more of it\r\n\r\n")
		res, err := http.ReadResponse(r, nil)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%s: a body with more behind it: %v %v", what, res, err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		if res, err = http.ReadResponse(r, nil); err == nil && res.StatusCode < 400 {
			t.Errorf("%s: what is beyond the body became a request: %v", what, res)
		}
		if up := g.upstream(); strings.Contains(string(up.Body), "and more") {
			t.Errorf("%s: what is beyond the body reached the provider: %s", what, up.Body)
		}
		// Cut, and yet JSON by itself: the length alone says that it is not whole.
		c, r = raw(t, g)
		_, _ = io.WriteString(c, head(len(chatBody)+1)+chatBody)
		_ = c.(*net.TCPConn).CloseWrite()
		if res, err := http.ReadResponse(r, nil); err == nil && res.StatusCode < 400 {
			t.Errorf("%s: a body cut short: %d", what, res.StatusCode)
		}
		wait(t, "nothing to be in flight", func() bool { return g.metric("headgate_inflight_requests") == 0 })
		if n := g.Fake.Stats().Requests; n != 1 {
			t.Errorf("%s: %d requests have reached the provider", what, n)
		}
	}
}

// A client that does not wait for the permission it asked for, and one that
// gets it and then sends nothing.
func TestExpectationsNotKept(t *testing.T) {
	t.Parallel()
	g := start(t, setup{API: "body_timeout: 300ms"})
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", chatPath, key, len(chatBody))
	c, r := raw(t, g)
	_, _ = io.WriteString(c, head+chatBody+head+chatBody) // and pipelined
	for range 2 {
		res, err := http.ReadResponse(r, nil)
		if err == nil && res.StatusCode == 100 {
			res, err = http.ReadResponse(r, nil)
		}
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("sent at once: %v %v", res, err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
	}
	c, r = raw(t, g)
	_, _ = io.WriteString(c, head)
	if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 100 {
		t.Fatalf("%v %v", res, err)
	}
	if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 408 {
		t.Errorf("nothing sent: %v %v", res, err)
	}
	c, r = raw(t, g)
	_, _ = io.WriteString(c, strings.Replace(head, "100-continue", "200-ok", 1)+chatBody)
	if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 417 {
		t.Errorf("an unknown expectation: %v %v", res, err)
	}
}

// The bound on connections holds, whoever serves them: those above it wait and
// are served when their turn comes, and operators are not kept out.
func TestConnectionBound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pool := certificate(t, dir, "localhost")
	for what, api := range map[string]string{"own loop": "", "net/http": "fast_path: off", "TLS": secure(dir, "")} {
		g := start(t, setup{API: "max_connections: 3\n" + api})
		connect := func() net.Conn {
			c, err := net.Dial("tcp", g.API())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			if what == "TLS" {
				c = tls.Client(c, &tls.Config{RootCAs: pool, ServerName: "localhost"})
			}
			return c
		}
		ask := func(c net.Conn) error {
			if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", chatPath, key, len(chatBody), chatBody); err != nil {
				return err
			}
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, res.Body)
			if err == nil && res.StatusCode != 200 {
				err = fmt.Errorf("status %d", res.StatusCode)
			}
			return err
		}
		var open []net.Conn
		for range 3 {
			c := connect()
			if err := ask(c); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			open = append(open, c)
		}
		const waiting = 5
		served := make(chan error, waiting)
		for range waiting {
			c := connect()
			go func() {
				served <- ask(c)
				_ = c.Close()
			}()
		}
		select {
		case err := <-served:
			t.Errorf("%s: one above the bound was served: %v", what, err)
		case <-time.After(150 * time.Millisecond):
		}
		if n := g.Fake.Stats().Requests; n != 3 {
			t.Errorf("%s: %d requests", what, n)
		}
		if a := g.admin("GET", "/readyz"); a.StatusCode != 200 {
			t.Errorf("%s: /readyz answers operators %d", what, a.StatusCode)
		}
		_ = open[0].Close()
		for range waiting {
			if err := <-served; err != nil {
				t.Errorf("%s: after one had left: %v", what, err)
			}
		}
		for _, c := range open[1:] {
			if err := ask(c); err != nil {
				t.Errorf("%s: one of the first: %v", what, err)
			}
			_ = c.Close()
		}
	}
}

// Clients that leave at any moment of a stream, many at once: nothing of them
// stays, and the provider is told each time.
func TestManyClientsLeave(t *testing.T) {
	t.Parallel()
	g := start(t, setup{})
	clients := []*http.Client{g.Client, h2c(t)}
	const n = 400
	var wg sync.WaitGroup
	room := make(chan struct{}, 50)
	for i := range n {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%40)*time.Millisecond)
			defer cancel()
			if l, err := g.open(ctx, clients[i%2], fmt.Sprint("leaves-", i), streamBody("tokens=1000000+first-token=10ms+token-gap=1ms")); err == nil {
				_, _ = l.rest()
				_ = l.Body.Close()
			}
		})
	}
	wg.Wait()
	g.await(func(s fake.Stats) bool { return s.InFlight == 0 })
	wait(t, "nothing to be in flight", func() bool {
		return g.metric("headgate_inflight_requests") == 0 && g.metric("headgate_streams_open") == 0
	})
	if n := g.metric("headgate_requests_total", `outcome="error"`) + g.metric("headgate_requests_total", `outcome="ok"`); n != 0 {
		t.Errorf("%v of them did not count as cancelled", n)
	}
	if a := g.post(chatPath, chatBody); a.StatusCode != 200 {
		t.Errorf("the next: %d", a.StatusCode)
	}
}
