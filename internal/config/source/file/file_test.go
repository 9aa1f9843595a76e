package file

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// The kernel's events do not move the clock of a synctest bubble, so these tests
// wait for real; the polls are slowed down so that only events can explain a
// call, except where polling is what is tested.
var eventsOnly = times{quiet: 20 * time.Millisecond, patience: time.Second, poll: time.Hour, blind: time.Hour}

const (
	soon  = 5 * time.Second
	quiet = 150 * time.Millisecond
)

// watched is a running Watch.
type watched struct {
	t     *testing.T
	calls chan struct{}
}

func start(t *testing.T, s *Source) watched {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := watched{t, make(chan struct{}, 100)}
	ended := make(chan error, 1)
	ready := make(chan struct{}, 100)
	ask := s.also
	s.also = func() []string {
		select {
		case ready <- struct{}{}:
		default:
		}
		return ask()
	}
	go func() { ended <- s.Watch(ctx, func() { w.calls <- struct{}{} }) }()
	// Asked when following, learning and following again: then it waits.
	for range 3 {
		<-ready
	}
	time.Sleep(20 * time.Millisecond)
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(soon):
			t.Error("Watch does not end")
		}
	})
	return w
}

// expect waits for one call and then for silence.
func (w watched) expect(what string) {
	w.t.Helper()
	select {
	case <-w.calls:
	case <-time.After(soon):
		w.t.Fatalf("%s: not noticed", what)
	}
	w.silent(what)
}

func (w watched) silent(what string) {
	w.t.Helper()
	select {
	case <-w.calls:
		w.t.Fatalf("%s: one call too many", what)
	case <-time.After(quiet):
	}
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func newSource(path string, also func() []string) *Source {
	s := New(path, also)
	s.times = eventsOnly
	return s
}

func TestGet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	s := New(path, nil)
	if _, err := s.Get(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
		t.Error("an absent file:", err)
	}
	write(t, path, "a: 1\n")
	doc, err := s.Get(t.Context())
	if err != nil || doc.Name != path || string(doc.Data) != "a: 1\n" || len(doc.Version) != 64 {
		t.Errorf("%+v, %v", doc, err)
	}
	must(t, os.Truncate(path, maxBytes+1))
	if _, err := s.Get(t.Context()); err == nil {
		t.Error("a huge file was read")
	}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, "1")
	w := start(t, newSource(path, nil))
	write(t, path, "2")
	w.expect("write")
	write(t, path, "2")
	now := time.Now()
	must(t, os.Chtimes(path, now, now))
	w.silent("the same content")
	write(t, filepath.Join(filepath.Dir(path), "other.yaml"), "x")
	w.silent("another file")
}

func TestRename(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, "1")
	w := start(t, newSource(path, nil))
	for _, content := range []string{"2", "3"} {
		write(t, path+".tmp", content)
		must(t, os.Rename(path+".tmp", path))
		w.expect("rename")
	}
	// As vim does: the old file becomes the backup.
	must(t, os.Rename(path, path+"~"))
	write(t, path, "4")
	w.expect("backup and write")
}

func TestDeleteAndRecreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, "1")
	w := start(t, newSource(path, nil))
	must(t, os.Remove(path))
	w.silent("delete")
	write(t, path, "1")
	w.silent("the same again")
	must(t, os.Remove(path))
	write(t, path, "2")
	w.expect("recreate")
}

// swap does what the kubelet does to a mounted ConfigMap.
func swap(t *testing.T, dir, version, content string) {
	t.Helper()
	must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
	write(t, filepath.Join(dir, version, "a.yaml"), content)
	old, _ := os.Readlink(filepath.Join(dir, "..data"))
	must(t,
		os.Symlink(version, filepath.Join(dir, "..data_tmp")),
		os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	if old != "" {
		must(t, os.RemoveAll(filepath.Join(dir, old)))
	}
}

func TestConfigMap(t *testing.T) {
	dir := t.TempDir()
	swap(t, dir, "..1", "1")
	path := filepath.Join(dir, "a.yaml")
	must(t, os.Symlink("..data/a.yaml", path))
	w := start(t, newSource(path, nil))
	for _, v := range []string{"2", "3", "4"} {
		swap(t, dir, ".."+v, v)
		w.expect("swap " + v)
	}
	swap(t, dir, "..5", "4")
	w.silent("a swap to the same content")
}

func TestLinks(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "real"), 0o700), os.Mkdir(filepath.Join(dir, "next"), 0o700),
		os.Mkdir(filepath.Join(dir, "etc"), 0o700))
	write(t, filepath.Join(dir, "real", "a.yaml"), "1")
	write(t, filepath.Join(dir, "next", "a.yaml"), "3")
	must(t, os.Symlink("real", filepath.Join(dir, "current")))
	path := filepath.Join(dir, "etc", "a.yaml")
	must(t, os.Symlink(filepath.Join(dir, "current", "a.yaml"), path))
	w := start(t, newSource(path, nil))
	write(t, filepath.Join(dir, "real", "a.yaml"), "2")
	w.expect("write behind a link")
	must(t, os.Symlink("next", filepath.Join(dir, "tmp")),
		os.Rename(filepath.Join(dir, "tmp"), filepath.Join(dir, "current")))
	w.expect("link to another directory")
	write(t, filepath.Join(dir, "next", "a.yaml"), "4")
	w.expect("write in the other directory")
}

func TestAlso(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	secret, absent := filepath.Join(other, "secret"), filepath.Join(other, "absent")
	path := filepath.Join(dir, "a.yaml")
	write(t, path, "1")
	write(t, secret, "s1")
	w := start(t, newSource(path, func() []string { return []string{secret, absent} }))
	write(t, secret, "s2")
	w.expect("the secret")
	write(t, absent, "s")
	w.expect("a secret that was absent")
}

// TestNeighbour: a log beside the file is written to all the time. That must not
// have the file read again and again.
func TestNeighbour(t *testing.T) {
	dir := t.TempDir()
	path, log := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "access.log")
	write(t, path, "a: 1")
	write(t, log, "")
	var looks atomic.Int32
	s := newSource(path, func() []string { looks.Add(1); return nil })
	w := start(t, s)
	before := looks.Load()
	for i := range 20 {
		write(t, log, strings.Repeat("line\n", i))
		time.Sleep(2 * time.Millisecond)
	}
	w.silent("a line in the log")
	if n := looks.Load() - before; n > 0 {
		t.Errorf("looked %d times", n)
	}
	write(t, path, "a: 2")
	w.expect("a change of the file")
}

func TestChangedBeforeWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, "1")
	s := newSource(path, nil)
	if _, err := s.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, path, "2")
	start(t, s).expect("a change between Get and Watch")
}

func TestBlind(t *testing.T) {
	// A directory that does not exist yet cannot be watched.
	path := filepath.Join(t.TempDir(), "later", "a.yaml")
	s := newSource(path, nil)
	s.times.blind = 30 * time.Millisecond
	w := start(t, s)
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	write(t, path, "1")
	w.expect("a file in a new directory")
}

func TestPoll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, "1")
	s := newSource(path, nil)
	s.times.quiet, s.times.patience, s.times.poll = time.Hour, time.Hour, 0
	w := &watch{source: s, versions: map[string]string{}, sees: true}
	w.begin()
	write(t, path, "2")
	if !w.wait(t.Context()) || !w.compare() {
		t.Error("the poll did not notice")
	}
}

func TestNoLeak(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, "1")
	before := runtime.NumGoroutine()
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := newSource(path, nil).Watch(ctx, func() {}); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(soon)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
