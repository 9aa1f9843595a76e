package ledger

import (
	"bytes"
	"fmt"
	"io"
	"os"
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

// countFrames counts the whole frames up to end, and finds where they end: behind
// the last of them, or behind what is left of one that the process was killed
// within. The zeros that come then were written ahead, and nothing ever stood
// there.
func countFrames(r io.ReaderAt, end int64) (n, used int64, err error) {
	buffer := make([]byte, viewSize)
	for off := int64(0); off < end; {
		w, err := readWindow(r, buffer, off, end)
		if err != nil {
			return 0, 0, err
		}
		for len(w.bytes) > 0 {
			b := w.bytes
			payload, size, damage := w.next()
			if size == 0 {
				break
			}
			if damage {
				if rest := bytes.TrimRight(b[:size], "\x00"); len(rest) > 0 {
					used = off + int64(len(rest))
				}
				off += int64(size)
				continue
			}
			off += int64(size)
			used = off
			if _, err := decodePayload(payload); err == nil {
				n++
			}
		}
	}
	return n, used, nil
}

// batch is what was read of a segment at once. Its slices are the spool's, until
// it reads again.
type batch struct {
	Batch
	segment *segment
	end     int64 // where it ends in the segment
}

// read reads up to most entries that the store does not have. There is nothing
// more if the batch has no segment; one without entries is nothing but damage.
func (s *spool) read(most int) (batch, error) {
	clear(s.entries) // or they would keep their texts
	seg, off, end := s.oldest()
	if seg == nil {
		return batch{}, nil
	}
	if s.buffer == nil {
		s.buffer = make([]byte, viewSize)
	}
	if err := s.open(seg); err != nil {
		return batch{}, err
	}
	b := batch{segment: seg, end: off, Batch: Batch{Source: seg.source, Entries: s.entries[:0], Ends: s.ends[:0]}}
	err := s.readFrom(&b, end, most)
	s.entries, s.ends = b.Entries, b.Ends
	return b, err
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

func (s *spool) readFrom(b *batch, end int64, most int) error {
	for b.end < end && len(b.Entries) < most {
		w, err := readWindow(s.readingFile, s.buffer, b.end, end)
		if err != nil {
			return err
		}
		for len(w.bytes) > 0 && len(b.Entries) < most {
			payload, size, damage := w.next()
			if size == 0 {
				break
			}
			at := b.end
			b.end += int64(size)
			if damage {
				s.report(b.segment, at, size, b.end == end)
				continue
			}
			e, err := decodePayload(payload)
			if err != nil {
				b.segment.damaged = true
				s.log.Error("a record of the ledger's spool was passed over; its segment is kept", "segment", b.segment.path, "offset", at, "err", err)
				continue
			}
			b.Entries, b.Ends = append(b.Entries, e), append(b.Ends, b.end)
		}
	}
	return nil
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

// oldest is the first segment with something to read, from off to end. It
// removes those before it, which the store has.
func (s *spool) oldest() (seg *segment, off, end int64) {
	for {
		s.mu.Lock()
		if len(s.segments) == 0 {
			s.mu.Unlock()
			return nil, 0, 0
		}
		seg = s.segments[0]
		off, end = seg.off, seg.size
		finished := off == end && (seg != s.active || s.closed)
		if finished {
			s.segments = s.segments[1:]
		}
		s.mu.Unlock()
		switch {
		case finished:
			s.remove(seg)
		case off == end:
			return nil, 0, 0
		default:
			return seg, off, end
		}
	}
}

// done notes that the store has the batch.
func (s *spool) done(b batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken.Add(b.end - b.segment.off)
	b.segment.off = b.end
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
