package load

import (
	"sync"
	"sync/atomic"
	"time"
)

// tally is what all requests of a run add to.
type tally struct {
	latency, service, ttft, gaps, added, lag           Histogram
	dns, connect, tls, firstByte, transfer, totalPhase Histogram

	ok, failed, open, aborted    atomic.Int64
	tokens, bytes, reused, conns atomic.Int64
	lost, duplicate, late        atomic.Int64
	series                       *series

	mu       sync.Mutex // guards what follows
	errors   map[Kind]int64
	statuses map[int]int64
	examples map[Kind]string
}

func newTally(s *series) *tally {
	return &tally{series: s, errors: map[Kind]int64{}, statuses: map[int]int64{}, examples: map[Kind]string{}}
}

// record accounts for a request that has ended. Failed ones have a latency, too:
// without it a server that drops what is slow would look fast.
func (t *tally) record(c *call, sent, now time.Time, kind Kind, detail string) {
	t.latency.Add(now.Sub(c.due))
	t.service.Add(now.Sub(sent))
	t.lag.Add(sent.Sub(c.due))
	t.bytes.Add(c.bytes)
	t.series.done(kind == "")
	t.phases(&c.phases, sent, now)
	if v := c.verifier; v != nil {
		if !v.first.IsZero() {
			t.ttft.Add(v.first.Sub(c.due))
		}
		t.lost.Add(int64(v.order.lost(v.usage)))
		t.duplicate.Add(int64(v.order.duplicate))
		t.late.Add(int64(v.order.late))
	}
	if kind == "" {
		t.ok.Add(1)
		return
	}
	t.failed.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errors[kind]++
	if kind == Status {
		t.statuses[c.status]++
	}
	if t.examples[kind] == "" {
		t.examples[kind] = detail
	}
}

// phases takes in the parts of one exchange, as differences: what each took by
// itself.
func (t *tally) phases(p *phases, sent, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	add := func(h *Histogram, from, to time.Time) {
		if !from.IsZero() && !to.IsZero() && !to.Before(from) {
			h.Add(to.Sub(from))
		}
	}
	// A dial that another connection overtook is not this exchange's. Whether the
	// connection counts as reused does not tell: with HTTP/2 another exchange may
	// have been the first on the connection that this one made.
	if !p.gotConn.IsZero() && !p.connectDone.After(p.gotConn) && !p.tlsDone.After(p.gotConn) {
		add(&t.dns, p.dnsStart, p.dnsDone)
		add(&t.connect, p.connectStart, p.connectDone)
		add(&t.tls, p.tlsStart, p.tlsDone)
	}
	add(&t.firstByte, p.gotConn, p.firstByte)
	add(&t.transfer, p.firstByte, now)
	add(&t.totalPhase, sent, now)
	if !p.gotConn.IsZero() {
		t.conns.Add(1)
		if p.reused {
			t.reused.Add(1)
		}
	}
}

// series is the throughput over time, in slots of equal length.
type series struct {
	start time.Time
	width time.Duration
	slots []slot
}

type slot struct{ ok, failed, tokens atomic.Int64 }

// maxSlots is what a plot can show.
const maxSlots = 120

// newSeries makes room for a time; what comes later counts in the last slot.
func newSeries(start time.Time, length time.Duration) *series {
	width := max(100*time.Millisecond, length/maxSlots)
	return &series{start, width, make([]slot, int(length/width)+1)}
}

func (s *series) now() *slot {
	return &s.slots[min(int(time.Since(s.start)/s.width), len(s.slots)-1)]
}

func (s *series) done(ok bool) {
	if ok {
		s.now().ok.Add(1)
	} else {
		s.now().failed.Add(1)
	}
}

func (s *series) tokens(n int) { s.now().tokens.Add(int64(n)) }

// Point is the throughput of one slot of time.
type Point struct {
	At     float64 `json:"at_s"` // its start
	OK     float64 `json:"ok_per_s"`
	Failed float64 `json:"failed_per_s"`
	Tokens float64 `json:"tokens_per_s"`
}

// points are the slots of the time that has passed; the last one may be short
// or, with what came late, long.
func (s *series) points(elapsed time.Duration) []Point {
	var all []Point
	for i := range s.slots {
		at := time.Duration(i) * s.width
		length := min(s.width, elapsed-at)
		if i == len(s.slots)-1 {
			length = elapsed - at
		}
		if length <= 0 {
			break
		}
		slot, per := &s.slots[i], length.Seconds()
		all = append(all, Point{
			round(at.Seconds()), round(float64(slot.ok.Load()) / per), round(float64(slot.failed.Load()) / per), round(float64(slot.tokens.Load()) / per),
		})
	}
	return all
}
