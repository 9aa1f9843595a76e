package ledger

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// openMapped opens a room whose store is away and which has a first entry, in a
// folder whose files can be mapped.
func openMapped(t *testing.T, l *logged) (*Room, *flaky) {
	t.Helper()
	s := &flaky{Memory: NewMemory(0), down: true}
	r := open(t, t.TempDir(), s, l)
	mustAppend(t, r, entry(0))
	if r.spool.active.view.ready == 0 {
		if err := r.Close(t.Context()); err == nil {
			t.Error("closed without the entry")
		}
		t.Skip("files in the tests' folder cannot be mapped, or the kernel is older than 5.14")
	}
	return r, s
}

// Copies and writes, in any order and with any sizes, leave the segment that
// writes alone would have left, and no zeros behind it.
func TestMapAgainstWrites(t *testing.T) {
	copied, mapped := 0, false
	for seed := range uint64(25) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		f, err := os.Create(filepath.Join(t.TempDir(), "a"))
		if err != nil {
			t.Fatal(err)
		}
		const large = 300_000
		seg := &segment{file: f, view: openMap(f, large)}
		var want []byte
		for seg.size < large {
			switch rnd.IntN(20) {
			case 0:
				seg.view.pause()
			case 1:
				seg.view.resume(int64(rnd.IntN(len(want) + 1)))
			}
			frame := make([]byte, 1+rnd.IntN(400))
			if rnd.IntN(50) == 0 {
				frame = make([]byte, headerSize+maxPayload-rnd.IntN(2))
			}
			for i := range frame {
				frame[i] = byte(rnd.Uint32())
			}
			if usable, err := seg.add(frame); err != nil || !usable {
				t.Fatal(usable, err)
			}
			seg.size += int64(len(frame))
			want = append(want, frame...)
			if seg.size <= seg.view.ready {
				copied++
			}
			if got, err := os.ReadFile(f.Name()); err != nil || !bytes.HasPrefix(got, want) || len(bytes.Trim(got[len(want):], "\x00")) > 0 {
				t.Fatalf("seed %d: %d bytes are not there as they were added: %v", seed, len(want), err)
			}
		}
		mapped = seg.view.bytes != nil
		if err := seg.trim(seg.size); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("seed %d: the segment has %d bytes, want %d: %v", seed, len(got), len(want), err)
		}
		f.Close()
	}
	if mapped && copied < 1000 {
		t.Errorf("%d frames were copied", copied)
	}
}

// Someone empties the segment's file. The entry that meets this is refused, and
// later ones are taken and reach the store; that others are lost is reported.
func TestFileIsCutUnderUs(t *testing.T) {
	l := &logged{}
	r, s := openMapped(t, l)
	path := r.spool.active.path
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	e := entry(1)
	if err := r.Append(&e); err == nil || !strings.Contains(err.Error(), "made shorter") {
		t.Errorf("%v", err)
	}
	for i := range 3 {
		mustAppend(t, r, entry(2+i))
	}
	s.set(false)
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, s.Memory); !slices.Equal(got, []string{"00000002", "00000003", "00000004"}) || l.count("damaged and was passed over") != 1 {
		t.Errorf("%v, log %q", got, l.b.String())
	}
	if _, err := os.Stat(path + damagedSuffix); err != nil {
		t.Errorf("the segment was not kept: %v", err)
	}
}

// What is taken ahead of the disk counts nowhere, and is given back where a
// segment ends. At rest the process has no more than that in memory.
func TestRoomTakenAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := openMapped(t, &logged{})
		for i := range 2500 {
			mustAppend(t, r, entry(i))
			if i%1000 == 0 {
				time.Sleep(2 * time.Second) // it is synced
				synctest.Wait()
			}
		}
		sizes := func() (on, off int64) {
			r.spool.mu.Lock()
			defer r.spool.mu.Unlock()
			for _, seg := range r.spool.segments {
				i, err := os.Stat(seg.path)
				if err != nil {
					t.Fatal(err)
				}
				on, off = on+i.Size(), off+seg.size
			}
			return on, off
		}
		time.Sleep(2 * time.Second)
		if on, off := sizes(); r.Lag().Bytes != off || on <= off || on > off+largestAhead {
			t.Errorf("%d bytes are taken, %d are used, %d are counted", on, off, r.Lag().Bytes)
		}
		if n := resident(t, r.spool.dir); n > largestStep {
			t.Errorf("%d bytes are in memory", n)
		}
		if err := r.Close(t.Context()); err == nil {
			t.Error("closed without the entries")
		}
		if on, off := sizes(); on != off || resident(t, r.spool.dir) != 0 {
			t.Errorf("%d bytes are left, %d were used", on, off)
		}
		s.set(false)
	})
}

// resident is how much of the folder's files is in the process's memory.
func resident(t *testing.T, dir string) (n int64) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	is := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		var kib int64
		if _, err := fmt.Sscanf(line, "Rss: %d kB", &kib); err == nil && is {
			n += kib << 10
		}
		if name, _, _ := strings.Cut(line, " "); !strings.HasSuffix(name, ":") {
			is = strings.Contains(line, dir)
		}
	}
	return n
}
