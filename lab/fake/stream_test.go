package fake

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate-ai/headgate/internal/setting"
)

// inMemory runs one request without a network, for bubbles of made-up time.
func inMemory(ctx context.Context, s *Server, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body)))
	return w
}

func TestTiming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Default()
		c.FirstToken, c.TokenGap, c.Tokens, c.PromptGap = Wait(time.Second), Wait(100*time.Millisecond), Count(11), setting.Duration(time.Millisecond)
		s := New(c)
		for path, flow := range flows {
			for _, body := range []string{flow, strings.Replace(flow, `"stream":true`, `"stream":false`, 1)} {
				began := time.Now()
				w := inMemory(t.Context(), s, path, body)
				// 1 s, 10 gaps, and the few tokens of the prompt
				if d := time.Since(began); d < 2001*time.Millisecond || d > 2010*time.Millisecond || w.Code != 200 {
					t.Errorf("%s: %v, %d", path, d, w.Code)
				}
			}
		}
	})
}

func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Default()
		c.FirstToken, c.Slots, c.Queue = Wait(time.Second), 2, 2
		s := New(c)
		var wg sync.WaitGroup
		codes := make(chan int, 6)
		began := time.Now()
		for range 6 {
			wg.Go(func() { codes <- inMemory(t.Context(), s, chatPath, chatAsk).Code })
		}
		wg.Wait()
		close(codes)
		count := map[int]int{}
		for code := range codes {
			count[code]++
		}
		if count[200] != 4 || count[503] != 2 || time.Since(began) != 2*time.Second {
			t.Error(count, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		for range 4 {
			wg.Go(func() { inMemory(ctx, s, chatPath, chatAsk) })
		}
		wg.Wait()
		if st := s.Stats(); st.Cancelled != 4 || st.InFlight != 0 || s.slots.used != 0 || st.Waiting != 0 {
			t.Errorf("%+v, %d used", st, s.slots.used)
		}
	})
}

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Default()
		c.RateLimit.Requests = 6
		s := New(c)
		for i := range 6 {
			w := inMemory(t.Context(), s, chatPath, chatAsk)
			if w.Code != 200 || w.Header().Get("x-ratelimit-remaining-requests") != fmt.Sprint(5-i) || w.Header().Get("x-ratelimit-limit-requests") != "6" {
				t.Fatal(w.Code, w.Header())
			}
		}
		w := inMemory(t.Context(), s, chatPath, chatAsk)
		if h := w.Header(); w.Code != 429 || h.Get("Retry-After") != "10" || h.Get("x-ratelimit-reset-requests") != "1m0s" {
			t.Fatal(w.Code, h)
		}
		w = inMemory(t.Context(), s, msgPath, msgAsk)
		at, err := time.Parse(time.RFC3339, w.Header().Get("anthropic-ratelimit-requests-reset"))
		if w.Code != 429 || err != nil || at.Before(time.Now()) {
			t.Fatal(w.Code, w.Header(), err)
		}
		time.Sleep(10 * time.Second)
		if w := inMemory(t.Context(), s, chatPath, chatAsk); w.Code != 200 {
			t.Fatal(w.Code)
		}
		c.RateLimit.Requests, c.RateLimit.Tokens = 0, 250
		s.Configure(c)
		inMemory(t.Context(), s, msgPath, msgAsk)
		inMemory(t.Context(), s, msgPath, msgAsk)
		if w := inMemory(t.Context(), s, msgPath, msgAsk); w.Code != 429 || w.Header().Get("anthropic-ratelimit-tokens-limit") != "250" {
			t.Fatal(w.Code, w.Header())
		}
	})
}

