package authn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// refreshEvery is how long a key that its issuer has withdrawn may still be
	// accepted.
	refreshEvery = 5 * time.Minute
	// refreshGap is the least time between two fetches, however many tokens name
	// keys that do not exist: who makes up tokens must not make us call.
	refreshGap = 10 * time.Second
	// fetchTimeout bounds one fetch, fetchWait how long a request waits for it.
	fetchTimeout = 10 * time.Second
	fetchWait    = 3 * time.Second
)

// keySet is an issuer's JWK set at an address. One goroutine fetches it; while
// the issuer cannot be reached, the keys that it last published stay.
type keySet struct {
	url  string
	keys atomic.Pointer[publicKeys] // nil before the first fetch that went well
	// next is closed when the fetch that is under way, or is the next one, has
	// ended; tried is when the last one ended, nil before that.
	next  atomic.Pointer[chan struct{}]
	tried atomic.Pointer[time.Time]
	wake  chan struct{}
	stop  context.CancelFunc
	err   atomic.Pointer[error] // of the last fetch, nil if it went well
}

// KeySetStatus is how an issuer's key set fares, for operators.
type KeySetStatus struct {
	URL  string
	Keys int
	// Tried is when it was last fetched or tried to be; zero before the first.
	Tried time.Time
	// Err is why the last fetch failed; the keys are then those of an earlier
	// one.
	Err error
}

// KeySets lists the key sets that are being fetched, by address.
func (r *Room) KeySets() (all []KeySetStatus) {
	sets := r.sets.Load()
	if sets == nil {
		return nil
	}
	for _, url := range slices.Sorted(maps.Keys(*sets)) {
		s := (*sets)[url]
		status := KeySetStatus{URL: withoutPassword(url)}
		if k := s.keys.Load(); k != nil {
			status.Keys = len(k.keys)
		}
		if at := s.tried.Load(); at != nil {
			status.Tried = *at
		}
		if err := s.err.Load(); err != nil {
			status.Err = *err
		}
		all = append(all, status)
	}
	return all
}

// set is the key set at an address; it begins to be fetched when it is first
// asked for.
func (r *Room) set(url string) *keySet {
	if sets := r.sets.Load(); sets != nil {
		if s := (*sets)[url]; s != nil {
			return s
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.start(url)
}

// start begins to fetch a set, with r.mu held.
func (r *Room) start(url string) *keySet {
	sets := map[string]*keySet{}
	if old := r.sets.Load(); old != nil {
		if s := (*old)[url]; s != nil {
			return s
		}
		maps.Copy(sets, *old)
	}
	s := &keySet{url: url, wake: make(chan struct{}, 1), stop: func() {}}
	first := make(chan struct{})
	s.next.Store(&first)
	if r.closed {
		close(first) // a request that outlives the room gets no keys, and does not wait
		return s
	}
	if r.ctx == nil {
		r.ctx, r.cancel = context.WithCancel(context.Background())
		r.client = newClient()
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(r.ctx)
	client := r.client
	r.done.Go(func() { s.run(ctx, client) })
	sets[url] = s
	r.sets.Store(&sets)
	return s
}

// keep starts the named sets and stops the others.
func (r *Room) keep(urls []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, url := range urls {
		r.start(url)
	}
	old := r.sets.Load()
	if old == nil {
		return
	}
	kept := map[string]*keySet{}
	for url, s := range *old {
		if slices.Contains(urls, url) {
			kept[url] = s
		} else {
			s.stop()
		}
	}
	r.sets.Store(&kept)
}

// run fetches the set until it is stopped.
func (s *keySet) run(ctx context.Context, client *http.Client) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			close(*s.next.Load()) // no one waits for what will not come
			return
		case <-timer.C:
		case <-s.wake:
		}
		s.fetch(ctx, client)
		pause := refreshEvery
		if s.err.Load() != nil {
			pause = refreshGap
		}
		timer.Reset(pause)
		select { // a request that asked meanwhile has its answer
		case <-s.wake:
		default:
		}
	}
}

// fetch gets the set once and tells who waits.
func (s *keySet) fetch(ctx context.Context, client *http.Client) {
	keys, err := get(ctx, client, s.url)
	if err != nil {
		s.err.Store(&err)
	} else {
		s.err.Store(nil)
		// The same document keeps its address, and with it what was verified.
		if old := s.keys.Load(); old == nil || old.sum != keys.sum {
			s.keys.Store(keys)
		}
	}
	now := time.Now()
	s.tried.Store(&now)
	following := make(chan struct{})
	close(*s.next.Swap(&following))
}

// current is the set as far as it is known, nil where it has never been
// fetched. If it lacks the key, or all, the answer waits a little for a fetch,
// unless one has just been.
func (s *keySet) current(kid string) *publicKeys {
	ended := *s.next.Load() // before the look at the keys, or a fetch in between would be waited for
	if keys := s.keys.Load(); keys != nil && keys.has(kid) {
		return keys
	}
	if last := s.tried.Load(); last != nil && time.Since(*last) < refreshGap {
		return s.keys.Load()
	}
	select {
	case s.wake <- struct{}{}:
	default: // it has been asked for already
	}
	patience := time.NewTimer(fetchWait)
	defer patience.Stop()
	select {
	case <-ended:
	case <-patience.C:
	}
	return s.keys.Load()
}

func newClient() *http.Client {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		transport = &http.Transport{}
	}
	transport = transport.Clone()
	transport.MaxIdleConnsPerHost = 1
	return &http.Client{
		Transport: transport,
		Timeout:   fetchTimeout,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > 3 || !fetchable(req.URL.String()) {
				return errors.New("it leads to an address that keys are not fetched from")
			}
			return nil
		},
	}
}

func get(ctx context.Context, client *http.Client, url string) (*publicKeys, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the issuer answered with status %d", resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxKeySet+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxKeySet {
		return nil, fmt.Errorf("the key set is longer than %d bytes", maxKeySet)
	}
	return parseKeys(data)
}
