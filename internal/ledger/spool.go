package ledger

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// segmentSize is where a new segment begins. A segment is read again as a whole
// after a crash, so it is small.
const segmentSize = 1 << 20

// spool is a folder of segments, which are files of frames. Appenders write to
// the newest; the ingester reads from the oldest and removes it when the store
// has all of it. How far it has come is remembered in memory and in the store:
// after a crash the whole segment is read again, and the store, which knows the
// segment by its random name, passes over what it has.
type spool struct {
	dir   string
	lock  *os.File
	log   *slog.Logger
	limit int64         // bytes
	large int64         // where a segment ends
	every time.Duration // between syncs; 0 is before append returns

	// mu is held for one write into the page cache, or one copy.
	mu       sync.Mutex
	segments []*segment // oldest first
	active   *segment   // the last of them, or nil
	next     uint64     // the next segment's number
	closed   bool

	// What former processes left is counted in. The counts of bytes say what
	// waits; that of records is off where some were found damaged.
	appended       atomic.Int64 // records
	written, taken atomic.Int64 // bytes, to the spool and to the store
	warned         atomic.Int64 // when the limit was complained of, in seconds since 1970

	clean   atomic.Bool   // the syncer sleeps until dirty
	dirty   chan struct{} // cap 1
	stop    chan struct{} // closed by close
	stopped chan struct{} // closed by syncLoop

	// notify is called after each append. It does not block.
	notify func()

	// The ingester's: the segment that it reads, and its file.
	reading     *segment
	readingFile *os.File
	// What was read last, to be used again.
	buffer  []byte
	entries []Entry
	ends    []int64
}

// segment is one file. It is kept open for appending and until it is on the
// disk, and no longer: while the store is away there may be many.
type segment struct {
	path   string
	source string // what the store knows it by

	// Guarded by spool.mu.
	size    int64 // whole records
	off     int64 // what the store has
	retired bool  // complete and on the disk

	// damaged is set if records in the middle cannot be read; the file is then
	// kept. The ingester's.
	damaged bool
	// leftover is whether a former process wrote it. Only then can the last
	// record be cut off.
	leftover bool

	syncing sync.Mutex // held for fsync and close
	synced  int64      // guarded by syncing
	// file is written to while the segment is the active one, by whoever holds
	// spool.mu; to close it and make it nil, hold syncing when it no longer is.
	file *os.File
	view fileMap // of the file
}

// parseSegment reads a segment's name; kept is whether it was damaged and is not
// read again.
func parseSegment(name string) (number uint64, source string, kept, ok bool) {
	name, kept = strings.CutSuffix(name, damagedSuffix)
	name, ok = strings.CutSuffix(name, segmentSuffix)
	digits, source, _ := strings.Cut(name, "-")
	number, err := strconv.ParseUint(digits, 16, 64)
	return number, source, kept, ok && err == nil && len(digits) == 16
}

// segmentName is a number, by which segments are sorted, and a random text: the
// store knows by it what it has, also where folders are copied or numbers begin
// again.
func segmentName(number uint64, source string) string {
	return fmt.Sprintf("%016x-%s", number, source) + segmentSuffix
}

const (
	segmentSuffix = ".seg"
	damagedSuffix = ".damaged"
)

// openSpool takes the folder, and counts what is in it.
func openSpool(dir string, every time.Duration, limit int64, log *slog.Logger) (*spool, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("cannot make the ledger's spool folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, fmt.Errorf("cannot write to the ledger's spool folder: %w", err)
	}
	if err := lockFile(lock); err != nil {
		lock.Close()
		return nil, fmt.Errorf("the ledger's spool folder %s is in use by another process (%w); end that one, or set ledger.spool to a folder of this gateway's own", dir, err)
	}
	s := &spool{dir: dir, lock: lock, log: log, limit: limit, large: segmentSize, every: every,
		dirty: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}), notify: func() {}}
	if err := s.find(); err != nil {
		lock.Close()
		return nil, fmt.Errorf("cannot read the ledger's spool: %w", err)
	}
	return s, nil
}

// find lists the segments that a former process left. The names sort by age.
func (s *spool) find() error {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		number, source, kept, ok := parseSegment(f.Name())
		if !ok {
			continue
		}
		s.next = max(s.next, number+1)
		if kept {
			continue // only its number counts: it is not used again
		}
		if source == "" {
			return fmt.Errorf("%s is of an earlier version; let that version bring it into the ledger's store, or take it out of the folder", f.Name())
		}
		if err := s.take(filepath.Join(s.dir, f.Name()), source); err != nil {
			return err
		}
	}
	return nil
}

// take takes over a segment.
func (s *spool) take(path, source string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	i, err := file.Stat()
	if err != nil {
		return err
	}
	records, size, err := countFrames(file, i.Size())
	if err != nil {
		return err
	}
	s.segments = append(s.segments, &segment{path: path, source: source, size: size, leftover: true, retired: true})
	s.appended.Add(records)
	s.written.Add(size)
	return nil
}

// frames are buffers for one frame each.
var frames = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

var errClosed = errors.New("ledger: the room is closed")

