package journal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func (j *Room) droppedLines(level string) int {
	return int(testutil.ToFloat64(j.m.counters["headgate_log_dropped_total"].WithLabelValues(level)))
}

// A reader that stops reading fills the pipe and then the ring. No request may
// notice, and what is lost is counted.
func TestPausedReader(t *testing.T) {
	for _, kind := range []string{"pipe", "fifo"} {
		t.Run(kind, func(t *testing.T) {
			o, path := Options{}, ""
			var r *os.File
			if kind == "pipe" {
				var w *os.File
				var err error
				if r, w, err = os.Pipe(); err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				o.Output = w
			} else {
				path = filepath.Join(t.TempDir(), "log")
				if err := syscall.Mkfifo(path, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			j, p := open(t, o, func(c *Config) { c.Log.Path = path; c.Recent = 0 })
			if kind == "fifo" {
				var err error
				if r, err = os.Open(path); err != nil {
					t.Fatal(err)
				}
			}
			defer r.Close()

			const n = 5000
			slowest := time.Duration(0)
			for i := range n {
				rec := streamed(fmt.Sprint(i))
				if i%4 == 0 {
					rec = refused(fmt.Sprint(i))
				}
				began := time.Now()
				j.Close(p, rec)
				slowest = max(slowest, time.Since(began))
			}
			if slowest > 2*patience {
				t.Errorf("a Close took %v", slowest)
			}
			j.digester.digest()
			if j.droppedLines("info") == 0 || j.droppedLines("error") == 0 {
				t.Error("no line was dropped, or none was counted")
			}

			// The reader comes back: everything that was not counted as dropped arrives.
			got := make(chan int)
			want := n - j.droppedLines("info") - j.droppedLines("error")
			go func() {
				lines := 0
				s := bufio.NewScanner(r)
				for lines < want && s.Scan() {
					parse(t, s.Text())
					lines++
				}
				got <- lines
			}()
			closed(t, j)
			if lines := <-got; lines != want {
				t.Errorf("%d lines arrived, want %d", lines, want)
			}
		})
	}
}

// While the disk is stuck, requests that failed are not held up one after the
// other either: only those in the first instants wait at all.
func TestErrorsDoNotQueueUpBehindAStuckDisk(t *testing.T) {
	stuck := &gate{open: make(chan struct{})}
	j, p := open(t, Options{Output: stuck}, func(c *Config) { c.Log.Buffer = 1 })
	for range 20 {
		finish(j, p, refused("x"))
	}
	time.Sleep(2 * patience)
	began := time.Now()
	for range 1000 {
		finish(j, p, refused("x"))
	}
	if d := time.Since(began); d > 10*time.Second { // each waiting its patience would take 50 s
		t.Errorf("1000 failed requests took %v", d)
	}
	close(stuck.open)
	closed(t, j)
}

// A disk that is slow, but not stuck, loses no error.
func TestErrorsWaitForASlowDisk(t *testing.T) {
	slow := &gate{delay: 5 * time.Millisecond}
	j, p := open(t, Options{Output: slow}, func(c *Config) { c.Log.Buffer = 4 })
	for range 100 {
		finish(j, p, refused("x"))
		finish(j, p, streamed("x"))
	}
	closed(t, j)
	if n := j.droppedLines("error"); n != 0 {
		t.Errorf("%d errors were dropped", n)
	}
	if j.droppedLines("info") == 0 {
		t.Error("the ring was never full: the test shows nothing")
	}
}

// gate is a writer that is stuck until it is opened, or slow.
type gate struct {
	open  chan struct{}
	delay time.Duration
}

func (g *gate) Write(p []byte) (int, error) {
	if g.open != nil {
		<-g.open
	}
	time.Sleep(g.delay)
	return len(p), nil
}

func TestNothingIsLostOnShutdown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	j, p := open(t, Options{}, func(c *Config) { c.Log.Path = path })
	for i := range 1000 {
		finish(j, p, streamed(fmt.Sprint(i)))
	}
	lost := j.droppedLines("info")
	closed(t, j)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if lost != 0 || len(lines) != 1000 {
		t.Errorf("%d lines, %d dropped", len(lines), lost)
	}
	for i, l := range lines {
		if parse(t, l)["request_id"] != fmt.Sprint(i) {
			t.Fatalf("line %d: %s", i, l)
		}
	}
}

func TestShutdownGivesUp(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	j, p := open(t, Options{Output: w})
	for range 3000 {
		finish(j, p, streamed("x"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := j.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("took %v", d)
	}
	if j.droppedLines("info") == 0 {
		t.Error("nothing is counted as lost")
	}
	finish(j, p, streamed("late")) // must not block nor panic
}

func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	j, p := open(t, Options{}, func(c *Config) { c.Log.Path = path })
	finish(j, p, streamed("before"))
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		if i, err := os.Stat(path); err == nil && i.Size() > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no line was written")
		}
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Reopen(), j.Reopen()); err != nil {
		t.Fatal(err)
	}
	finish(j, p, streamed("after"))
	closed(t, j)
	for name, want := range map[string]string{path + ".1": "before", path: "after"} {
		b, err := os.ReadFile(name)
		if err != nil || strings.Count(string(b), "\n") != 1 || parse(t, string(b))["request_id"] != want {
			t.Errorf("%s: %v %q", name, err, b)
		}
	}
	if err := j.Reopen(); err != nil {
		t.Error(err)
	}
}

