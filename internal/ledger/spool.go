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

// segmentSize is where a new segment begins. A segment is brought over at once
// when it is complete, so it holds as much as makes a batch cheap; and it is read
// again as a whole after a crash, so it is small.
const segmentSize = 4 << 20

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
	number   uint64     // the next segment's
	closed   bool
	// What has come into the spool and into the store, in bytes and records. What
	// former processes left is counted in.
	written, taken        int64
	records, recordsTaken int64

	warned atomic.Int64 // when the limit was complained of, in seconds since 1970

	clean   atomic.Bool   // the syncer sleeps until dirty
	dirty   chan struct{} // cap 1
	stop    chan struct{} // closed by close
	stopped chan struct{} // closed by syncLoop

	// notify is called after each append, and told whether a segment has become
	// complete. It does not block.
	notify func(complete bool)

	// The ingester's: the segment that it reads, and its file.
	reading     *segment
	readingFile *os.File
	buffer      []byte // of viewSize
	decoder     decoder
}

// segment is one file. It is kept open for appending and until it is on the
// disk, and no longer: while the store is away there may be many.
type segment struct {
	path   string
	source string // what the store knows it by

	// Guarded by spool.mu.
	size, records     int64     // whole records, in bytes and in number
	off, recordsTaken int64     // what the store has of them
	since             time.Time // what the store does not have came no earlier
	retired           bool      // complete and on the disk

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
		dirty: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}), notify: func(bool) {}}
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
		s.number = max(s.number, number+1)
		if kept {
			continue // only its number counts: it is not used again
		}
		if source == "" {
			return errEarlier(f.Name())
		}
		if err := s.take(filepath.Join(s.dir, f.Name()), source); err != nil {
			return err
		}
	}
	return nil
}

// errEarlier keeps a spool from being opened whose records would be lost.
func errEarlier(name string) error {
	return fmt.Errorf("%s is of an earlier version; let that version bring it into the ledger's store, or take it out of the folder", name)
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
	var begin [len(earlierMagic)]byte
	if _, err := file.ReadAt(begin[:], 0); err == nil && string(begin[:]) == earlierMagic {
		return errEarlier(filepath.Base(path))
	}
	records, size, err := countFrames(file, i.Size())
	if err != nil {
		return err
	}
	s.segments = append(s.segments, &segment{path: path, source: source, size: size, records: records, since: time.Now(), leftover: true, retired: true})
	s.records += records
	s.written += size
	return nil
}

var framers = sync.Pool{New: func() any { return new(framer) }}

var errClosed = errors.New("ledger: the room is closed")

func (s *spool) append(e *Entry) error {
	if err := e.check(); err != nil {
		return err
	}
	f := framers.Get().(*framer)
	w, err := s.write(f.write(e))
	framers.Put(f)
	if err != nil {
		return err
	}
	if w.complete != nil {
		w.complete.leave()
	}
	if err := s.keep(&w); err != nil {
		return fmt.Errorf("ledger: the entry is written, but not yet on the disk: %w", err)
	}
	s.notify(w.complete != nil)
	if w.waiting > s.limit {
		s.complain(w.waiting)
	}
	return nil
}

// written is what has become of a frame.
type written struct {
	to       *segment
	complete *segment // the one that was active before, if there is a new one
	waiting  int64    // how many bytes the store does not have
}

// write puts a frame behind the others.
func (s *spool) write(frame []byte) (w written, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return w, errClosed
	}
	if s.active == nil || s.active.size >= s.large {
		w.complete = s.active
		if err := s.begin(); err != nil {
			return w, fmt.Errorf("ledger: cannot begin a segment of the spool: %w", err)
		}
	}
	seg := s.active
	if usable, err := seg.add(frame); err != nil {
		if !usable {
			s.active = nil
		}
		return w, fmt.Errorf("ledger: cannot write to the spool: %w", err)
	}
	if seg.off == seg.size {
		seg.since = time.Now()
	}
	seg.size += int64(len(frame))
	seg.records++
	s.written += int64(len(frame))
	s.records++
	w.to, w.waiting = seg, s.written-s.taken
	return w, nil
}

// lag is what the store does not have.
func (s *spool) lag() (l Lag) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seg := range s.segments {
		if seg.off < seg.size {
			return Lag{Records: s.records - s.recordsTaken, Bytes: s.written - s.taken, Age: time.Since(seg.since)}
		}
	}
	return Lag{}
}

// come is how many bytes have come into the spool, in all or in segments that are
// complete.
func (s *spool) come(all bool) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all || s.active == nil {
		return s.written
	}
	return s.written - s.active.size
}

// has is whether the store has so much of what has come, in bytes.
func (s *spool) has(come int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken >= come
}

// begin makes a new segment the active one.
func (s *spool) begin() error {
	source := rand.Text()
	path := filepath.Join(s.dir, segmentName(s.number, source))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o640)
	if err != nil {
		return err
	}
	s.number++
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
