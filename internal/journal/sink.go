package journal

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// patience is how long an error's line waits for room in a full ring, and
	// how long the writer may be stuck in one write before nobody waits for it.
	patience = 50 * time.Millisecond
	// gathering is how long the writer lets lines come together. To wake it costs
	// a request more than to encode its line does; lines that fill half the ring
	// wake it earlier.
	gathering = 100 * time.Millisecond
	// maxPooled and maxKept are the largest buffers worth keeping.
	maxPooled = 16 << 10
	maxKept   = 4 << 20
)

// sink is the log's way out: a bounded number of lines and one goroutine that
// writes them in batches. Whoever puts a line in never waits for the disk: a
// blocking send would only move the disk's stall into the requests.
//
//	put ──▶ pending ──take──▶ batch ──write──▶ target (a file, or standard error)
//
// A line is encoded in a buffer of the caller's and copied: the two large
// buffers change places, so that none travels from one processor to another,
// which would cost more than the line itself.
type sink struct {
	text bool
	// limit is how many lines may be pending. A reserve on top of it is for
	// errors alone, so that a flood of others does not displace them.
	limit, reserve int
	pool           sync.Pool // of *line

	mu      sync.Mutex // held for a copy, never over I/O
	pending []byte
	count   [classes]int // lines pending
	idle    bool         // the writer waits to be woken
	closed  bool

	stop chan struct{} // closed by shutdown: write what is pending and end
	done chan struct{} // closed by run
	wake chan struct{} // a line came while the writer was idle
	full chan struct{} // half the ring is in use

	path     string
	fallback io.Writer              // takes what is logged after shutdown
	current  atomic.Pointer[target] // set by run only
	next     atomic.Pointer[target] // set by reopen, taken by run
	busy     atomic.Int64           // when the present write began, 0 if none
	abandon  atomic.Bool            // shutdown's time is over

	dropped     [classes]prometheus.Counter
	writeErrors prometheus.Counter
	notify      func(string)

	// Owned by run.
	batch   []byte
	inBatch [classes]int
	failing bool
	lost    int
	partial bool // the last write ended within a line
}

// target is where lines go; file is nil if it is not ours to close.
type target struct {
	w    io.Writer
	file *os.File
}

func newSink(cfg LogConfig, output io.Writer, m *instruments, notify func(string)) (*sink, error) {
	s := &sink{
		text:  cfg.Format == formatText,
		limit: cfg.Buffer, reserve: max(8, cfg.Buffer/8),
		stop: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1), full: make(chan struct{}, 1),
		path: cfg.Path, fallback: output,
		dropped: m.logDropped, writeErrors: m.logErrors, notify: notify,
	}
	s.pool.New = func() any { return &line{b: make([]byte, 0, 1536)} }
	if output == nil {
		s.fallback = stderr()
	}
	t := &target{w: s.fallback}
	if s.path != "" {
		f, err := openLog(s.path)
		if err != nil {
			return nil, err
		}
		t = &target{w: f, file: f}
	}
	s.current.Store(t)
	go s.run()
	return s, nil
}

// openLog opens the log's file for appending. A named pipe is opened for
// reading too: to open it for writing alone would wait until a reader comes.
func openLog(path string) (*os.File, error) {
	flags := os.O_APPEND | os.O_CREATE | os.O_WRONLY
	if i, err := os.Stat(path); err == nil && i.Mode()&os.ModeNamedPipe != 0 {
		flags = os.O_RDWR
	}
	f, err := os.OpenFile(path, flags, 0o640)
	if err != nil {
		return nil, fmt.Errorf("cannot open the log: %w", err)
	}
	return f, nil
}

// line lends an empty line.
func (s *sink) line() *line {
	l := s.pool.Get().(*line)
	*l = line{b: l.b[:0], text: s.text}
	return l
}

func (s *sink) giveBack(l *line) {
	if cap(l.b) <= maxPooled {
		s.pool.Put(l)
	}
}

// put hands the line to the writer, or drops and counts it. It reports false
// if the sink has been shut down; the line is then still the caller's.
func (s *sink) put(l *line) bool {
	ok, open := s.offer(l)
	if open && !ok && l.class == classError {
		ok, open = s.insist(l)
	}
	if !open {
		return false
	}
	if !ok {
		s.dropped[l.class].Inc()
	}
	s.giveBack(l)
	return true
}

// offer copies the line if there is room for its class.
func (s *sink) offer(l *line) (ok, open bool) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false, false
	}
	room := s.limit
	if l.class == classError {
		room += s.reserve
	}
	n := 0
	for _, c := range s.count {
		n += c
	}
	if n >= room {
		s.mu.Unlock()
		return false, true
	}
	s.pending = append(s.pending, l.b...)
	s.count[l.class]++
	wake := s.idle
	s.idle = false
	s.mu.Unlock()
	if wake {
		s.poke()
	}
	if n+1 == max(1, s.limit/2) {
		select {
		case s.full <- struct{}{}:
		default:
		}
	}
	return true, true
}

