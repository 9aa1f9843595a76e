package ledger

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"os"
	"time"
)

// viewSize is how much of a segment is read at once: more than the largest
// frame, so that a frame that ends behind the window ends the reading only where
// the segment ends, too.
const viewSize = 2 * (headerSize + maxPayload)

// window is a part of a segment.
type window struct {
	bytes []byte
	last  bool // nothing comes behind it
}

// readWindow reads the segment from off into the buffer, which has viewSize
// bytes; end is where the segment ends.
func readWindow(r io.ReaderAt, buffer []byte, off, end int64) (window, error) {
	n := min(end-off, int64(viewSize))
	b := buffer[:n]
	if got, err := r.ReadAt(b, off); err != nil && int64(got) < n {
		return window{}, fmt.Errorf("cannot read the spool: %w", err)
	}
	return window{b, off+n == end}, nil
}

// next finds what comes first in the window: a frame, or damage of so many
// bytes. A size of 0 says that more must be read.
func (w *window) next() (payload []byte, size int, damage bool) {
	payload, size, is := cutFrame(w.bytes)
	switch {
	case is == whole:
		w.bytes = w.bytes[size:]
		return payload, size, false
	case is == partial && !w.last:
		return nil, 0, false
	}
	// Damage reaches to where a whole frame begins, or may begin.
	for size = 0; len(w.bytes) > 0; {
		n := skip(w.bytes)
		w.bytes, size = w.bytes[n:], size+n
		if _, _, is = cutFrame(w.bytes); is == whole || is == partial && !w.last {
			break
		}
	}
	return nil, size, true
}

// frame is a record, or damage, in a segment.
type frame struct {
	at, end int64
	payload []byte // of a record
	damage  []byte // else
}

// framesOf are those of a segment from off to end. The bytes are parts of the
// buffer. An error is the last thing that comes.
func framesOf(r io.ReaderAt, buffer []byte, off, end int64) iter.Seq2[frame, error] {
	return func(yield func(frame, error) bool) {
		for off < end {
			w, err := readWindow(r, buffer, off, end)
			if err != nil {
				yield(frame{}, err)
				return
			}
			for b := w.bytes; len(b) > 0; b = w.bytes {
				payload, size, damage := w.next()
				if size == 0 {
					break
				}
				f := frame{at: off, end: off + int64(size), payload: payload}
				if off = f.end; damage {
					f.damage = b[:size]
				}
				if !yield(f, nil) {
					return
				}
			}
		}
	}
}

// countFrames counts the records up to end, and finds where they end: behind the
// last frame, or behind what is left of one that the process was killed within.
// The zeros that come then were written ahead, and nothing ever stood there.
func countFrames(r io.ReaderAt, end int64) (n, used int64, err error) {
	var d decoder
	var rec Record
	for f, err := range framesOf(r, make([]byte, viewSize), 0, end) {
		if err != nil {
			return 0, 0, err
		}
		if f.damage != nil {
			if rest := bytes.TrimRight(f.damage, "\x00"); len(rest) > 0 {
				used = f.at + int64(len(rest))
			}
			continue
		}
		used = f.end
		if d.decode(f.payload, &rec) == nil {
			n++
		}
	}
	return n, used, nil
}

// batch is what a segment has that the store does not.
type batch struct {
	Batch
	segment *segment
	// Where it ends, and how many records it and all that come before it are.
	end, records int64
	read         time.Time // what the segment has beside it came later
}

// next is the oldest batch. There is none, and it has no segment, if the store has
// so many bytes of what has come.
func (s *spool) next(come int64) (batch, error) {
	b, off := s.oldest(come)
	if b.segment == nil {
		return batch{}, nil
	}
	if s.buffer == nil {
		s.buffer = make([]byte, viewSize)
	}
	if err := s.open(b.segment); err != nil {
		return batch{}, err
	}
	b.Batch = Batch{b.segment.source, func(after int64) iter.Seq2[*Record, error] { return s.recordsOf(b.segment, off, b.end, after) }}
	return b, nil
}

