// Package keyfile keeps the records of minted keys in one JSON file, which a
// gateway and commands beside it may share. It holds hashes and no keys. app
// uses it as an authn.KeyStore.
package keyfile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/headgate-ai/headgate/internal/authn"
)

// Store is a file of records. A reader sees the file as it was before a change
// or after it, in whatever process. A change reads, alters and writes the whole
// file, so that of two at the same time one would be lost: within a process the
// Store sees to that, and among processes its user must, as app's KeyRing does
// with a lock.
type Store struct {
	path string
	mu   sync.Mutex // held for a change
}

var _ authn.KeyStore = (*Store)(nil)

// New is the store at a path. The file is made by the first Put; its folder
// must exist.
func New(path string) *Store { return &Store{path: path} }

// document is the file's content. The version lets a later form be told apart.
type document struct {
	Version int               `json:"version"`
	Keys    []authn.KeyRecord `json:"keys"`
}

const version = 1

// List is all records, by id; none where there is no file.
func (s *Store) List() ([]authn.KeyRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read()
}

// Put adds a record, or replaces the one with its id. It is on disk when Put
// returns.
func (s *Store) Put(record authn.KeyRecord) error {
	if record.ID == "" {
		return errors.New("a record without an id cannot be kept")
	}
	return s.change(func(all []authn.KeyRecord) []authn.KeyRecord {
		all = slices.DeleteFunc(all, func(r authn.KeyRecord) bool { return r.ID == record.ID })
		return append(all, record)
	})
}

// Delete removes a record; that there is none with the id is no error.
func (s *Store) Delete(id string) error {
	return s.change(func(all []authn.KeyRecord) []authn.KeyRecord {
		return slices.DeleteFunc(all, func(r authn.KeyRecord) bool { return r.ID == id })
	})
}

func (s *Store) change(alter func([]authn.KeyRecord) []authn.KeyRecord) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, err := s.read()
	if err != nil {
		return err // what cannot be read is not overwritten
	}
	all = alter(all)
	slices.SortFunc(all, func(a, b authn.KeyRecord) int { return cmp.Compare(a.ID, b.ID) })
	return s.write(all)
}

func (s *Store) read() ([]authn.KeyRecord, error) {
	data, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the key records: %w", err)
	}
	return parse(s.path, data)
}

func parse(path string, data []byte) ([]authn.KeyRecord, error) {
	var doc document
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%s is not a file of key records: %w", path, err)
	}
	if doc.Version != version {
		return nil, fmt.Errorf("%s is of version %d; this program reads version %d", path, doc.Version, version)
	}
	return doc.Keys, nil
}

// write puts the records into a new file beside the old one and then into its
// place, so that the file is whole whenever the machine stops.
func (s *Store) write(all []authn.KeyRecord) (err error) {
	data, err := json.MarshalIndent(document{version, all}, "", "  ")
	if err != nil {
		return err
	}
	dir := filepath.Dir(s.path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(s.path)+".*") // with mode 0600
	if err != nil {
		return fmt.Errorf("cannot write the key records: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
			err = fmt.Errorf("cannot write the key records: %w", err)
		}
	}()
	_, err = f.Write(append(data, '\n'))
	if err = cmp.Or(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), s.path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a rename last. Some file systems cannot sync a folder, which is
// no reason to report a change that has been made as failed.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	_ = d.Sync()
	return d.Close()
}