func (s *sink) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// insist waits a bounded time for room, and only while the writer gets on: if
// the disk is stuck, then waiting would not help this line and would stall the
// request that it tells of.
func (s *sink) insist(l *line) (ok, open bool) {
	for deadline := clock() + int64(patience); ; {
		now := clock()
		since := s.busy.Load()
		if now > deadline || (since != 0 && now-since > int64(patience)) {
			return false, true
		}
		time.Sleep(patience / 50)
		if ok, open = s.offer(l); ok || !open {
			return ok, open
		}
	}
}

// run is the writer. It owns the batch, and closes the target when it ends.
func (s *sink) run() {
	defer close(s.done)
	for {
		if s.take() {
			s.write()
			s.gather()
			continue
		}
		select {
		case <-s.wake:
			s.swap() // reopen may have woken us
			s.gather()
			continue
		case <-s.stop:
		}
		// Nothing can have become pending after the stop but what came before it.
		if !s.take() {
			break
		}
		s.write()
	}
	s.swap()
	if t := s.current.Load(); t.file != nil {
		t.file.Close()
	}
}

// gather lets lines come together, until there are many or the end has come.
func (s *sink) gather() {
	enough := time.NewTimer(gathering)
	defer enough.Stop()
	select {
	case <-s.stop:
	case <-s.full:
	case <-enough.C:
	}
}

// take makes what is pending the batch, and says whether there was anything.
func (s *sink) take() bool {
	s.batch = s.batch[:0]
	if cap(s.batch) > maxKept {
		s.batch = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) == 0 {
		s.idle = true
		return false
	}
	s.batch, s.pending = s.pending, s.batch
	s.inBatch, s.count = s.count, [classes]int{}
	return true
}

func (s *sink) write() {
	s.swap()
	if s.abandon.Load() {
		s.countLost()
		return
	}
	out := s.batch
	if s.partial {
		// A broken write left half a line behind, which the next must not join.
		out = append([]byte{'\n'}, out...)
	}
	s.busy.Store(clock())
	n, err := s.current.Load().w.Write(out)
	s.busy.Store(0)
	if err == nil {
		s.partial = false
		s.recovered()
		return
	}
	s.writeErrors.Inc()
	if n > 0 {
		s.partial = out[n-1] != '\n'
	}
	s.countLost()
	if !s.failing {
		s.failing = true
		s.notify(fmt.Sprintf("the log cannot be written (%v); lines are dropped and counted until it can", err))
	}
}

func (s *sink) recovered() {
	if s.failing {
		s.notify(fmt.Sprintf("the log can be written again; %d lines were lost", s.lost))
	}
	s.failing, s.lost = false, 0
}

// countLost counts a batch that was not written, or not all of it.
func (s *sink) countLost() {
	for c, n := range s.inBatch {
		s.dropped[c].Add(float64(n))
		s.lost += n
	}
}

// swap takes the target that reopen has prepared.
func (s *sink) swap() {
	if t := s.next.Swap(nil); t != nil {
		old := s.current.Swap(t)
		s.partial = false
		if old.file != nil {
			old.file.Close()
		}
	}
}

// reopen prepares a new target; the writer takes it before its next write.
func (s *sink) reopen() error {
	if s.path == "" {
		return nil
	}
	f, err := openLog(s.path)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return f.Close()
	}
	if unused := s.next.Swap(&target{f, f}); unused != nil {
		unused.file.Close()
	}
	s.poke()
	return nil
}

// shutdown writes what is pending and ends the writer. When ctx ends first, the
// write in progress is broken off where the system allows it, and what is left
// is counted as dropped.
func (s *sink) shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.stop)
	}
	s.mu.Unlock()
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
	}
	s.abandon.Store(true)
	if d, ok := s.current.Load().w.(interface{ SetWriteDeadline(time.Time) error }); ok {
		if d.SetWriteDeadline(time.Now()) == nil {
			<-s.done
		}
	}
	return fmt.Errorf("the log could not be written out in time: %w", ctx.Err())
}

var clockBase = time.Now()

// clock is a monotonic reading, never 0.
func clock() int64 { return int64(time.Since(clockBase)) + 1 }

func notifyStderr(message string) {
	l := line{}
	l.begin(time.Now(), 8, message, "headgate", "")
	l.str("trace_id", "")
	l.str("span_id", "")
	l.end()
	// There is nobody left to tell if this fails.
	_, _ = stderr().Write(l.b)
}
