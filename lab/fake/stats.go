package fake

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"
)

// Outcome is how a request ended.
type Outcome string

// The outcomes.
const (
	// Running has not ended.
	Running Outcome = ""
	// Finished was answered whole, if perhaps with a fault that leaves it whole.
	Finished Outcome = "finished"
	// Refused was answered with a failure status.
	Refused Outcome = "refused"
	// Cancelled is that the client left, or stopped reading, before the end.
	Cancelled Outcome = "cancelled"
	// Broken was cut off by a fault.
	Broken Outcome = "broken"
)

// Request is one request that the server has seen. Header and Body are shared
// with the server: read only.
type Request struct {
	// Number counts requests from 1.
	Number uint64 `json:"number"`
	// Began and Ended are when it arrived and when the handler returned.
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended,omitzero"`
	// Method, Path, Query and Header are as they arrived.
	Method string      `json:"method"`
	Path   string      `json:"path"`
	Query  string      `json:"query,omitempty"`
	Header http.Header `json:"header"`
	// Body is the beginning of the body, at most Config.KeepBody bytes.
	Body []byte `json:"body,omitempty"`
	// Model is the model asked for, with its overrides.
	Model string `json:"model,omitempty"`
	// Stream is whether a streamed answer was begun.
	Stream bool `json:"stream"`
	// Status is the HTTP status of the answer, 0 if none was sent.
	Status int `json:"status"`
	// Tokens is how many tokens were sent, as far as the server knows.
	Tokens int `json:"tokens"`
	// Outcome is how it ended.
	Outcome Outcome `json:"outcome"`
}

// Stats are counts since the server was made.
type Stats struct {
	// Requests have arrived. Each is in flight or has one of the four outcomes.
	Requests int64 `json:"requests"`
	// InFlight are being answered or wait; MaxInFlight is the most there ever were.
	InFlight    int64 `json:"in_flight"`
	MaxInFlight int64 `json:"max_in_flight"`
	// Waiting wait for a slot.
	Waiting int64 `json:"waiting"`
	// Finished, Refused, Cancelled and Broken are the outcomes.
	Finished  int64 `json:"finished"`
	Refused   int64 `json:"refused"`
	Cancelled int64 `json:"cancelled"`
	Broken    int64 `json:"broken"`
	// Streams were begun. The three below are how they ended.
	Streams          int64 `json:"streams"`
	StreamsFinished  int64 `json:"streams_finished"`
	StreamsCancelled int64 `json:"streams_cancelled"`
	StreamsBroken    int64 `json:"streams_broken"`
	// Tokens were sent, in streams and in whole answers.
	Tokens int64 `json:"tokens"`
	// Paths counts requests by path; those to no endpoint are counted as "other".
	Paths map[string]int64 `json:"paths"`
}

// Stats is a snapshot of the counts.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.statsLocked()
}

func (s *Server) statsLocked() Stats {
	st := s.stats
	st.Tokens = s.tokens.Load()
	st.Waiting = s.slots.waiting()
	st.Paths = maps.Clone(st.Paths)
	return st
}

// Requests are the most recent requests, the oldest first, running ones
// included. Config.Keep says how many.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Request, 0, len(s.recent))
	for i := range s.recent {
		if r := s.recent[(s.oldest+i)%len(s.recent)]; r != nil {
			out = append(out, *r)
		}
	}
	return out
}

// WaitFor returns when the counts satisfy ok, or with an error that shows the
// counts when ctx is done.
func (s *Server) WaitFor(ctx context.Context, ok func(Stats) bool) error {
	s.watchers.Add(1)
	defer s.watchers.Add(-1)
	for {
		s.mu.Lock()
		st, changed := s.statsLocked(), s.changed
		s.mu.Unlock()
		if ok(st) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("fake: still waiting with %+v: %w", st, ctx.Err())
		}
	}
}

// WaitRequests returns when n requests have arrived since the server was made.
func (s *Server) WaitRequests(ctx context.Context, n int64) error {
	return s.WaitFor(ctx, func(st Stats) bool { return st.Requests >= n })
}

// WaitTokens returns when n tokens have been sent since the server was made.
func (s *Server) WaitTokens(ctx context.Context, n int64) error {
	return s.WaitFor(ctx, func(st Stats) bool { return st.Tokens >= n })
}

// WaitCancelled returns when n requests have been cancelled since the server
// was made.
func (s *Server) WaitCancelled(ctx context.Context, n int64) error {
	return s.WaitFor(ctx, func(st Stats) bool { return st.Cancelled >= n })
}

// WaitIdle returns when no request is in flight.
func (s *Server) WaitIdle(ctx context.Context) error {
	return s.WaitFor(ctx, func(st Stats) bool { return st.InFlight == 0 })
}

// begin counts an arrival and gives its record.
func (s *Server) begin(r *http.Request, keep int) *Request {
	rec := &Request{
		Began: time.Now(), Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone(),
	}
	path := r.URL.Path
	if _, ok := routeOf(path); !ok {
		path = "other"
	} else if prefix, _, ok := strings.Cut(path, "/v1/models/"); ok {
		path = prefix + "/v1/models/{id}" // ids are without number
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Requests++
	rec.Number = uint64(s.stats.Requests)
	s.stats.InFlight++
	s.stats.MaxInFlight = max(s.stats.MaxInFlight, s.stats.InFlight)
	s.stats.Paths[path]++
	s.remember(rec, keep)
	s.announce()
	return rec
}

// remember puts rec in the ring, which follows a changed Config.Keep.
func (s *Server) remember(rec *Request, keep int) {
	if keep != len(s.recent) {
		old := s.recent
		s.recent = make([]*Request, keep)
		for i := range min(keep, len(old)) {
			s.recent[keep-1-i] = old[(s.oldest+len(old)-1-i)%len(old)]
		}
		s.oldest = 0
	}
	if keep > 0 {
		s.recent[s.oldest] = rec
		s.oldest = (s.oldest + 1) % keep
	}
}

// note changes a record that Requests may be reading.
func (s *Server) note(change func()) {
	s.mu.Lock()
	change()
	s.announce()
	s.mu.Unlock()
}

// end counts how a request ended.
func (s *Server) end(rec *Request, o Outcome, tokens int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec.Ended, rec.Outcome, rec.Tokens = time.Now(), o, tokens
	st := &s.stats
	st.InFlight--
	total, streams := &st.Finished, &st.StreamsFinished
	switch o {
	case Refused:
		total = &st.Refused
	case Cancelled:
		total, streams = &st.Cancelled, &st.StreamsCancelled
	case Broken:
		total, streams = &st.Broken, &st.StreamsBroken
	}
	*total++
	if rec.Stream {
		*streams++
	}
	s.announce()
}

// announce wakes WaitFor; the caller holds mu. Without watchers it costs a load.
func (s *Server) announce() {
	if s.watchers.Load() > 0 {
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// sent counts a token. It must be cheap: every stream calls it per token.
func (s *Server) sent(n int) {
	s.tokens.Add(int64(n))
	if s.watchers.Load() > 0 {
		s.note(func() {})
	}
}
