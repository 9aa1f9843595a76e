package journal

import (
	"runtime"
	"sync"
	"time"
)

// Records are entered into metrics, totals, logs and traces in batches, some
// tens of milliseconds after they were closed: entering one touches a hundred
// scattered words, which costs a request several times less when it is done for
// many requests in a row. Whoever looks at the results has what is waiting
// entered first, so nobody can see a request's end and not find it counted.
const (
	// digestAfter is the longest that a record waits.
	digestAfter = 50 * time.Millisecond
	// digestAt is the number of waiting records at which a batch is begun early.
	digestAt = 512
	// digestMax bounds the records that wait; whoever closes one more enters
	// the batch itself.
	digestMax = 8 << 10
	// digestRun is how many are entered before others get the processor: where all
	// are busy, the log's writer would else find its ring overrun by one batch.
	digestRun = 64
)

// entry is a record that waits, with the plan it was made under.
type entry struct {
	plan *Plan
	rec  *Record
}

// digester collects records and enters them.
type digester struct {
	mu      sync.Mutex // guards waiting and armed; held for an append
	waiting []entry
	armed   bool
	timer   *time.Timer
	ended   bool

	turn  sync.Mutex // held while a batch is entered, so that batches keep order
	spare []entry
	enter func(*Plan, *Record)
}

func (d *digester) init(enter func(*Plan, *Record)) {
	d.enter = enter
	d.timer = time.AfterFunc(time.Hour, d.digest)
	d.timer.Stop()
}

// add leaves a record to be entered.
func (d *digester) add(p *Plan, r *Record) {
	d.mu.Lock()
	d.waiting = append(d.waiting, entry{p, r})
	n, arm := len(d.waiting), !d.armed
	d.armed = true
	inline := n >= digestMax || d.ended
	d.mu.Unlock()
	switch {
	case inline:
		d.digest()
	case arm:
		d.timer.Reset(digestAfter)
	case n == digestAt:
		d.timer.Reset(0)
	}
}

// digest enters everything that waits; when it returns, all that was added
// before the call has been entered.
func (d *digester) digest() {
	d.turn.Lock()
	defer d.turn.Unlock()
	d.mu.Lock()
	batch := d.waiting
	d.waiting, d.armed = d.spare[:0], false
	d.mu.Unlock()
	for i := range batch {
		d.enter(batch[i].plan, batch[i].rec)
		batch[i] = entry{}
		if i%digestRun == digestRun-1 {
			runtime.Gosched()
		}
	}
	d.spare = batch[:0]
}

// end enters what waits, and every later record at once.
func (d *digester) end() {
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	d.timer.Stop()
	d.digest()
}