// flaky writes half of what it is given and fails, until it is repaired.
type flaky struct {
	buffer
	broken atomic.Bool
}

func (f *flaky) Write(p []byte) (int, error) {
	if !f.broken.Load() {
		return f.buffer.Write(p)
	}
	n, _ := f.buffer.Write(p[:len(p)/2])
	return n, syscall.ENOSPC
}

func TestBrokenSink(t *testing.T) {
	var said []string // by the writer's goroutine, read after it has ended
	out := &flaky{}
	out.broken.Store(true)
	j, p := open(t, Options{Output: out, Notify: func(m string) { said = append(said, m) }})
	finish(j, p, streamed("lost"))
	finish(j, p, streamed("lost"))
	for deadline := time.Now().Add(5 * time.Second); j.droppedLines("info") < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the lost lines are not counted")
		}
	}
	out.broken.Store(false)
	finish(j, p, streamed("kept"))
	closed(t, j)
	lines := out.lines()
	if last := parse(t, lines[len(lines)-1]); last["request_id"] != "kept" {
		t.Errorf("%q", lines)
	}
	if len(said) != 2 || !strings.Contains(said[0], "no space left") || !strings.Contains(said[1], "2 lines were lost") {
		t.Errorf("%q", said)
	}
	if testutil.ToFloat64(j.m.logErrors) == 0 {
		t.Error("the errors are not counted")
	}
}

func TestReaderGone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	j, p := open(t, Options{Output: w})
	finish(j, p, streamed("x"))
	closed(t, j)
	if testutil.ToFloat64(j.m.logErrors) != 1 {
		t.Error("a broken pipe is not counted")
	}
}

func TestLogCannotBeOpened(t *testing.T) {
	c := Default()
	c.Log.Path = filepath.Join(t.TempDir(), "no", "such", "folder")
	if _, err := New(Options{Config: c}); err == nil {
		t.Error("no error")
	}
}

// On one processor a batch of far more records than the ring has lines loses none
// of them: the writer gets its turns. Without them nearly all would be lost.
func TestBatchDoesNotOverrunTheRing(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	j, p := open(t, Options{Output: io.Discard})
	defer closed(t, j)
	const n = 4000 // the ring has 1,000
	for range n {
		j.digester.mu.Lock()
		j.digester.waiting = append(j.digester.waiting, entry{p, streamed("x")})
		j.digester.mu.Unlock()
	}
	j.digester.digest()
	if lost := j.droppedLines("info"); lost > 0 {
		t.Errorf("%d of %d lines were lost", lost, n)
	}
}
