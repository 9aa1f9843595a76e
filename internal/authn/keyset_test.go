package authn

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// published is an issuer's server, in memory, so that time can be simulated.
type published struct {
	mu      sync.Mutex
	body    []byte
	down    bool
	delay   time.Duration
	fetches atomic.Int32
}

func (s *published) RoundTrip(req *http.Request) (*http.Response, error) {
	s.fetches.Add(1)
	s.mu.Lock()
	body, down, delay := s.body, s.down, s.delay
	s.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	rec := httptest.NewRecorder()
	if down {
		rec.WriteHeader(http.StatusBadGateway)
	}
	_, _ = rec.Write(body)
	return rec.Result(), nil
}

func (s *published) publish(keys ...map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.body, s.down = keySetJSON(keys...), false
}

func (s *published) set(down bool, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.delay = down, delay
}

const address = "https://issuer.test/jwks"

func fetching(t *testing.T) *Plan {
	t.Helper()
	return compilePlan(t, Config{Tiers: tiers(), JWT: []JWTConfig{{Issuer: issuers, Audience: "headgate", Keys: address}}})
}

// roomFor is a room that asks s for keys.
func roomFor(s *published) *Room {
	r := New()
	r.start("https://never.test") // makes the client
	r.keep(nil)
	r.client = &http.Client{Transport: s}
	return r
}

func (r *Room) try(p *Plan, token string) error {
	_, err := r.Identify(p, token, false, llm.Chat, now)
	return err
}

func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &published{}
		s.publish(jwk("e", ecKey()))
		p, r := fetching(t), roomFor(s)
		defer r.Close()
		s.fetches.Store(0)
		r.Adopt(p)
		old := sign(t, jwt.SigningMethodES256, "e", ecKey(), claimsWith(nil))
		fresh := sign(t, jwt.SigningMethodEdDSA, "d", edKey, claimsWith(nil))
		if err := r.try(p, old); err != nil {
			t.Fatal(err)
		}
		// A key that is new is fetched when a token first names it.
		time.Sleep(refreshGap)
		s.publish(jwk("e", ecKey()), jwk("d", edKey))
		if err := r.try(p, fresh); err != nil || s.fetches.Load() != 2 {
			t.Error("the new key:", err, s.fetches.Load())
		}
		// Tokens that name made-up keys do not make the gateway call each time.
		madeUp := sign(t, jwt.SigningMethodEdDSA, "made-up", edKey, claimsWith(nil))
		for range 100 {
			if err := r.try(p, madeUp); err != error(errUnknownKey) {
				t.Fatal(err)
			}
		}
		if n := s.fetches.Load(); n != 2 {
			t.Errorf("%d fetches", n)
		}
		time.Sleep(refreshGap)
		for range 100 {
			_ = r.try(p, madeUp)
		}
		if n := s.fetches.Load(); n != 3 {
			t.Errorf("%d fetches after the gap", n)
		}
		// A key that is withdrawn is refused within the interval, though its
		// tokens are in the cache.
		s.publish(jwk("d", edKey))
		if err := r.try(p, old); err != nil {
			t.Error(err)
		}
		time.Sleep(refreshEvery + time.Second)
		if err := r.try(p, old); err != error(errUnknownKey) {
			t.Error("the withdrawn key:", err)
		}
		if err := r.try(p, fresh); err != nil {
			t.Error(err)
		}
		// The same set again leaves the cache as it is.
		before := (*r.sets.Load())[address].keys.Load()
		time.Sleep(2 * refreshEvery)
		if (*r.sets.Load())[address].keys.Load() != before {
			t.Error("a set that has not changed forgets what was verified")
		}
		// While the issuer is down, or publishes nonsense, the last keys stay.
		for _, nonsense := range []func(){func() { s.set(true, 0) }, func() { s.publish() }, func() { s.set(false, time.Hour) }} {
			nonsense()
			time.Sleep(3 * refreshEvery)
			if err := r.try(p, fresh); err != nil {
				t.Error(err)
			}
			if st := r.KeySets(); len(st) != 1 || st[0].Err == nil || st[0].Keys != 1 || st[0].Tried.IsZero() {
				t.Errorf("%+v", st)
			}
		}
	})
}

