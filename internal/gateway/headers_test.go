package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/authn"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/quota/limittest"
	"github.com/headgate-ai/headgate/internal/setting"
	"github.com/headgate-ai/headgate/lab/race"
)

// strict is a client's side of one answer that panics where net/http would lose
// headers without a word or abort the process: when another goroutine than the
// request's own touches them, and when they change behind the head.
type strict struct {
	owner  string
	header http.Header
	sent   http.Header // what the head said; nil before it
	status int
}

func newStrict() *strict { return &strict{owner: goroutine(), header: http.Header{}} }

// goroutine names the one that runs.
func goroutine() string {
	var buf [32]byte
	name, _, _ := bytes.Cut(buf[:runtime.Stack(buf[:], false)], []byte(" ["))
	return string(name)
}

func (s *strict) mine() {
	if now := goroutine(); now != s.owner {
		panic(now + " touches the headers of " + s.owner)
	}
}

func (s *strict) Header() http.Header {
	s.mine()
	return s.header
}

func (s *strict) WriteHeader(status int) {
	s.mine()
	if s.sent != nil {
		panic("a second head")
	}
	s.status, s.sent = status, s.header.Clone()
}

func (s *strict) Write(p []byte) (int, error) {
	if s.sent == nil {
		s.WriteHeader(http.StatusOK)
	}
	return len(p), nil
}

// end looks whether a header was set too late.
func (s *strict) end() {
	if s.mine(); !maps.EqualFunc(s.sent, s.header, slices.Equal) {
		panic(fmt.Sprintf("the head said %v and the headers are now %v", s.sent, s.header))
	}
}

func (*strict) FlushError() error                { return nil }
func (*strict) SetReadDeadline(time.Time) error  { return nil }
func (*strict) SetWriteDeadline(time.Time) error { return nil }

// strictHead is one that takes fields without a map, as the loop for inference
// calls does. To ask for the goroutine costs far more than to put a field, so
// only the head's beginning and its end do.
type strictHead struct{ *strict }

func (s strictHead) BeginHead(status int) {
	s.mine()
	s.status = status
}

func (s strictHead) Put(name, value string) {
	if s.sent != nil {
		panic(name + " comes behind the head")
	}
	s.header.Add(name, value)
}

func (s strictHead) PutBytes(name string, value []byte) { s.Put(name, string(value)) }
func (s strictHead) EndHead()                           { s.WriteHeader(s.status) }

// What the wrapper is for: the way of writing headers that the seed shows, one
// ResponseWriter in the hands of many goroutines, and one header behind the head.
func TestStrictCatchesTheRace(t *testing.T) {
	s := newStrict()
	caught := make(chan any, 10)
	for i := range cap(caught) {
		go func() {
			defer func() { caught <- recover() }()
			s.Header().Set("X-RateLimit-Limit", "100")
			s.Header().Set("X-RateLimit-Remaining", strconv.Itoa(i))
		}()
	}
	for range cap(caught) {
		if v := <-caught; !strings.Contains(fmt.Sprint(v), "touches the headers") {
			t.Errorf("caught %v", v)
		}
	}
	s.Header().Set("X-RateLimit-Limit", "100")
	s.WriteHeader(http.StatusOK)
	s.end()
	s.Header().Set("X-RateLimit-Remaining", "99")
	defer func() {
		if v := recover(); !strings.Contains(fmt.Sprint(v), "99") {
			t.Errorf("caught %v", v)
		}
	}()
	s.end()
}

// Who is limited by calls at once, and nothing else; the other keys have a rate.
const placesOnly = "k7"

// B10: every answer of 64,000, let through or refused for whatever reason,
// carries the three common headers; what remains is never less than nothing, and
// for who asks again it never grows; and each call that is let through is told a
// number of its own.
func TestEveryAnswerTellsItsLimit(t *testing.T) {
	const keys, clients, limit, places = 8, 64, 200, 2
	each := 1000
	if race.Enabled {
		each = 100
	}
	g := build(t, provider(t, unary()))
	var p setting.Problems
	s := *g.Snapshot()
	who := &authn.Config{}
	for i := range keys {
		name := fmt.Sprintf("k%d", i)
		who.Keys = append(who.Keys, authn.KeyConfig{Name: name, Secret: setting.NewSecret("literal:sk-" + name)})
	}
	s.Authn, _ = who.Compile(&p)
	c := &quota.Config{Rules: []quota.RuleConfig{
		{Name: "calls", When: `principal.key != "` + placesOnly + `"`, Per: []string{"key"}, Requests: quota.RateConfig{Rate: limittest.Rate(t, fmt.Sprintf("%d/day", limit)), Algorithm: "window"}},
		{Name: "places", When: `principal.key == "` + placesOnly + `"`, Concurrent: places},
	}}
	c.Validate("quota", &p)
	s.Quota = g.Quota.Compile(c, &p)
	if len(p) > 0 {
		t.Fatal(p)
	}
	g.Adopt(&s)

	told := make([][]int64, clients)
	statuses := make([]map[int]int, clients)
	var wg sync.WaitGroup
	for i := range clients {
		key := fmt.Sprintf("k%d", i%keys)
		statuses[i] = map[int]int{}
		wg.Go(func() {
			last := int64(limit)
			for range each {
				w := newStrict()
				var rw http.ResponseWriter = w
				if i/keys%2 == 0 {
					rw = strictHead{w}
				}
				req, _ := http.NewRequest("POST", "http://gateway/v1/chat/completions", io.NopCloser(strings.NewReader(askUnary)))
				req.RemoteAddr, req.ContentLength = "192.0.2.1:4711", int64(len(askUnary))
				req.Header.Set("Authorization", "Bearer sk-"+key)
				req.Header.Set("Content-Type", "application/json")
				g.ServeHTTP(rw, req)
				w.end()
				statuses[i][w.status]++
				most, left := common(t, w)
				if key == placesOnly {
					if most != places || left > places {
						t.Errorf("%d of %d places", left, most)
					}
					continue
				}
				if most != limit || left > last || w.status != http.StatusOK && left != 0 {
					t.Errorf("%d: %d of %d remain, and %d did before", w.status, left, most, last)
				}
				if last = left; w.status == http.StatusOK {
					told[i] = append(told[i], left)
				}
			}
		})
	}
	wg.Wait()
	for k := range keys {
		var all []int64
		got := map[int]int{}
		for i := k; i < clients; i += keys {
			all = append(all, told[i]...)
			for status, n := range statuses[i] {
				got[status] += n
			}
		}
		if got[200]+got[429] != each*clients/keys {
			t.Errorf("key %d: %v", k, got)
		}
		if slices.Sort(all); fmt.Sprintf("k%d", k) != placesOnly && (len(all) != limit || all[0] != 0 || all[limit-1] != limit-1 || len(slices.Compact(all)) != limit) {
			t.Errorf("key %d: %d calls of %d were let through", k, len(all), limit)
		}
	}
}

// common reads the three headers that every answer about a limit must have.
func common(t *testing.T, w *strict) (limit, remaining int64) {
	t.Helper()
	var n [3]int64
	for i, name := range []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"} {
		v, err := strconv.ParseInt(w.sent.Get(name), 10, 64)
		if n[i] = v; err != nil || v < 0 || len(w.sent[name]) != 1 {
			t.Errorf("status %d has %s: %q", w.status, name, w.sent[name])
		}
	}
	return n[0], n[1]
}
