// Package file is a configuration in a file, watched for changes however an
// editor, a deployment or a mounted volume makes them.
// cli uses it, and hands it to app.
package file

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/headgate-ai/headgate/internal/config/source"
)

// maxBytes keeps a wrong path, such as a device, from filling the memory. It is
// well above what package decode accepts.
const maxBytes = 16 << 20

// Source is a configuration file. It may be used concurrently.
type Source struct {
	path  string
	also  func() []string
	times times

	mu sync.Mutex
	// version is that of the last Get, so that Watch notices a change that
	// happened between the two.
	version string
}

var _ source.Source = (*Source)(nil)

// New is the configuration in the file at path. The function also names further
// files to watch, such as those of secrets; it is asked again after each change
// and may be nil.
func New(path string, also func() []string) *Source {
	if also == nil {
		also = func() []string { return nil }
	}
	return &Source{path: path, also: also, times: usual}
}

// Name is "file" and the path.
func (s *Source) Name() string { return "file " + s.path }

// Get reads the file.
func (s *Source) Get(context.Context) (source.Document, error) {
	data, err := read(s.path)
	if err != nil {
		return source.Document{}, fmt.Errorf("cannot read the configuration: %w", err)
	}
	doc := source.NewDocument(s.path, data)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = doc.Version
	return doc, nil
}

func (s *Source) lastVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxBytes {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxBytes)
	}
	return data, nil
}

// version is that of a file's content, if it can be read just now. Only regular
// files have one: a pipe can be read once, and that was the configuration.
func version(path string) (string, bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	data, err := read(path)
	if err != nil {
		return "", false
	}
	return source.NewDocument(path, data).Version, true
}