func (s *spool) append(e *Entry) error {
	if err := e.check(); err != nil {
		return err
	}
	b := frames.Get().(*[]byte)
	defer frames.Put(b)
	*b = appendFrame((*b)[:0], e)
	seg, full, err := s.write(*b)
	if err != nil {
		return err
	}
	if full != nil {
		full.leave()
	}
	if s.every == 0 {
		err := s.sync(seg)
		if full != nil {
			err = errors.Join(err, s.sync(full))
		}
		if err != nil {
			return fmt.Errorf("ledger: the entry is written, but not yet on the disk: %w", err)
		}
	} else if s.clean.Load() && s.clean.CompareAndSwap(true, false) {
		poke(s.dirty)
	}
	s.notify()
	if waiting := s.waiting(); waiting > s.limit {
		s.complain(waiting)
	}
	return nil
}

// write puts a frame behind the others. full is the segment that was the active
// one before, if there is a new one.
func (s *spool) write(frame []byte) (seg, full *segment, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, errClosed
	}
	if s.active == nil || s.active.size >= s.large {
		full = s.active
		if err := s.begin(); err != nil {
			return nil, nil, fmt.Errorf("ledger: cannot begin a segment of the spool: %w", err)
		}
	}
	seg = s.active
	if usable, err := seg.add(frame); err != nil {
		if !usable {
			s.active = nil
		}
		return nil, nil, fmt.Errorf("ledger: cannot write to the spool: %w", err)
	}
	seg.size += int64(len(frame))
	s.written.Add(int64(len(frame)))
	s.appended.Add(1)
	return seg, full, nil
}

// waiting is how many bytes the store does not have.
func (s *spool) waiting() int64 { return s.written.Load() - s.taken.Load() }

// begin makes a new segment the active one.
func (s *spool) begin() error {
	source := rand.Text()
	path := filepath.Join(s.dir, segmentName(s.next, source))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o640)
	if err != nil {
		return err
	}
	s.next++
	s.active = &segment{path: path, source: source, file: f}
	if s.every > 0 { // else each frame waits for the disk anyway
		s.active.view = openMap(f, s.large)
	}
	s.segments = append(s.segments, s.active)
	return nil
}

// complain says once a minute that the spool is too large.
func (s *spool) complain(waiting int64) {
	now := time.Now().Unix()
	last := s.warned.Load()
	if now-last < 60 || !s.warned.CompareAndSwap(last, now) {
		return
	}
	s.log.Error("the ledger's spool is larger than ledger.spool_limit; nothing is lost, but the disk may fill up: see to the ledger's store",
		"folder", s.dir, "bytes", waiting, "limit", s.limit)
}

// syncLoop writes to the disk what was appended, every so often.
func (s *spool) syncLoop() {
	defer close(s.stopped)
	s.clean.Store(true)
	for s.every > 0 {
		select {
		case <-s.dirty:
		case <-s.stop:
			return
		}
		select {
		case <-time.After(s.every):
		case <-s.stop:
		}
		s.clean.Store(true) // before the disk is asked: who appends meanwhile must be told of, too
		if err := s.syncAll(); err != nil {
			s.log.Error("the ledger's spool cannot be written to the disk; a loss of power would lose its latest entries", "err", err)
			poke(s.dirty) // try again
		}
	}
}

// syncAll writes to the disk what the store does not have, and closes the files
// of segments that are complete.
func (s *spool) syncAll() error {
	s.mu.Lock()
	var behind []*segment
	for _, seg := range s.segments {
		if !seg.retired && (seg.off < seg.size || seg != s.active) {
			behind = append(behind, seg)
		}
	}
	s.mu.Unlock()
	var all error
	for _, seg := range behind {
		all = errors.Join(all, s.sync(seg))
	}
	return all
}

// sync writes a segment to the disk. Those who come while it is being written
// wait, and find that theirs was, too.
func (s *spool) sync(seg *segment) error {
	need, complete := s.state(seg)
	seg.syncing.Lock()
	defer seg.syncing.Unlock()
	if seg.file == nil {
		return nil // on the disk, or in the store
	}
	if complete {
		if err := seg.trim(need); err != nil {
			return err
		}
	}
	if seg.synced < need {
		have, err := s.flush(seg)
		if err != nil {
			return err
		}
		if seg.synced == 0 {
			if err := syncFolder(s.dir); err != nil { // the file's name, too, must outlast a loss of power
				return err
			}
		}
		seg.synced = have
	}
	if !complete {
		return nil
	}
	err := seg.file.Close()
	seg.file = nil
	s.mu.Lock()
	seg.retired = true
	s.mu.Unlock()
	return err
}

// state is how large the segment is, and whether that is all it will be.
func (s *spool) state(seg *segment) (size int64, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return seg.size, seg != s.active
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// seal refuses what comes later.
func (s *spool) seal() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
}

// close gives the folder back. The ingester must have ended.
func (s *spool) close() error {
	close(s.stop)
	<-s.stopped
	s.mu.Lock()
	s.active = nil // so that all are complete
	s.mu.Unlock()
	all := s.syncAll()
	if s.readingFile != nil {
		s.readingFile.Close()
	}
	return errors.Join(all, s.lock.Close())
}
