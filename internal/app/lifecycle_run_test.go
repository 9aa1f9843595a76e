package app_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/lab/fake"
	"github.com/headgate-ai/headgate/lab/race"
)

// A shutdown: unready, no new connection, open streams go on until the grace is
// over, then an error in their dialect; and nothing is left behind.
func TestDrain(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	g := start(t, setup{API: "shutdown_grace: 700ms"})
	ends := func(overrides string) (*live, chan []string) {
		l, err := g.open(t.Context(), g.Client, "drain-"+overrides[:5], streamBody(overrides))
		if err != nil {
			t.Fatal(err)
		}
		all := make(chan []string, 1)
		go func() {
			events, err := l.rest()
			if err != nil {
				t.Error(err)
			}
			all <- events
		}()
		return l, all
	}
	_, short := ends("tokens=30+token-gap=10ms")
	_, long := ends("token-gap=10ms+tokens=100000")
	g.await(func(s fake.Stats) bool { return s.Tokens >= 4 })
	stopped := make(chan error, 1)
	began := time.Now()
	go func() { stopped <- g.Stop() }()
	wait(t, "unready", func() bool { ok, _ := g.Ready(); return !ok })
	if a := g.admin("GET", "/readyz"); a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %d while shutting down", a.StatusCode)
	}
	if a := g.admin("GET", "/livez"); a.StatusCode != http.StatusOK {
		t.Errorf("/livez answers %d while shutting down", a.StatusCode)
	}
	wait(t, "refused connections", func() bool {
		c, err := net.DialTimeout("tcp", g.API(), time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	if err := complete(<-short); err != nil {
		t.Errorf("a stream within the grace: %v", err)
	}
	events := <-long
	took := time.Since(began)
	last := events[len(events)-1]
	if took < 650*time.Millisecond || took > 4*time.Second || len(events) < 20 || !strings.Contains(last, `"code":"SHUTTING_DOWN"`) || complete(events) == nil {
		t.Errorf("after %v and %d events: %s", took, len(events), last)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if log := g.Log.String(); !strings.Contains(log, `"draining"`) {
		t.Errorf("the ended stream is not in the log: %s", log)
	}
	g.Client.CloseIdleConnections()
	wait(t, fmt.Sprintf("no more than the %d goroutines before", goroutines), func() bool {
		return runtime.NumGoroutine() <= goroutines+4 // the provider's listener is the test's
	})
}

// The same in the Anthropic dialect, over HTTP/2, and with a client that does
// not read: the shutdown is clean all the same.
func TestDrainOthers(t *testing.T) {
	g := start(t, setup{API: "shutdown_grace: 300ms", More: "stream: {write_timeout: 1s}"})
	g.raw(t, g.API(), "drain-stalled", streamBody("tokens=1000000+bytes-per-token=1000"))
	client := h2c(t)
	all := make(chan string, 1)
	go func() {
		r := g.request("POST", msgPath, strings.NewReader(`{"model":"claude-x+tokens=100000+token-gap=10ms","max_tokens":100000,"stream":true,"messages":[{"role":"user","content":"hi"}]}`))
		res, err := client.Do(r)
		if err != nil {
			t.Error(err)
			all <- ""
			return
		}
		defer res.Body.Close()
		var b strings.Builder
		buf := make([]byte, 4096)
		for {
			n, err := res.Body.Read(buf)
			b.Write(buf[:n])
			if err != nil {
				break
			}
		}
		all <- b.String()
	}()
	g.await(func(s fake.Stats) bool { return s.Streams >= 2 })
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	names, datas := scan(<-all)
	if len(names) == 0 || names[len(names)-1] != "error" || !strings.Contains(datas[len(datas)-1], "overloaded_error") {
		t.Errorf("%v", names[max(0, len(names)-2):])
	}
}

// Open streams survive a reload, all of them: each has begun before it and
// ends after it.
func TestStreamsSurviveAReload(t *testing.T) {
	n := 1000
	if race.Enabled {
		n = 300
	}
	var began atomic.Int64
	release := make(chan struct{})
	g := start(t, setup{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		half := len(goldenStream) / 2
		_, _ = io.WriteString(w, goldenStream[:half])
		_ = http.NewResponseController(w).Flush()
		began.Add(1)
		select {
		case <-release:
			_, _ = io.WriteString(w, goldenStream[half:])
		case <-r.Context().Done():
		}
	})})
	client := h2c(t)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			l, err := g.open(t.Context(), client, fmt.Sprint("r-", i), streamBody(""))
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Body.Close()
			all, err := l.rest()
			if err == nil {
				err = complete(all)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait(t, "all streams", func() bool { time.Sleep(10 * time.Millisecond); return began.Load() == int64(n) })
	yaml := (setup{}).document(g.UpstreamURL)
	for i := range 3 {
		// Each takes away the provider that the streams come from.
		next := strings.ReplaceAll(yaml, "name: openai", fmt.Sprint("name: openai", i))
		if err := g.reload(strings.ReplaceAll(next, "provider: openai", fmt.Sprint("provider: openai", i))); err != nil {
			t.Fatal(err)
		}
	}
	close(release)
	wg.Wait()
	if got := g.metric("headgate_requests_total", `outcome="ok"`); got != float64(n) {
		t.Errorf("%v of %d streams ended well", got, n)
	}
}

// Case CFG-01: 50 reloads in 5 s under 50 parallel streams. Every request is
// served from one configuration, never from parts of two, and none fails.
func TestReloadsUnderLoad(t *testing.T) {
	g := start(t, setup{Fake: func(c *fake.Config) { c.Keep = 1 << 16 }})
	generation := func(n int) string {
		return strings.ReplaceAll(`server: {api: {listen: "127.0.0.1:0", shutdown_grace: 200ms}, admin: {listen: "127.0.0.1:0"}}
providers:
  - {name: gNN, dialect: openai, base_url: "`+g.UpstreamURL+`/v1", credentials: [{secret: "literal:sk-upstream-NN-0123456789"}], headers: {x-gen: "NN"}}
models:
  - {name: "sim-*", targets: [{provider: gNN, model: "sim-gen-NN+tokens=20+token-gap=2ms"}]}
keys: [{name: test, secret: "literal:`+key+`", tenant: tests}]
`, "NN", fmt.Sprint(n))
	}
	if err := g.reload(generation(0)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	var served atomic.Int64
	clients := []*http.Client{g.Client, h2c(t)}
	for i := range 50 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				l, err := g.open(t.Context(), clients[i%2], fmt.Sprintf("load-%d-%d", i, n), streamBody(""))
				if err != nil {
					t.Error(err)
					return
				}
				all, err := l.rest()
				_ = l.Body.Close()
				if err == nil {
					err = complete(all)
				}
				gen, ok := strings.CutPrefix(l.Header.Get("X-Headgate-Target"), "g")
				gen, _, _ = strings.Cut(gen, "/")
				if !ok || !strings.HasPrefix(l.Header.Get("X-Headgate-Target"), "g"+gen+"/sim-gen-"+gen+"+") || err != nil {
					t.Errorf("%v: %s", err, l.Header.Get("X-Headgate-Target"))
					return
				}
				served.Add(1)
			}
		})
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for n := 1; n <= 50; n++ {
		<-tick.C
		doc := generation(n)
		bad := n%5 == 0
		if bad { // a rejected configuration disturbs nobody either
			doc += "nonsense: true\n"
		}
		if err := g.reload(doc); (err != nil) != bad {
			t.Errorf("reload %d: %v", n, err)
		}
	}
	cancel()
	wg.Wait()
	gens := map[string]bool{}
	for _, r := range g.Fake.Requests() {
		gen := r.Header.Get("X-Gen")
		gens[gen] = true
		if !strings.HasPrefix(r.Model, "sim-gen-"+gen+"+") || r.Header.Get("Authorization") != "Bearer sk-upstream-"+gen+"-0123456789" {
			t.Errorf("a request of parts of two configurations: %s, %s, %s", gen, r.Model, r.Header.Get("Authorization"))
		}
	}
	t.Logf("%d streams, %d configurations", served.Load(), len(gens))
	if served.Load() < 100 || len(gens) < 20 {
		t.Errorf("%d streams, %d configurations: that was no load", served.Load(), len(gens))
	}
}
