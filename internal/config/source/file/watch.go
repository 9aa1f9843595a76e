package file

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// times are how long a watch waits.
type times struct {
	// quiet is how long nothing is to happen before the files are compared,
	// as one save is many events; patience bounds that wait.
	quiet, patience time.Duration
	// poll is how often they are compared while the kernel tells of changes, in
	// case it does not, as on network file systems; blind is how often while it
	// cannot.
	poll, blind time.Duration
}

var usual = times{
	quiet: 100 * time.Millisecond, patience: time.Second,
	poll: 10 * time.Second, blind: 2 * time.Second,
}

// Watch calls changed when the content of the file, or of one that also names,
// has changed. A file that is absent for a moment has not changed.
func (s *Source) Watch(ctx context.Context, changed func()) error {
	w := &watch{source: s, versions: map[string]string{}}
	if n, err := fsnotify.NewWatcher(); err == nil {
		w.notify = n
		defer n.Close()
	}
	w.follow()
	w.begin()
	for {
		// Compared before the first wait too: the file may have changed since
		// it was read.
		if w.compare() {
			changed()
			w.learn()
		}
		w.follow()
		if !w.wait(ctx) {
			return nil
		}
	}
}

// watch is the state of one call of Watch.
type watch struct {
	source *Source
	notify *fsnotify.Watcher // nil if there is none
	// sees is whether the kernel tells of changes to every file.
	sees bool
	// names are those of the files and of the links on the way to them, without
	// their directories.
	names map[string]bool
	// versions holds the last version of each file; empty for one that could
	// not be read yet.
	versions map[string]string
}

func (w *watch) paths() []string { return append([]string{w.source.path}, w.source.also()...) }

// begin notes the files as they are, the configuration as it was last read.
func (w *watch) begin() {
	w.learn()
	if v := w.source.lastVersion(); v != "" {
		w.versions[w.source.path] = v
	}
}

// learn notes the files that a changed configuration names, and forgets others.
func (w *watch) learn() {
	old := w.versions
	w.versions = map[string]string{}
	for _, path := range w.paths() {
		v, known := old[path]
		if !known {
			v, _ = version(path)
		}
		w.versions[path] = v
	}
}

// compare is whether the content of a file has changed.
func (w *watch) compare() bool {
	changed := false
	for path, before := range w.versions {
		now, ok := version(path)
		if ok && now != before {
			w.versions[path] = now
			changed = true
		}
	}
	return changed
}

// follow watches the directories of all files, and of what they link to.
// Directories, because a file that is replaced takes its own watch with it.
func (w *watch) follow() {
	if w.sees = w.notify != nil; !w.sees {
		return
	}
	want := map[string]bool{}
	w.names = map[string]bool{}
	for _, path := range w.paths() {
		dirs, names := directories(path)
		for _, name := range names {
			w.names[name] = true
		}
		for _, dir := range dirs {
			want[dir] = true
			// Adding again is harmless, and needed where the directory itself
			// was replaced.
			if w.notify.Add(dir) != nil {
				w.sees = false
			}
		}
	}
	for _, dir := range w.notify.WatchList() {
		if !want[dir] {
			// It is gone, or no longer of interest; events from it do no harm.
			_ = w.notify.Remove(dir)
		}
	}
}

// directories are those in which a change may change the content of path: its
// own, those of the links on the way to the content, and those that hold a link
// to a directory on that way. names are those of path and of what it links to.
func directories(path string) (dirs, names []string) {
	for range 16 {
		dir := filepath.Dir(path)
		dirs, names = append(dirs, dir), append(names, filepath.Base(path))
		for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			if _, err := os.Readlink(dir); err == nil {
				dirs = append(dirs, filepath.Dir(dir))
			}
		}
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return dirs, names
}

// concerns is whether an event may have changed a file's content. Other files may
// lie in the same directory and be written to all the time, such as the gateway's
// own log; what comes, goes or is renamed there may be a link's new target.
func (w *watch) concerns(e fsnotify.Event) bool {
	const inside = fsnotify.Write | fsnotify.Chmod
	return e.Op&^inside != 0 || w.names[filepath.Base(e.Name)]
}

// wait returns true when the files are to be compared, false when ctx is done.
func (w *watch) wait(ctx context.Context) bool {
	poll := w.source.times.blind
	if w.sees {
		poll = w.source.times.poll
	}
	timer := time.NewTimer(poll)
	defer timer.Stop()
	var patience time.Time
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case e := <-w.events():
			if !w.concerns(e) {
				continue
			}
		case <-w.failures():
			// Such as an overflow: events were lost, so look.
		}
		now := time.Now()
		if patience.IsZero() {
			patience = now.Add(w.source.times.patience)
		}
		timer.Reset(min(w.source.times.quiet, max(0, patience.Sub(now))))
	}
}

// events never delivers if there is no watcher.
func (w *watch) events() <-chan fsnotify.Event {
	if w.notify == nil {
		return nil
	}
	return w.notify.Events
}

func (w *watch) failures() <-chan error {
	if w.notify == nil {
		return nil
	}
	return w.notify.Errors
}
