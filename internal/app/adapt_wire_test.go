package app_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// service is a provider that takes a time for each answer and says its version.
type service struct {
	takes   atomic.Int64 // nanoseconds
	version atomic.Pointer[string]
}

func newService(takes time.Duration, version string) *service {
	s := new(service)
	s.takes.Store(int64(takes))
	s.version.Store(&version)
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	time.Sleep(time.Duration(s.takes.Load()))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("openai-version", *s.version.Load())
	fmt.Fprint(w, `{"id":"x","object":"chat.completion","model":"sim-small","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
}

// demand makes so many calls a second until it is stopped, and counts those that
// were let through and those that were refused.
func (g *Gateway) demand(perSecond int) (in, out *atomic.Int64, stop func()) {
	in, out = new(atomic.Int64), new(atomic.Int64)
	end := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				all.Go(func() {
					switch a := g.send(g.request("POST", chatPath, strings.NewReader(chatBody))); {
					case a.Err == nil && a.StatusCode == http.StatusOK:
						in.Add(1)
					case a.Err == nil && a.StatusCode == http.StatusTooManyRequests:
						out.Add(1)
					}
				})
			}
		}
	})
	return in, out, sync.OnceFunc(func() { close(end); all.Wait() })
}

const bursting = `
quota:
  rules:
    - name: spike
      requests: {rate: 20/s, burst: 40}
      adapt: {burst: {floor: 0.25, ceiling: 4, p95: 250ms}}`

// Row B19, by a gateway as it runs: a spike of four times the limit raises it two
// and a half times within twelve seconds where the provider has headroom, and not
// at all where it has none.
func TestAdaptSpike(t *testing.T) {
	t.Parallel()
	burst := func(g *Gateway) float64 { return g.limit("spike", "requests")["burst"].(float64) }
	t.Run("headroom", func(t *testing.T) {
		t.Parallel()
		g := start(t, setup{More: bursting, Upstream: newService(5*time.Millisecond, "1")})
		begun := time.Now()
		in, out, stop := g.demand(80)
		defer stop()
		for end := begun.Add(12 * time.Second); burst(g) < 100; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("a burst of %v after twelve seconds", burst(g))
			}
		}
		t.Logf("40 became %v in %v; %d calls let through, %d refused", burst(g), time.Since(begun).Round(time.Millisecond), in.Load(), out.Load())
		if f := g.metric("headgate_limiter_factor", `rule="spike"`, `cause="burst"`); f < 2.5 {
			t.Errorf("the metric says times %v", f)
		}
		entries := g.operate("GET", "/admin/v1/audit", "").JSON(t)["entries"].([]any)
		if e := entries[0]; within(e, "operation") != "limits.adapt" || within(e, "target") != "spike/requests" || within(e, "who") != "the gateway" || within(e, "old", "burst") != 40.0 {
			t.Errorf("the record: %v", entries)
		}
	})
	t.Run("no headroom", func(t *testing.T) {
		t.Parallel()
		g := start(t, setup{More: bursting, Upstream: newService(400*time.Millisecond, "1")})
		in, out, stop := g.demand(80)
		defer stop()
		most := 0.0
		for end := time.Now().Add(6 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			most = max(most, burst(g))
		}
		t.Logf("40 became %v, and %v at most; %d calls let through, %d refused", burst(g), most, in.Load(), out.Load())
		if most > 60 || burst(g) > 20 {
			t.Errorf("a burst of %v, and %v at most; it must shed", burst(g), most)
		}
	})
}

const versioned = `
quota:
  rules:
    - name: each
      requests: {rate: 100/s, burst: 100}
      watch: openai
      adapt: {health: true}
      profiles:
        - {name: second, version: "2-*", requests: {rate: 50/s, burst: 60}, adapt: {decay: {concurrent: 64}}}`

// A provider's new version is seen in its answers: the limit follows, and so do
// the metrics, the operators' view and the log. A reload keeps all of it.
func TestAdaptShown(t *testing.T) {
	t.Parallel()
	s := newService(0, "1-beta")
	g := start(t, setup{More: versioned, Upstream: s})
	g.post(chatPath, chatBody)
	wait(t, "a step", func() bool { return g.metric("headgate_limiter_factor", `rule="each"`, `cause="health"`) == 1 })
	time.Sleep(1100 * time.Millisecond) // the first version has been seen
	second := "2-final"
	s.version.Store(&second)
	if a := g.post(chatPath, chatBody); a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.Bytes)
	}
	shown := func() bool {
		l := g.limit("each", "requests")
		return l["rate"] == "50/s" && l["burst"] == 60.0 && within(l, "adapted", "profile") == "second" && within(l, "adapted", "factors", "decay") == 1.0
	}
	wait(t, "the profile of the second version", shown)
	if within(g.limit("each", "requests"), "adapted", "rate") != "50/s" {
		t.Error(g.limit("each", "requests"))
	}
	if a := g.post(chatPath, chatBody); a.Header.Get("X-RateLimit-Limit") != "60" {
		t.Errorf("clients are told of %v", a.Header)
	}
	if g.metric("headgate_limiter_profile", `rule="each"`, `profile="second"`) != 1 || g.metric("headgate_provider_version_changes_total", `provider="openai"`) != 1 {
		t.Error("the metrics do not tell")
	}
	wait(t, "the log to tell", func() bool { return strings.Contains(g.Log.String(), "a provider has changed its version") })
	if err := g.reload(strings.Replace(setup{More: versioned}.document(g.UpstreamURL), "50/s, burst: 60", "40/s, burst: 45", 1)); err != nil {
		t.Fatal(err)
	}
	if l := g.limit("each", "requests"); l["rate"] != "40/s" || l["burst"] != 45.0 {
		t.Errorf("right after a reload: %v", l)
	}
	// What operators set takes the profile's place.
	if a := g.confirmed("PUT", "/admin/v1/limits/each", `{"rate":"30/s","burst":33,"reason":"r"}`); a.StatusCode != 200 {
		t.Fatalf("%d %s", a.StatusCode, a.Bytes)
	}
	if l := g.limit("each", "requests"); l["burst"] != 33.0 || within(l, "adapted", "burst") != 33.0 {
		t.Errorf("%v", l)
	}
	if err := g.reload(strings.Replace(setup{More: versioned}.document(g.UpstreamURL), "watch: openai", "watch: nobody", 1)); err == nil || !strings.Contains(err.Error(), `there is no provider "nobody"; the providers are openai, anthropic`) {
		t.Error(err)
	}
}

// A failing provider halves the limit, whether it fails at once, by a timeout or
// within the answer.
func TestAdaptFailures(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]http.HandlerFunc{
		"500":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"cut":    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"broken": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"429":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"stream": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, setup{More: strings.Replace(versioned, "watch: openai", "", 1), Upstream: fail})
			body := chatBody
			if name == "stream" {
				body = strings.Replace(chatBody, "{", `{"stream":true,`, 1)
			}
			for end := time.Now().Add(10 * time.Second); g.metric("headgate_limiter_factor", `cause="health"`) > 0.85; time.Sleep(50 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the limit does not follow")
				}
				g.post(chatPath, body)
			}
		})
	}
}

// Row B16: how many connections there are for what a limit lets through at once,
// whichever server has them.
func TestConnectionsPerBurst(t *testing.T) {
	t.Parallel()
	for name, api := range map[string]string{"own loop": "", "net/http": "fast_path: off"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, setup{API: api, More: strings.Replace(bursting, "burst: 40}\n      adapt: {burst: {floor: 0.25, ceiling: 4, p95: 250ms}}", "burst: 4}", 1)})
			g.post(chatPath, chatBody) // a limit that nobody has used has no capacity
			before := g.metric("headgate_connections_open")
			open := func(more float64) func() bool {
				return func() bool {
					n := before + more
					return g.metric("headgate_connections_open") == n && g.metric("headgate_limiter_conns_per_burst", `rule="spike"`) == n/4
				}
			}
			var conns []net.Conn
			for range 8 {
				c, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				conns = append(conns, c)
			}
			wait(t, "eight connections more", open(8))
			for _, c := range conns[1:] {
				_ = c.Close()
			}
			wait(t, "one connection more", open(1))
		})
	}
}