// The first tokens wait for the first fetch, but not for ever.
func TestFirstFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &published{}
		s.publish(jwk("d", edKey))
		s.set(false, time.Second)
		p, r := fetching(t), roomFor(s)
		defer r.Close()
		s.fetches.Store(0)
		token := sign(t, jwt.SigningMethodEdDSA, "d", edKey, claimsWith(nil))
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if err := r.try(p, token); err != nil {
					t.Error(err)
				}
			})
		}
		if all.Wait(); s.fetches.Load() != 1 {
			t.Errorf("%d fetches", s.fetches.Load())
		}

		slow := &published{}
		slow.set(true, time.Minute)
		r2 := roomFor(slow)
		defer r2.Close()
		began := time.Now()
		err := r2.try(p, token)
		if f := fault.Of(err); f == nil || f.HTTPStatus() != 503 || time.Since(began) > fetchWait {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// Only what a plan needs is fetched, and nothing after Close.
func TestAdopt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &published{}
		s.publish(jwk("d", edKey))
		p, r := fetching(t), roomFor(s)
		r.Adopt(p)
		synctest.Wait()
		first := (*r.sets.Load())[address]
		r.Adopt(p)
		if (*r.sets.Load())[address] != first {
			t.Error("a reload forgets keys that it needs")
		}
		r.Adopt(&Plan{})
		if len(r.KeySets()) != 0 {
			t.Error("what is not needed is still fetched")
		}
		synctest.Wait()
		n := s.fetches.Load()
		time.Sleep(10 * refreshEvery)
		if s.fetches.Load() != n {
			t.Error("it was fetched after all")
		}
		r.Close()
		token := sign(t, jwt.SigningMethodEdDSA, "d", edKey, claimsWith(nil))
		if err := r.try(p, token); err != error(errNoKeys) || s.fetches.Load() != n {
			t.Error("after Close:", err)
		}
		r.Close()
	})
}

// Over a real connection, with what a server may do wrong.
func TestFetch(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/good", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(keySetJSON(jwk("d", edKey))) })
	mux.HandleFunc("/html", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
	mux.HandleFunc("/none", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"keys":[]}`)) })
	mux.HandleFunc("/secret", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(keySetJSON(jwk("s", nil))) })
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxKeySet+1)) })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://issuer.example/jwks", http.StatusFound)
	})
	mux.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/good", http.StatusFound) })
	server := httptest.NewServer(mux)
	defer server.Close()
	client := newClient()
	defer client.CloseIdleConnections()
	for path, want := range map[string]string{
		"/good": "", "/here": "", "/html": "it is not JSON", "/none": "empty or missing", "/secret": "kty \"oct\"", "/large": "longer than", "/away": "not fetched from", "/404": "status 404",
	} {
		keys, err := get(t.Context(), client, server.URL+path)
		if want == "" && (err != nil || len(keys.keys) != 1) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", path, err)
		}
	}
	p := compilePlan(t, Config{JWT: []JWTConfig{{Issuer: issuers, Audience: "headgate", Keys: server.URL + "/good"}}})
	r := New()
	defer r.Close()
	if err := r.try(p, sign(t, jwt.SigningMethodEdDSA, "d", edKey, claimsWith(nil))); err != nil {
		t.Error(err)
	}
}

func TestFetchable(t *testing.T) {
	for address, want := range map[string]bool{
		"https://a.example/jwks": true, "http://127.0.0.1:80/jwks": true, "http://localhost/jwks": true, "http://[::1]:8080/jwks": true,
		"http://a.example/jwks": false, "file:x": false, "ftp://127.0.0.1/": false, "": false, "https://": false, "http://127.0.0.1.evil.example/": false, "::": false,
	} {
		if fetchable(address) != want {
			t.Errorf("fetchable(%q) is %v", address, !want)
		}
	}
}