func TestClientLeaves(t *testing.T) {
	s, url := start(t, func(c *Config) { c.TokenGap, c.Tokens = Wait(5*time.Millisecond), Count(100000) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for i, override := range []string{"x-sim-seed", "x-sim-stall-after", "x-sim-first-token"} {
		before := s.Stats().Tokens
		call, leave := context.WithCancel(ctx)
		req, _ := http.NewRequestWithContext(call, http.MethodPost, url+chatPath, strings.NewReader(chatFlow))
		req.Header.Set(override, []string{"3", "3", "1h"}[i])
		req.Header.Set("x-sim-early-headers", "true")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if i < 2 {
			if err := s.WaitTokens(ctx, before+3); err != nil {
				t.Fatal(err)
			}
		}
		leave()
		res.Body.Close()
		left := time.Now()
		if err := s.WaitCancelled(ctx, int64(i+1)); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(left); d > time.Second {
			t.Errorf("noticed after %v", d)
		}
		all := s.Requests()
		if r := all[len(all)-1]; r.Outcome != Cancelled || !r.Stream || i < 2 && r.Tokens < 3 {
			t.Errorf("%+v", r)
		}
	}
	if st := s.Stats(); st.StreamsCancelled != 3 || st.InFlight != 0 {
		t.Errorf("%+v", st)
	}
}

var stampRE = regexp.MustCompile(`~(\d+)\.(\d+)~`)

func TestStamps(t *testing.T) {
	_, url := start(t, nil)
	for path, flow := range flows {
		for _, size := range []string{"0", "64"} {
			text, _ := content(parse(send(t, url+path, flow, "x-sim-stamp", "1", "x-sim-bytes-per-token", size).body))
			all := stampRE.FindAllStringSubmatch(text, -1)
			if len(all) != 16 || size == "64" && len(text) != 16*64 {
				t.Fatalf("%s: %q", path, text)
			}
			for i, m := range all {
				if m[1] != fmt.Sprint(i) {
					t.Errorf("%s: token %d has number %s", path, i, m[1])
				}
			}
		}
	}
}

func TestRing(t *testing.T) {
	s, url := start(t, func(c *Config) { c.Keep, c.KeepBody = 3, 10 })
	for range 5 {
		send(t, url+chatPath, chatAsk, "X-Test", "y")
	}
	check := func(want ...uint64) {
		t.Helper()
		all := s.Requests()
		if len(all) != len(want) {
			t.Fatalf("%d kept", len(all))
		}
		for i, r := range all {
			if r.Number != want[i] || string(r.Body) != chatAsk[:10] || r.Header.Get("X-Test") != "y" || r.Model != "sim-small" {
				t.Errorf("%+v", r)
			}
		}
	}
	check(3, 4, 5)
	for _, keep := range []int{5, 2} {
		c := s.Config()
		c.Keep = keep
		s.Configure(c)
		send(t, url+chatPath, chatAsk, "X-Test", "y")
		if keep == 5 {
			check(3, 4, 5, 6)
		}
	}
	check(6, 7)
}

func TestThousandStreams(t *testing.T) {
	const streams, tokens = 1000, 20
	s, url := start(t, func(c *Config) {
		c.FirstToken, c.TokenGap, c.Tokens, c.EarlyHeaders = Wait(time.Second), Wait(20*time.Millisecond), Count(tokens), true
	})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: streams}}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	began := time.Now()
	for range streams {
		wg.Go(func() {
			res, err := client.Post(url+chatPath, "application/json", strings.NewReader(chatFlow))
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			events := 0
			for lines := bufio.NewScanner(res.Body); lines.Scan(); {
				if strings.HasPrefix(lines.Text(), "data: ") {
					events++
				}
			}
			if events != tokens+4 {
				t.Errorf("%d events", events)
			}
		})
	}
	wg.Wait()
	st := s.Stats()
	t.Logf("%v for %d streams, at most %d at once", time.Since(began), streams, st.MaxInFlight)
	if st.Finished != streams || st.Tokens != streams*tokens || st.MaxInFlight < streams/4 {
		t.Errorf("%+v", st)
	}
}

func BenchmarkToken(b *testing.B) {
	c := Default()
	c.Tokens = Count(1000)
	c.Keep = 0
	s := New(c)
	w := nowhere{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(chatFlow)))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/token")
}

// nowhere is a response that is thrown away.
type nowhere struct{ h http.Header }

func (n nowhere) Header() http.Header         { return n.h }
func (n nowhere) WriteHeader(int)             {}
func (n nowhere) Write(b []byte) (int, error) { return io.Discard.Write(b) }
func (n nowhere) Flush()                      {}
