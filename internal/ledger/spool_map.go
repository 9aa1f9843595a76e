package ledger

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
)

// A write(2) costs more than all the rest of Append. So the active segment's
// file is mapped where the system can, and frames are copied into the map: they
// are in the page cache then as if they had been written, and outlast a kill as
// well. The map is a short cut and nothing more: wherever it does not serve, the
// frame is written, into the same file at the same place.
//
//	frames ── seg.size │ pages in memory ── ready │ zeros ── reserved │ no file yet
//
// Zeros are written ahead, which takes the disk's room for the frames to come: a
// full disk shows there, as an error. Pages are brought into memory by a system
// call, not by touching them: a goroutine that waits for the disk in a page fault
// holds up a processor, and every collection of garbage.
//
// Both cost less by the byte the more is done at once, since the kernel's own
// structures are cold by the next time. So steps are small after a sync, which
// writes to the disk what was made ready in vain, and double until the next one.
const (
	// A step is how much is made ready at once, in bytes. At rest the map has no
	// more than the largest in the process's memory.
	firstStep, largestStep = 16 << 10, 256 << 10
	// aheadSteps is how many steps are written ahead at once, and largestAhead how
	// many bytes.
	aheadSteps   = 4
	largestAhead = aheadSteps * largestStep
	// releaseEvery is how much is complete, in bytes, when it is taken out of the
	// process between syncs.
	releaseEvery = 1 << 20
)

var pageSize = int64(os.Getpagesize())

// pageUp and pageDown are the ends of the page that the byte is in.
func pageUp(n int64) int64   { return (n + pageSize - 1) &^ (pageSize - 1) }
func pageDown(n int64) int64 { return n &^ (pageSize - 1) }

// fileMap is a segment's file in memory. Like the file, it belongs to whoever
// holds spool.mu while the segment is the active one, and then to whoever holds
// segment.syncing.
type fileMap struct {
	bytes    []byte // nil where frames are written
	usual    int64  // where the segment ends but for its last frame
	reserved int64  // where the file ends, if that is behind the last frame
	ready    int64  // up to here pages are in memory, and can be changed
	step     int64  // how much is made ready next
	released int64  // up to here they are out of the process
	// paused is set while the file is written to the disk. That protects its
	// pages again, and to change one would wait for the disk.
	paused bool
}

// openMap maps the file of a segment that ends with the first frame at or behind
// the size. Where that fails the map is empty.
func openMap(f *os.File, size int64) fileMap {
	b, err := mapFile(f, pageUp(size+int64(headerSize+maxPayload)))
	if err != nil {
		return fileMap{}
	}
	return fileMap{bytes: b, usual: pageUp(size), step: firstStep}
}

func (m *fileMap) close() {
	if m.bytes != nil {
		unmapFile(m.bytes)
		m.bytes = nil
	}
}

// pause begins a time in which frames are written.
func (m *fileMap) pause() { m.paused, m.ready, m.step = true, 0, firstStep }

// resume ends it.
func (m *fileMap) resume(size int64) {
	m.paused = false
	m.release(pageDown(size))
}

// release leaves what is complete to the page cache alone. To take pages out of
// the process interrupts its other processors, which is too dear to do often.
func (m *fileMap) release(upTo int64) {
	if m.bytes != nil && upTo > m.released {
		release(m.bytes[m.released:upTo])
		m.released = upTo
	}
}

// prepare makes ready what a frame from size to end needs, and some more.
func (m *fileMap) prepare(f *os.File, size, end int64) error {
	if end > m.reserved {
		from := max(m.reserved, size) // frames were written meanwhile, perhaps
		to := max(min(pageDown(from)+aheadSteps*m.step, m.usual), pageUp(end))
		if _, err := f.WriteAt(zeros[:to-from], from); err != nil {
			return err
		}
		m.reserved = to
	}
	at := pageDown(size)
	to := max(min(at+m.step, m.reserved), pageUp(end))
	if err := populate(m.bytes[at:to]); err != nil {
		return err
	}
	m.ready, m.step = to, min(2*m.step, largestStep)
	if at-m.released >= releaseEvery {
		m.release(at)
	}
	return nil
}

// zeros are what is written ahead, or the largest frame and its page.
var zeros [largestAhead + 2*maxPayload]byte

// add puts a frame behind the others. Whether the segment can take more is
// reported with an error.
func (seg *segment) add(frame []byte) (usable bool, err error) {
	m := &seg.view
	end := seg.size + int64(len(frame))
	if end > m.ready && m.bytes != nil && !m.paused {
		if err := m.prepare(seg.file, seg.size, end); err != nil {
			// The disk is full, perhaps; the write will tell. It may have the room
			// that was taken ahead, if that can be given back.
			m.close()
			_ = seg.file.Truncate(seg.size)
			m.reserved = 0
		}
	}
	if m.bytes == nil || end > m.ready {
		return seg.write(frame)
	}
	if err := copyFrame(m.bytes[seg.size:end], frame); err != nil {
		// What someone cut away is zeros again, which the reader reports.
		m.close()
		return false, errors.Join(err, seg.file.Truncate(seg.size))
	}
	return true, nil
}

// write puts a frame behind the others by a system call.
func (seg *segment) write(frame []byte) (usable bool, err error) {
	n, err := seg.file.WriteAt(frame, seg.size)
	if err == nil {
		return true, nil
	}
	// Half a frame must not stand before the next one. If it cannot be taken
	// back, nothing comes after it.
	return n == 0 || seg.file.Truncate(seg.size) == nil, err
}

// leave takes a segment that is complete out of the process's memory, unless
// someone has it in hand who will.
func (seg *segment) leave() {
	if seg.syncing.TryLock() {
		seg.view.close()
		seg.syncing.Unlock()
	}
}

// trim takes back what was reserved behind the last frame, once there is nothing
// to come.
func (seg *segment) trim(size int64) error {
	seg.view.close()
	if seg.view.reserved <= size {
		return nil
	}
	seg.view.reserved = 0
	return seg.file.Truncate(size)
}

// flush writes what there is of the segment to the disk, and says how much that
// is. The caller holds syncing.
func (s *spool) flush(seg *segment) (size int64, err error) {
	s.mu.Lock()
	size = seg.size
	seg.view.pause()
	s.mu.Unlock()
	err = seg.file.Sync()
	s.mu.Lock()
	seg.view.resume(size)
	s.mu.Unlock()
	return size, err
}

// copyFrame copies into a map. Where the file behind it has been made shorter the
// system sends a signal, which would end the process; here it is an error.
func copyFrame(to, frame []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if _, fault := p.(interface{ Addr() uintptr }); !fault {
				panic(p)
			}
			err = fmt.Errorf("the segment's file was made shorter by someone, or cannot be written any more (%v); leave the spool's files alone", p)
		}
	}()
	copy(to, frame)
	return nil
}
