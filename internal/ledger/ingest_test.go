package ledger

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// flaky is a store that can be out of reach.
type flaky struct {
	*Memory
	mu       sync.Mutex
	down     bool
	attempts int
	sizes    []int
}

func (f *flaky) Insert(ctx context.Context, b Batch) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attempts++
	if f.down {
		return errors.New("connection refused")
	}
	before := len(f.entries)
	err := f.Memory.Insert(ctx, b)
	f.sizes = append(f.sizes, len(f.entries)-before)
	return err
}

func (f *flaky) set(down bool) (attempts int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
	return f.attempts
}

// While the store is away the gateway tries ever less often, says so once a
// minute, and keeps all; when it is back it gets all, in large batches.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, l, s := t.TempDir(), &logged{}, &flaky{Memory: NewMemory(0), down: true}
		r := open(t, dir, s, l)
		SetSegmentSize(r, 4<<10)
		r.spool.limit = 10 << 10
		begin := time.Now()
		const entries = 1200
		for i := range entries {
			mustAppend(t, r, entry(i))
			time.Sleep(250 * time.Millisecond)
		}
		minutes := int(time.Since(begin)/time.Minute) + 1
		if n := s.set(true); n < 30 || n > 60 {
			t.Errorf("%d attempts in %v", n, time.Since(begin))
		}
		if n := l.count("does not take entries"); n < minutes-1 || n > minutes {
			t.Errorf("%d complaints of the store in %d minutes", n, minutes)
		}
		if n := l.count("larger than ledger.spool_limit"); n < minutes-2 || n > minutes {
			t.Errorf("%d complaints of the spool's size in %d minutes", n, minutes)
		}
		if lag := r.Lag(); lag.Records != entries || lag.Age < 4*time.Minute || lag.Bytes < entries*50 {
			t.Errorf("%+v", lag)
		}
		time.Sleep(2 * time.Second)
		for i, seg := range r.spool.segments {
			seg.syncing.Lock()
			if open := seg.file != nil; open != (i == len(r.spool.segments)-1) {
				t.Errorf("%s is open: %v", seg.path, open)
			}
			if seg.synced != seg.size {
				t.Errorf("%d of %d bytes of %s are on the disk", seg.synced, seg.size, seg.path)
			}
			seg.syncing.Unlock()
		}
		// What is flushed while it is down fails, soon.
		if err := r.Flush(t.Context()); err == nil {
			t.Error("flushed into a store that is away")
		}
		s.set(false)
		time.Sleep(lastPause)
		synctest.Wait()
		if got := ids(t, s.Memory); len(got) != entries || r.Lag() != (Lag{}) || l.count("takes entries again") != 1 {
			t.Errorf("%d entries, lag %+v", len(got), r.Lag())
		}
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The first entry of all waits for nothing. Later ones wait at most so long for
// others, and a complete segment waits for nothing. What comes meanwhile is left to
// come together.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &flaky{Memory: NewMemory(0)}
		r := open(t, t.TempDir(), s, &logged{})
		const size, segments = 64 << 10, 3
		SetSegmentSize(r, size)
		synctest.Wait() // it has looked into the spool
		mustAppend(t, r, entry(200))
		synctest.Wait()
		if lag := r.Lag(); lag != (Lag{}) {
			t.Errorf("the first entry waited: %+v", lag)
		}
		for i := range 10 {
			mustAppend(t, r, entry(i))
		}
		time.Sleep(gathering - time.Millisecond)
		if lag := r.Lag(); lag.Records != 10 {
			t.Errorf("the others did not: %+v", lag)
		}
		time.Sleep(2 * time.Millisecond)
		for i := range 10 {
			mustAppend(t, r, entry(100+i))
		}
		begin := time.Now()
		if err := r.Flush(t.Context()); err != nil || time.Since(begin) != 0 {
			t.Errorf("flush took %v, %v", time.Since(begin), err)
		}
		synctest.Wait()
		n := 0
		for ; r.spool.come(false) < segments*size; n++ {
			mustAppend(t, r, entry(1000+n))
		}
		synctest.Wait()
		if lag := r.Lag(); time.Since(begin) != 0 || lag.Records != 1 {
			t.Errorf("a complete segment waited, or what came behind it did not: %+v", lag)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(s.sizes) != 3+segments+1 || !slices.Equal(s.sizes[:3], []int{1, 10, 10}) || s.sizes[3+segments] != 1 {
			t.Errorf("batches of %v", s.sizes)
		}
		if got := len(ids(t, s.Memory)); got != 21+n {
			t.Errorf("%d entries of %d", got, 21+n)
		}
	})
}

// stuck is a store that hangs.
type stuck struct{ *Memory }

func (stuck) Insert(ctx context.Context, _ Batch) error {
	<-ctx.Done()
	return ctx.Err()
}

// Close ends with its context even if the store hangs; the next process has the
// entries.
func TestCloseWhileTheStoreHangs(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, dir, stuck{NewMemory(0)}, &logged{})
		mustAppend(t, r, entry(1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if err := r.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("flush: %v", err)
		}
		if err := r.Close(ctx); err == nil || time.Since(begin) > 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
	s := NewMemory(0)
	r := open(t, dir, s, &logged{})
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, s); !slices.Equal(got, []string{"00000001"}) {
		t.Errorf("%v", got)
	}
}

// A reader sees every entry whose Append returned before, whoever else writes.
func TestReadYourWrites(t *testing.T) {
	s := NewMemory(0)
	r := open(t, t.TempDir(), s, &logged{})
	SetSegmentSize(r, 2<<10)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			e := entry(0)
			e.User = string(rune('a' + w))
			for i := range 100 {
				e.ID = e.User + entry(i).ID
				if err := r.Append(&e); err != nil {
					t.Error(err)
				}
				if i%10 == w {
					if got, err := r.Sum(t.Context(), Query{User: e.User}); err != nil || got.Requests != int64(i+1) {
						t.Errorf("%d appended, %+v, %v", i+1, got, err)
					}
				}
			}
		})
	}
	wg.Wait()
	rows, err := r.Group(t.Context(), Query{}, []string{"user"})
	if err != nil || len(rows) != 4 || rows[3].Requests != 100 {
		t.Errorf("%v, %v", rows, err)
	}
	if _, err := r.Group(t.Context(), Query{}, []string{"colour"}); err == nil {
		t.Error("grouped by colour")
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
