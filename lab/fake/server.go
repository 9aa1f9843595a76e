package fake

import (
	"encoding/json"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Server is a simulated provider. It is safe for concurrent use.
type Server struct {
	cfg    atomic.Pointer[Config] // replaced whole, never changed in place
	slots  slots
	limits limits
	first  firsts

	tokens   atomic.Int64
	watchers atomic.Int64 // goroutines in WaitFor

	mu      sync.Mutex
	stats   Stats      // by mu
	recent  []*Request // by mu, and so are the requests in it
	oldest  int
	changed chan struct{} // by mu; closed when something watched changes
}

// New makes a provider that behaves as c says.
func New(c Config) *Server {
	s := &Server{changed: make(chan struct{})}
	s.stats.Paths = map[string]int64{}
	s.Configure(c)
	return s
}

// Configure changes the behaviour for requests that arrive from now on.
func (s *Server) Configure(c Config) {
	c = c.filled()
	s.cfg.Store(&c)
	s.slots.resize(c.Slots)
}

// Config is the behaviour in force.
func (s *Server) Config() Config { return *s.cfg.Load() }

// ServeHTTP answers one request. It panics with http.ErrAbortHandler to break
// a connection, as net/http wants it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/_sim/") {
		s.control(w, r)
		return
	}
	cfg := s.cfg.Load()
	rec := s.begin(r, cfg.Keep)
	c := &call{
		s: s, w: w, r: r, rc: http.NewResponseController(w), cfg: *cfg, rec: rec, outcome: Finished,
		luck: rand.New(rand.NewPCG(cfg.Seed, rec.Number)),
	}
	// A panic on purpose passes through here, with the outcome already set.
	defer func() {
		c.stopTimer()
		s.end(rec, c.outcome, c.tokens)
	}()
	rt, known := routeOf(r.URL.Path)
	c.dialect, c.path = rt.dialect, strings.TrimPrefix(r.URL.Path, anthropicPrefix)
	if rt.both && r.Header.Get("Anthropic-Version") != "" || strings.HasPrefix(r.URL.Path, anthropicPrefix) {
		c.dialect = anthropic
	}
	c.id = "req_" + letters(c.luck, 24)
	c.head()
	switch {
	case !known:
		c.fail(http.StatusNotFound, "Invalid URL ("+r.Method+" "+r.URL.Path+")", "", "unknown_url")
	case r.Method != rt.method:
		w.Header().Set("Allow", rt.method)
		c.fail(http.StatusMethodNotAllowed, "Not allowed to "+r.Method+" on "+r.URL.Path+"; use "+rt.method, "", "method_not_supported")
	case c.admit(rt):
		defer s.slots.give()
		rt.handle(c)
	}
}

// admit is everything before the endpoint itself: body, credential, overrides,
// failures, limits and the wait for a slot. It answers what it refuses.
func (c *call) admit(rt route) bool {
	if !c.readBody() || !c.authorised() || !c.decode(rt.multipart) || !c.override() {
		return false
	}
	c.seed()
	if c.unlucky() || c.unknownModel() || c.limited() {
		return false
	}
	switch err := c.s.slots.take(c.r.Context(), c.cfg.Queue); {
	case errors.Is(err, errOverload):
		c.fail(c.overloadStatus(), "The engine is currently overloaded, please try again later", "", "overloaded")
		return false
	case err != nil:
		c.outcome = Cancelled
		return false
	}
	c.began = time.Now()
	return true
}

// seed makes the draws of this request; see the package's words on determinism.
func (c *call) seed() {
	c.hash = hash([]byte(c.path), c.body)
	c.rng = rand.New(rand.NewPCG(c.cfg.Seed, c.hash))
	if _, ok := c.r.Header[headerPrefix+"Seed"]; ok || strings.Contains(c.model, "+seed=") {
		c.luck = rand.New(rand.NewPCG(c.cfg.Seed, c.hash+1))
	}
}

func hash(parts ...[]byte) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum64()
}

// unlucky answers with the failures that are asked for or drawn.
func (c *call) unlucky() bool {
	cfg := &c.cfg
	// Every draw happens, needed or not, so that one rate does not shift the others.
	fails, resets, faulty := c.luck.Float64() < cfg.ErrorRate, c.luck.Float64() < cfg.ResetRate, c.luck.Float64() < cfg.FaultRate
	if !faulty {
		cfg.Fault = ""
	}
	if cfg.Status != 0 {
		c.failWith(cfg.Status)
		return true
	}
	if fails || cfg.FailFirst > 0 && c.s.first.arrive(c.hash) <= cfg.FailFirst {
		c.failWith(cfg.ErrorStatus)
		return true
	}
	if resets {
		c.reset()
	}
	return cfg.Fault != "" && c.faultBefore()
}

// firsts counts arrivals by body, for FailFirst.
type firsts struct {
	mu sync.Mutex
	n  map[uint64]int
}

func (f *firsts) arrive(hash uint64) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Forgetting all at a bound is crude and enough for a test's memory.
	if f.n == nil || len(f.n) > 1<<16 {
		f.n = map[uint64]int{}
	}
	f.n[hash]++
	return f.n[hash]
}

// withoutCredentials is for eyes other than the test's own.
func withoutCredentials(all []Request) []Request {
	for i := range all {
		h := all[i].Header.Clone()
		for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "Cookie"} {
			if h.Get(name) != "" {
				h.Set(name, "[redacted]")
			}
		}
		all[i].Header = h
	}
	return all
}

// control answers the endpoints of the simulator itself.
func (s *Server) control(w http.ResponseWriter, r *http.Request) {
	var answer any
	switch r.Method + " " + r.URL.Path {
	case "GET /_sim/stats":
		answer = s.Stats()
	case "GET /_sim/requests":
		answer = withoutCredentials(s.Requests())
	case "POST /_sim/config":
		c := s.Config()
		for name, values := range r.URL.Query() {
			if err := c.Set(name, values[0]); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
		}
		s.Configure(c)
		answer = map[string]string{"status": "ok"}
	default:
		http.Error(w, "unknown; known are GET /_sim/stats, GET /_sim/requests, POST /_sim/config?NAME=VALUE", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(answer)
}
