package journal

import (
	"encoding/hex"
	"strconv"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
)

// recent keeps the latest records in a ring. Records are immutable once
// closed, so the ring holds them as they are and nothing is spent on showing
// them until someone asks.
type recent struct {
	mu   sync.Mutex
	ring []kept
	next int // where the next one goes
	full bool
}

type kept struct {
	r   *Record
	red *Redactor
}

func (c *recent) init(n int) { c.ring = make([]kept, n) }

func (c *recent) add(r *Record, red *Redactor) {
	if len(c.ring) == 0 {
		return
	}
	c.mu.Lock()
	c.ring[c.next] = kept{r, red}
	c.next++
	if c.next == len(c.ring) {
		c.next, c.full = 0, true
	}
	c.mu.Unlock()
}

// latest copies the newest n records, the latest first.
func (c *recent) latest(n int) []kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := c.next
	if c.full {
		have = len(c.ring)
	}
	if n <= 0 || n > have {
		n = have
	}
	all := make([]kept, 0, n)
	for i := 1; i <= n; i++ {
		all = append(all, c.ring[(c.next-i+len(c.ring))%len(c.ring)])
	}
	return all
}

// Recent shows the latest records, newest first: at most limit of them, or all
// that are kept if limit is not positive.
func (j *Room) Recent(limit int) []View {
	j.digester.digest()
	all := j.recent.latest(limit)
	views := make([]View, len(all))
	for i, k := range all {
		views[i] = k.view()
	}
	return views
}

// Find shows the newest kept record with the given request id.
func (j *Room) Find(id string) (View, bool) {
	j.digester.digest()
	for _, k := range j.recent.latest(0) {
		if k.r.ID == id {
			return k.view(), true
		}
	}
	return View{}, false
}

// View is a record as operators see it: every decision and every timing, in
// microseconds. It holds no content and no credential.
type View struct {
	ID           string         `json:"id"`
	Time         time.Time      `json:"time"`
	TraceID      string         `json:"trace_id"`
	SpanID       string         `json:"span_id"`
	ParentSpanID string         `json:"parent_span_id,omitempty"`
	UpstreamSpan string         `json:"upstream_span_id"`
	Sampled      bool           `json:"sampled"`
	Method       string         `json:"method"`
	Route        string         `json:"route"`
	Proto        string         `json:"proto"`
	Client       string         `json:"client"`
	Agent        string         `json:"agent,omitempty"`
	Dialect      llm.Dialect    `json:"dialect"`
	Operation    llm.Operation  `json:"operation"`
	Key          string         `json:"key"`
	Tenant       string         `json:"tenant"`
	User         string         `json:"user,omitempty"`
	Tier         string         `json:"tier,omitempty"`
	Admission    *AdmissionView `json:"admission,omitempty"`
	Asked        string         `json:"asked"`
	Model        string         `json:"model"`
	Provider     string         `json:"provider"`
	Target       string         `json:"target"`
	Attempts     int            `json:"attempts"`
	Reused       bool           `json:"reused"`
	Stream       bool           `json:"stream"`
	Status       int            `json:"status"`
	UpstreamCode int            `json:"upstream_status"`
	Outcome      string         `json:"outcome"`
	Fault        *FaultView     `json:"fault,omitempty"`
	Warnings     []string       `json:"warnings,omitempty"`
	BytesIn      int64          `json:"bytes_in"`
	BytesOut     int64          `json:"bytes_out"`
	Events       int            `json:"events"`
	Usage        UsageView      `json:"usage"`
	Cost         llm.Money      `json:"cost_usd"`
	FinishReason string         `json:"finish_reason,omitempty"`
	Gaps         *GapsView      `json:"gaps,omitempty"`
	BackPressure int64          `json:"backpressure_us"`
	FirstToken   int64          `json:"first_token_us,omitempty"`
	Stages       StagesView     `json:"stages_us"`
	Own          int64          `json:"own_us"`
	Elapsed      int64          `json:"elapsed_us"`
}

