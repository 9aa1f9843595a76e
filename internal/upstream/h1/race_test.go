package h1

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// storm is a server whose answers are made of the request's token, in every
// framing, and which closes connections now and then.
func storm(w http.ResponseWriter, r *http.Request) {
	token := r.Header.Get("X-Token")
	b, _ := io.ReadAll(r.Body)
	if len(b) > 0 && !strings.HasPrefix(string(b), token+"|") {
		http.Error(w, "wrong body", http.StatusTeapot)
		return
	}
	w.Header().Set("X-Token", token)
	piece := strings.Repeat(token+"|", 20)
	switch r.URL.Path {
	case "/counted":
		w.Header().Set("Content-Length", fmt.Sprint(5*len(piece)))
	case "/close":
		w.Header().Set("Connection", "close")
	case "/none":
		w.WriteHeader(http.StatusNoContent)
		return
	}
	for i := range 5 {
		_, _ = io.WriteString(w, piece)
		if i%2 == 0 {
			_ = http.NewResponseController(w).Flush()
		}
	}
	if r.URL.Path == "/panic" {
		panic(http.ErrAbortHandler)
	}
}

// TestStorm lets many callers share few connections while they close early,
// cancel, and close late and twice, what they and others hold. Every answer
// must belong to its request.
func TestStorm(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprint("tls ", secure), func(t *testing.T) {
			s := httptest.NewUnstartedServer(http.HandlerFunc(storm))
			cfg := Config{MaxConns: 24, MaxIdle: 16, IdleTimeout: 5 * time.Millisecond}
			if secure {
				s.StartTLS()
				cfg.TLS = &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
			} else {
				s.Start()
			}
			defer s.Close()
			each := 25
			if testing.Short() {
				each = 10
			}
			tr := newTransport(t, cfg)
			var seen [4]atomic.Int64 // complete, early, cancelled, cut off
			var wg sync.WaitGroup
			for g := range 64 {
				wg.Add(1)
				go func() {
					defer wg.Done()
					var held []*http.Response
					rng := rand.New(rand.NewPCG(uint64(g), 1))
					for i := range each {
						r, kind := one(t, tr, s.URL, fmt.Sprintf("t%d.%d", g, i), rng)
						seen[kind].Add(1)
						if r != nil {
							held = append(held, r)
						}
						for range rng.IntN(3) {
							if len(held) > 0 {
								held[rng.IntN(len(held))].Body.Close()
							}
						}
					}
				}()
			}
			wg.Wait()
			// A body that another goroutine is closing looks closed a little before
			// its connection is back.
			for end := time.Now().Add(5 * time.Second); tr.Stats().InUse != 0 && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			if st := tr.Stats(); st.InUse != 0 || st.Waiting != 0 || seen[0].Load() == 0 {
				t.Errorf("%+v", st)
			}
			t.Logf("complete %d, early %d, cancelled %d, cut off %d; %+v",
				seen[0].Load(), seen[1].Load(), seen[2].Load(), seen[3].Load(), tr.Stats())
		})
	}
}

// one makes an exchange in a manner of its own.
func one(t *testing.T, tr *Transport, url, token string, rng *rand.Rand) (*http.Response, int) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	path := []string{"/counted", "/chunked", "/chunked", "/close", "/none", "/panic"}[rng.IntN(6)]
	req, _ := http.NewRequestWithContext(ctx, "POST", url+path, nil)
	req.Header.Set("X-Token", token)
	switch text := strings.Repeat(token+"|", 1+rng.IntN(3000)); rng.IntN(4) {
	case 0:
		req.Body = newMemory(text)
	case 1:
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	case 2:
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(text)), -1
	}
	manner := rng.IntN(5)
	if manner == 0 {
		go func(d time.Duration) { time.Sleep(d); cancel() }(time.Duration(rng.IntN(3000)) * time.Microsecond)
	}
	resp, err := tr.roundTrip(req, nil)
	if err != nil {
		if ctx.Err() == nil || !errors.Is(err, context.Canceled) {
			t.Errorf("%s %s: %v", token, path, err)
		}
		return nil, 2
	}
	if got := resp.Header.Get("X-Token"); got != token {
		t.Errorf("%s got the head of %s (%s)", token, got, resp.Status)
	}
	limit := int64(1 << 20)
	if manner == 1 {
		limit = int64(rng.IntN(200))
	}
	if manner == 2 {
		go resp.Body.Close()
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	whole := strings.Repeat(token+"|", 100)
	if !strings.HasPrefix(whole, string(b)) {
		t.Errorf("%s got %.60q", token, b)
	}
	if rng.IntN(2) == 0 {
		resp.Body.Close()
		resp.Body.Close()
	} else if err == nil && limit < 1<<20 || manner == 0 {
		resp.Body.Close()
	}
	switch {
	case err != nil && ctx.Err() == nil && path != "/panic" && manner != 2:
		t.Errorf("%s %s: %v", token, path, err)
	case err == nil && len(b) == len(whole) && path == "/panic":
		t.Errorf("%s: cut off and looked complete", token)
	case err == nil && limit == 1<<20 && path != "/none" && len(b) != len(whole):
		t.Errorf("%s %s: %d bytes looked complete", token, path, len(b))
	}
	switch {
	case ctx.Err() != nil:
		return resp, 2
	case err != nil:
		return resp, 3
	case limit < 1<<20:
		return resp, 1
	}
	return resp, 0
}
