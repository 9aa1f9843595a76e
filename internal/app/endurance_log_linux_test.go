package app_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/lab/race"
)

// busy makes calls, of which one in four fails, and wants every one answered
// at once.
func busy(t *testing.T, g *Gateway, n int) {
	t.Helper()
	for i := range n {
		body, want := chatBody, 200
		if i%4 == 3 {
			body, want = `{"model":"nobody's"}`, 404
		}
		began := time.Now()
		a := g.post(chatPath, body)
		took := time.Since(began)
		if a.StatusCode != want || took > time.Second && !race.Enabled {
			t.Fatalf("call %d: %d after %v: %s", i, a.StatusCode, took, a.Bytes)
		}
	}
}

func (g *Gateway) dropped() float64 { return g.metric("headgate_log_dropped_total") }

// logged waits for a line of the log at path that holds the text.
func logged(t *testing.T, path, text string) {
	t.Helper()
	wait(t, text+" in the log", func() bool {
		b, _ := os.ReadFile(path)
		return strings.Contains(string(b), text)
	})
}

// A full disk: no call notices, what is lost is counted, and when there is room
// again the log goes on, with whole lines.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("a file system that can be filled needs the right to mount one:", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path, filler := filepath.Join(dir, "access.log"), filepath.Join(dir, "filler")
	g := start(t, setup{More: "journal: {log: {path: \"" + path + "\"}}"})
	g.post(chatPath, chatBody, "X-Request-Id", "before-it")
	logged(t, path, "before-it")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	busy(t, g, 200)
	wait(t, "the lost lines to be counted", func() bool { return g.dropped() > 0 })
	if g.metric("headgate_log_write_errors_total") == 0 {
		t.Error("no write error was counted")
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	g.post(chatPath, chatBody, "X-Request-Id", "after-it")
	logged(t, path, "after-it")
	lost := g.dropped()
	busy(t, g, 20)
	if n := g.dropped(); n != lost {
		t.Errorf("%v lines were lost with room on the disk", n-lost)
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	var broken []string
	for line := range strings.Lines(readFile(t, path)) {
		if line != "\n" && (!strings.HasPrefix(line, "{") || !strings.HasSuffix(line, "}\n")) {
			broken = append(broken, line)
		}
	}
	if len(broken) > 1 { // the one that the full disk cut
		t.Errorf("broken lines: %q", broken)
	}
}

// A device that takes nothing, and then a log rotated away from it: SIGHUP's
// reopening is enough to recover.
func TestLogDeviceIsFull(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	g := start(t, setup{More: "journal: {log: {path: \"" + path + "\"}}"})
	busy(t, g, 100)
	wait(t, "the lost lines to be counted", func() bool { return g.dropped() >= 100 })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	g.Hangup(context.Background())
	g.post(chatPath, chatBody, "X-Request-Id", "after-it")
	logged(t, path, "after-it")
	// The log's folder goes away altogether: the open file goes on.
	if err := os.Rename(filepath.Dir(path), filepath.Dir(path)+"-gone"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(path) + "-gone") })
	g.Hangup(context.Background())
	g.post(chatPath, chatBody, "X-Request-Id", "beyond-it")
	logged(t, filepath.Join(filepath.Dir(path)+"-gone", "access.log"), "beyond-it")
}

// A named pipe whose reader stops, goes away, and comes back.
func TestLogReaderVanishes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	g := start(t, setup{More: "journal: {log: {path: \"" + path + "\", buffer: 50}}"})
	read := func(until string) error {
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_ = f.SetReadDeadline(time.Now().Add(10 * time.Second))
		for r := bufio.NewReader(f); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return fmt.Errorf("%w before %q", err, until)
			}
			if strings.Contains(line, until) {
				return nil
			}
		}
	}
	g.post(chatPath, chatBody, "X-Request-Id", "first")
	if err := read("first"); err != nil {
		t.Fatal(err)
	}
	wait(t, "the pipe and the ring to be full", func() bool { busy(t, g, 50); return g.dropped() > 50 })
	for i := 0; ; i++ { // the reader is back
		ended := make(chan error, 1)
		id := fmt.Sprint("again-", i)
		go func() { ended <- read(id) }()
		g.post(chatPath, chatBody, "X-Request-Id", id)
		time.Sleep(200 * time.Millisecond)
		g.post(chatPath, chatBody, "X-Request-Id", id)
		if err := <-ended; err == nil {
			break
		} else if i == 3 {
			t.Fatal(err)
		}
	}
	lost := g.dropped()
	go func() { _ = read("never") }()
	busy(t, g, 20)
	if n := g.dropped(); n != lost {
		t.Errorf("%v lines were lost with a reader", n-lost)
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
}
