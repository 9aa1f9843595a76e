package load

import (
	"fmt"
	"time"

	"github.com/headgate-ai/headgate/internal/wire/sse"
)

// Kind is how a request failed.
type Kind string

// The kinds of failure. A request has one: the first that applies in the order
// in which they stand here.
const (
	// Status is an answer with a status other than 200.
	Status Kind = "status"
	// Timeout is a request that took longer than it may.
	Timeout Kind = "timeout"
	// Transport is a connection that could not be made, or broke before any of
	// the answer came.
	Transport Kind = "transport"
	// Refused is an error that the server reported within a stream.
	Refused Kind = "error event"
	// Malformed is an event, or a whole answer, that is not JSON.
	Malformed Kind = "malformed event"
	// Truncated is an answer that broke off, or a stream without its end mark.
	Truncated Kind = "truncated stream"
	// Order is a stream whose tokens did not all come, once, in order.
	Order Kind = "wrong order"
)

// Kinds are all of them.
var Kinds = []Kind{Status, Timeout, Transport, Refused, Malformed, Truncated, Order}

// maxEvent bounds one event.
const maxEvent = 64 << 20

// verifier reads one stream.
type verifier struct {
	dialect string
	// onToken is told of every content event: the time since the one before (-1
	// for the first) and, where tokens are stamped, the delay since the stamp.
	onToken func(gap time.Duration, delays []time.Duration)

	scan    sse.Scanner
	pending []byte
	delays  []time.Duration

	first, last time.Time
	events      int
	tokens      int // stamped ones, or else content events
	ended       bool
	extra       bool // something followed the end mark
	fault       string
	wrong       string
	usage       int
	order       order
}

func newVerifier(dialect string, onToken func(time.Duration, []time.Duration)) *verifier {
	return &verifier{dialect: dialect, onToken: onToken, usage: -1}
}

// feed takes in what one read brought.
func (v *verifier) feed(p []byte, now time.Time) {
	v.pending = append(v.pending, p...)
	at := 0
	for {
		ev, ok := v.scan.Next(v.pending[at:])
		if !ok {
			break
		}
		if ev.HasData {
			v.event(ev.Data, now)
		}
		at += ev.Size
	}
	v.pending = v.pending[:copy(v.pending, v.pending[at:])]
	if len(v.pending) > maxEvent {
		v.wrong = "an event larger than 64 MiB"
		v.pending = nil
	}
}

func (v *verifier) event(data []byte, now time.Time) {
	v.events++
	if v.ended {
		v.extra = true
	}
	s := readEvent(v.dialect, data)
	switch {
	case s.wrong:
		v.wrong = cut(data)
		return
	case s.fault:
		v.fault = cut(data)
		return
	case s.end:
		v.ended = true
	}
	v.usage = max(v.usage, s.usage)
	if s.content {
		v.token(data, now)
	}
}

func (v *verifier) token(data []byte, now time.Time) {
	gap := time.Duration(-1)
	if v.first.IsZero() {
		v.first = now
	} else {
		gap = now.Sub(v.last)
	}
	v.last = now
	v.delays = v.delays[:0]
	for s, rest, ok := nextStamp(data); ok; s, rest, ok = nextStamp(rest) {
		v.order.note(s.seq)
		v.delays = append(v.delays, time.Duration(now.UnixNano()-s.nano))
	}
	v.tokens += max(1, len(v.delays))
	v.onToken(gap, v.delays)
}

// verdict is what is wrong with the stream, "" if nothing. broken is the error
// that ended the body, nil at its proper end.
func (v *verifier) verdict(broken error) (Kind, string) {
	switch {
	case v.fault != "":
		return Refused, v.fault
	case v.wrong != "":
		return Malformed, v.wrong
	case broken != nil:
		return Truncated, broken.Error()
	case !v.ended && v.cutJSON():
		return Truncated, "half an event at the end"
	case !v.ended:
		return Truncated, "no end mark"
	case v.extra:
		return Order, "events behind the end mark"
	}
	if what := v.order.wrong(v.usage); what != "" {
		return Order, what
	}
	return "", ""
}

// cutJSON is whether the stream ended within an event. One that lacks nothing
// but its blank line is read as if it had it.
func (v *verifier) cutJSON() bool {
	ev, ok := v.scan.Tail(v.pending)
	if !ok {
		return false
	}
	s := readEvent(v.dialect, ev.Data)
	v.ended = s.end
	return s.wrong
}

func cut(data []byte) string { return string(data[:min(len(data), 200)]) }

// order watches the numbers of stamped tokens, which count from 0.
type order struct {
	bits      []uint64
	next      int // one more than the highest number so far
	count     int // different numbers
	late      int // numbers that came behind a higher one
	duplicate int
}

func (o *order) note(seq int) {
	for len(o.bits) <= seq/64 {
		o.bits = append(o.bits, 0)
	}
	word, bit := &o.bits[seq/64], uint64(1)<<(seq%64)
	switch {
	case *word&bit != 0:
		o.duplicate++
		return
	case seq < o.next:
		o.late++
	}
	*word |= bit
	o.count++
	o.next = max(o.next, seq+1)
}

// lost is how many numbers are missing below the highest, or below what the
// usage told.
func (o *order) lost(usage int) int {
	if o.next == 0 {
		return 0 // tokens bear no stamps
	}
	return max(o.next, usage) - o.count
}

func (o *order) wrong(usage int) string {
	lost := o.lost(usage)
	if lost == 0 && o.duplicate == 0 && o.late == 0 {
		return ""
	}
	return fmt.Sprintf("%d tokens lost, %d twice, %d out of order", lost, o.duplicate, o.late)
}
