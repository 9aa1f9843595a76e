// Package journal keeps one record per request: what was decided, what
// happened and when. From the record follow the access log, the metrics, the
// trace, the recent requests and the totals; nothing else in the gateway logs
// or counts a request. The hallway fills the record; app owns the room.
package journal

import (
	"strconv"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
)

// Stage is one part of a request's life. The stages follow each other without
// gap, so that their sum is the whole request.
type Stage uint8

// The stages, in order.
const (
	Receive    Stage = iota // reading the request body: the client's time
	Decode                  // scanning the body
	Identify                // checking the credential
	Route                   // choosing the legs
	Reserve                 // reserving of limits and budgets
	Prepare                 // building the upstream request
	Connect                 // getting a connection to the upstream, dialled or pooled
	FirstByte               // from the connection to the upstream's response head
	FirstToken              // from the response head to the first content token
	Relay                   // from the first content token to the last byte
	Finish                  // settling and closing after the last byte
	Stages                  // their number
)

var stageNames = [Stages]string{"receive", "decode", "identify", "route", "reserve", "prepare", "connect", "first_byte", "first_token", "relay", "finish"}

// String names the stage in records, metrics and Server-Timing.
func (s Stage) String() string { return stageNames[s] }

// Own is whether the stage is the gateway's own work, as opposed to waiting for
// the client or the upstream.
func (s Stage) Own() bool {
	return s == Decode || s == Identify || s == Route || s == Reserve || s == Prepare || s == Finish
}

// Outcome is how a request ended.
type Outcome uint8

// The outcomes.
const (
	OK Outcome = iota
	Failed
	Cancelled
)

// String names the outcome in records and metrics.
func (o Outcome) String() string { return [...]string{"ok", "error", "cancelled"}[o] }

// Gaps summarises the times between the content events of one stream.
type Gaps struct {
	Count         int
	P50, P95, Max time.Duration
}

// Record is one request, from its first byte to its last. It is filled by the
// goroutine that serves the request and is immutable once closed. It holds no
// content and no credential.
type Record struct {
	ID    string
	Start time.Time
	// Trace is the W3C trace context: the trace, our server span, the caller's
	// span (zero if none) and whether the trace is sampled.
	Trace   [16]byte
	Span    [8]byte
	Parent  [8]byte
	Sampled bool
	// UpstreamSpan is the client span whose id the upstream was given.
	UpstreamSpan [8]byte

	Method  string
	Route   string // the route's pattern, never the client's path or query
	Proto   string // HTTP/1.1, HTTP/2.0
	Client  string // the client's address
	Agent   string // its User-Agent, cut short
	Dialect llm.Dialect
	Op      llm.Operation
	Who     llm.Principal

	// Asked is the model as the client named it: for records and logs only.
	Asked string
	// Model is the configured model that matched: a bounded set, safe as label.
	Model string
	// Provider and Target say who answered; Target is "provider/model".
	Provider string
	Target   string
	Attempts int
	Reused   bool // the upstream connection came from the pool

	Stream      bool
	Status      int // what the client saw; 499 when it left before it saw any
	UpstreamRaw int // the upstream's own status, 0 if it never answered
	Outcome     Outcome
	Fault       *fault.Error // nil when the outcome is OK
	// FaultTold is whether the client has been told of the fault already, by the
	// provider's own words within a stream.
	FaultTold bool
	Warnings  []string

	BytesIn, BytesOut int64
	Events            int
	Usage             llm.Usage
	Cost              llm.Money // what the usage costs by the price table
	// Admission is what was decided before the call, nil where nothing was.
	Admission    *Admission
	FinishReason string
	Gaps         Gaps
	BackPressure time.Duration // time spent waiting for the client to read
	AheadWait    time.Duration // time the reader ahead waited for room in its buffer

	StageTime [Stages]time.Duration
	Elapsed   time.Duration // set by Close

	last time.Duration // offset from Start of the latest mark
	// begun and closed keep the count of requests in flight right.
	begun, closed bool
}

// Mark ends stage s at now: the time since the previous mark is added to it.
func (r *Record) Mark(s Stage, now time.Time) {
	at := now.Sub(r.Start)
	if d := at - r.last; d > 0 {
		r.StageTime[s] += d
		r.last = at
	}
}

// Offset is when stage s ended, counted from the request's start: the sum of
// the stages up to it.
func (r *Record) Offset(s Stage) time.Duration {
	var d time.Duration
	for i := Stage(0); i <= s; i++ {
		d += r.StageTime[i]
	}
	return d
}

// Own is the time the gateway itself took before the last byte was relayed.
func (r *Record) Own() time.Duration {
	var d time.Duration
	for s := range Stages {
		if s.Own() {
			d += r.StageTime[s]
		}
	}
	return d
}

// AppendServerTiming writes the stages that have passed as a Server-Timing
// header (W3C Server Timing), durations in milliseconds.
func (r *Record) AppendServerTiming(dst []byte) []byte {
	for s, d := range r.StageTime {
		if d == 0 {
			continue
		}
		if len(dst) > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(dst, Stage(s).String()...)
		dst = append(dst, ";dur="...)
		dst = strconv.AppendFloat(dst, float64(d.Nanoseconds())/1e6, 'f', 3, 64)
	}
	return dst
}