// FaultView is what went wrong, in the operator's words.
type FaultView struct {
	Kind      string `json:"kind"`
	Blame     string `json:"blame"`
	Retryable bool   `json:"retryable"`
	Final     bool   `json:"final"`
	Op        string `json:"op"`
	Public    string `json:"public"`
	Error     string `json:"error"`
}

// UsageView is the tokens used.
type UsageView struct {
	Input      int64 `json:"input_tokens"`
	Cached     int64 `json:"cached_tokens"`
	CacheWrite int64 `json:"cache_write_tokens"`
	Output     int64 `json:"output_tokens"`
	Reasoning  int64 `json:"reasoning_tokens"`
	Estimated  bool  `json:"estimated"`
}

// GapsView is the times between a stream's content events.
type GapsView struct {
	Count int   `json:"count"`
	P50   int64 `json:"p50_us"`
	P95   int64 `json:"p95_us"`
	Max   int64 `json:"max_us"`
}

// StagesView is the time of each stage in microseconds. It marshals to an
// object whose members are in the order of the stages.
type StagesView [Stages]int64

// MarshalJSON writes {"receive":…,"decode":…,…}.
func (v StagesView) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for s, us := range v {
		if s > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, stageNames[s]...)
		b = append(b, '"', ':')
		b = strconv.AppendInt(b, us, 10)
	}
	return append(b, '}'), nil
}

func (k kept) view() View {
	r := k.r
	v := View{
		ID: r.ID, Time: r.Start.UTC().Truncate(time.Millisecond),
		TraceID: hex.EncodeToString(r.Trace[:]), SpanID: hex.EncodeToString(r.Span[:]),
		UpstreamSpan: hex.EncodeToString(r.UpstreamSpan[:]), Sampled: r.Sampled,
		Method: r.Method, Route: r.Route, Proto: r.Proto, Client: r.Client, Agent: r.Agent,
		Dialect: r.Dialect, Operation: r.Op, Key: r.Who.Key, Tenant: r.Who.Tenant, User: r.Who.User, Tier: r.Who.Tier,
		Admission: r.Admission.view(), Cost: r.Cost,
		Asked: r.Asked, Model: r.Model, Provider: r.Provider, Target: r.Target,
		Attempts: r.Attempts, Reused: r.Reused, Stream: r.Stream,
		Status: r.Status, UpstreamCode: r.UpstreamRaw, Outcome: r.Outcome.String(),
		BytesIn: r.BytesIn, BytesOut: r.BytesOut, Events: r.Events,
		Usage:        UsageView{r.Usage.Input, r.Usage.Cached, r.Usage.CacheWrite, r.Usage.Output, r.Usage.Reasoning, r.Usage.Estimated},
		FinishReason: r.FinishReason, BackPressure: r.BackPressure.Microseconds(),
		Own: r.Own().Microseconds(), Elapsed: r.Elapsed.Microseconds(),
	}
	if r.Parent != [8]byte{} {
		v.ParentSpanID = hex.EncodeToString(r.Parent[:])
	}
	if g := r.Gaps; g.Count > 0 {
		v.Gaps = &GapsView{g.Count, g.P50.Microseconds(), g.P95.Microseconds(), g.Max.Microseconds()}
	}
	if r.StageTime[FirstToken] > 0 {
		v.FirstToken = r.Offset(FirstToken).Microseconds()
	}
	for s, d := range r.StageTime {
		v.Stages[s] = d.Microseconds()
	}
	for _, w := range r.Warnings {
		v.Warnings = append(v.Warnings, k.red.text(w))
	}
	v.Fault = k.fault()
	return v
}

func (k kept) fault() *FaultView {
	f := k.r.Fault
	if f == nil {
		return nil
	}
	return &FaultView{
		Kind: f.Kind.String(), Blame: f.Kind.Blame().String(),
		Retryable: f.Kind.Retryable(), Final: f.Final, Op: f.Op,
		Public: k.red.text(f.Sentence()), Error: k.red.text(f.Error()),
	}
}
