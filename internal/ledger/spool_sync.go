package ledger

import (
	"errors"
	"os"
	"time"
)

// keep sees to it that what was written comes to the disk in time.
func (s *spool) keep(w *written) error {
	switch {
	case s.every == 0 && w.complete != nil:
		return errors.Join(s.sync(w.to), s.sync(w.complete))
	case s.every == 0:
		return s.sync(w.to)
	case s.clean.Load() && s.clean.CompareAndSwap(true, false):
		poke(s.dirty)
	}
	return nil
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
