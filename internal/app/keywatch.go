package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"time"

	"github.com/headgate-ai/headgate/internal/admin"
	"github.com/headgate-ai/headgate/internal/authn"
	"github.com/headgate-ai/headgate/internal/config"
)

// keyWatch is what the gateway knows of the file of its keys. It belongs to
// whoever holds the ring's lock, and to tend.
type keyWatch struct {
	known  map[string]authn.KeyRecord // by id
	looked fs.FileInfo                // nil where there is no file
	at     time.Time
	broken string // the last complaint
}

// openKeys opens the keystore of the configuration, if it has one. A file that
// cannot be read ends the start: else the keys in it would be refused.
func (a *App) openKeys(l *config.Loaded) error {
	if l.Keystore.Path == "" {
		return nil
	}
	ring := NewKeyRing(l.Keystore.Path, nil)
	ring.check = func(r authn.KeyHolder) error { return checkKey(a.state.Load().running.File, r) }
	ring.changed = a.adoptKeys
	a.keyWatch.look(ring.path)
	records, err := ring.store.List()
	if err != nil {
		return fmt.Errorf("cannot open the keystore (keystore.path): %w", err)
	}
	if err := a.adoptKeys(records); err != nil {
		return fmt.Errorf("cannot open the keystore (keystore.path): %w", err)
	}
	a.keys = ring
	return nil
}

// adoptKeys makes records the keys from the next request on.
func (a *App) adoptKeys(records []authn.KeyRecord) error {
	if err := a.gateway.Authn.SetKeys(records); err != nil {
		return err
	}
	a.keyWatch.known = make(map[string]authn.KeyRecord, len(records))
	for _, r := range records {
		a.keyWatch.known[r.ID] = r
	}
	return nil
}

// young is the age up to which a file may have changed again and look the same:
// file systems keep times of some milliseconds, some of whole seconds.
const young = 2 * time.Second

// look is whether the file may have changed since the last look.
func (w *keyWatch) look(path string) (changed bool) {
	info, err := os.Stat(path)
	if err != nil {
		info = nil
		if !errors.Is(err, fs.ErrNotExist) {
			return false // reading it would fail as well; the next look may not
		}
	}
	was, at := w.looked, w.at
	w.looked, w.at = info, time.Now()
	if was == nil || info == nil {
		return was != info
	}
	return !os.SameFile(was, info) || !was.ModTime().Equal(info.ModTime()) || was.Size() != info.Size() || at.Sub(info.ModTime()) < young
}

// followKeys takes up what another process has changed in the file of keys, and
// records it.
func (a *App) followKeys() {
	if a.keys == nil {
		return
	}
	a.keys.mu.Lock()
	defer a.keys.mu.Unlock()
	if !a.keyWatch.look(a.keys.path) {
		return
	}
	before := a.keyWatch.known
	records, err := a.keys.store.List()
	if err == nil {
		err = a.adoptKeys(records)
	}
	if err != nil {
		// Once for each mistake, and not four times a second.
		if a.keyWatch.broken != err.Error() {
			a.log.Error("the file of keys cannot be used; the keys stay as they were", "error", err.Error())
		}
		a.keyWatch.broken = err.Error()
		return
	}
	a.keyWatch.broken = ""
	for _, e := range keyChanges(before, a.keyWatch.known, time.Now()) {
		a.record(e)
	}
}

// keyChanges are the differences between two states of the file of keys.
func keyChanges(before, after map[string]authn.KeyRecord, now time.Time) (all []admin.Entry) {
	for id, is := range after {
		was, had := before[id]
		switch {
		case !had:
			all = append(all, keyChange("keys.create", id, nil, admin.KeyOf(&is, now)))
		case !reflect.DeepEqual(was, is):
			operation := "keys.change"
			if was.Revoked.IsZero() && !is.Revoked.IsZero() {
				operation = "keys.revoke"
			}
			all = append(all, keyChange(operation, id, admin.KeyOf(&was, now), admin.KeyOf(&is, now)))
		}
	}
	for id, was := range before {
		if _, has := after[id]; !has {
			all = append(all, keyChange("keys.delete", id, admin.KeyOf(&was, now), nil))
		}
	}
	return all
}

func keyChange(operation, id string, was, is any) admin.Entry {
	return admin.Entry{Who: "the file of keys", Operation: operation, Target: id, Step: "done", Old: was, New: is}
}