// open opens the segment for reading, and closes the one that was read before.
func (s *spool) open(seg *segment) error {
	if s.reading == seg {
		return nil
	}
	f, err := os.Open(seg.path)
	if err != nil {
		return fmt.Errorf("cannot read the spool: %w", err)
	}
	if s.readingFile != nil {
		s.readingFile.Close()
	}
	s.reading, s.readingFile = seg, f
	return nil
}

// recordsOf are those of the segment from off to end which end behind the place.
func (s *spool) recordsOf(seg *segment, off, end, place int64) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		s.decoder.begin()
		defer s.decoder.end()
		var r Record
		for f, err := range framesOf(s.readingFile, s.buffer, off, end) {
			switch {
			case err != nil:
				yield(nil, err)
				return
			case f.damage != nil:
				s.report(seg, f.at, len(f.damage), f.end == end)
				continue
			case f.end <= place:
				continue
			}
			if err := s.decoder.decode(f.payload, &r); err != nil {
				seg.damaged = true
				s.log.Error("a record of the ledger's spool was passed over; its segment is kept", "segment", seg.path, "offset", f.at, "err", err)
				continue
			}
			if r.End = f.end; !yield(&r, nil) {
				return
			}
		}
	}
}

// report tells of bytes that are no records. At the end of a segment that a
// former process left they are a record that it was killed within: Append had
// not returned, so nobody was told that it is in the ledger.
func (s *spool) report(seg *segment, at int64, size int, last bool) {
	if last && seg.leftover {
		s.log.Warn("the last record of the ledger's spool was cut off when the process ended; it had not been confirmed, and is dropped",
			"segment", seg.path, "offset", at, "bytes", size)
		return
	}
	seg.damaged = true
	s.log.Error("a part of the ledger's spool is damaged and was passed over; its segment is kept", "segment", seg.path, "offset", at, "bytes", size)
}

// oldest is the first segment's batch, and where it begins.
func (s *spool) oldest(come int64) (b batch, off int64) {
	s.sweep()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= come || len(s.segments) == 0 {
		return batch{}, 0
	}
	seg := s.segments[0]
	return batch{segment: seg, end: seg.size, records: seg.records, read: time.Now()}, seg.off
}

// sweep removes the first segments, as long as they are complete and the store
// has them.
func (s *spool) sweep() {
	for {
		s.mu.Lock()
		if len(s.segments) == 0 {
			s.mu.Unlock()
			return
		}
		seg := s.segments[0]
		finished := seg.off == seg.size && (seg != s.active || s.closed)
		if finished {
			s.segments = s.segments[1:]
		}
		s.mu.Unlock()
		if !finished {
			return
		}
		s.remove(seg)
	}
}

// done notes that the store has the batch.
func (s *spool) done(b batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seg := b.segment
	s.taken += b.end - seg.off
	s.recordsTaken += b.records - seg.recordsTaken
	seg.off, seg.recordsTaken, seg.since = b.end, b.records, b.read
}

// remove takes a segment away that the store has. A damaged one is kept under
// another name, for whoever wants to look into it.
func (s *spool) remove(seg *segment) {
	seg.syncing.Lock()
	if seg.file != nil {
		seg.view.close()
		seg.file.Close()
		seg.file = nil
	}
	seg.syncing.Unlock()
	if s.reading == seg {
		s.readingFile.Close()
		s.reading, s.readingFile = nil, nil
	}
	var err error
	if seg.damaged {
		err = os.Rename(seg.path, seg.path+damagedSuffix)
	} else {
		err = os.Remove(seg.path)
	}
	if err != nil {
		// It will be read again at the next start, and passed over by the store.
		s.log.Error("a segment of the ledger's spool cannot be removed", "segment", seg.path, "err", err)
	}
}
