// Package static is a configuration held in memory: one that is built from the
// environment, the demonstration's, or an administrator's.
// cli uses it, and hands it to app.
package static

import (
	"bytes"
	"context"
	"sync"

	"github.com/headgate-ai/headgate/internal/config/source"
)

// Source is a document in memory. It may be used concurrently.
type Source struct {
	name string

	mu  sync.Mutex
	doc source.Document
	// replaced is closed, and made anew, when doc changes.
	replaced chan struct{}
}

var _ source.Source = (*Source)(nil)

// New holds a copy of data under a name.
func New(name string, data []byte) *Source {
	return &Source{
		name:     name,
		doc:      source.NewDocument(name, bytes.Clone(data)),
		replaced: make(chan struct{}),
	}
}

// Name is the name given to New.
func (s *Source) Name() string { return s.name }

// Get gives the document. Its data is not to be changed.
func (s *Source) Get(context.Context) (source.Document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doc, nil
}

// Set replaces the document, for watchers to notice unless it is the same.
func (s *Source) Set(data []byte) {
	doc := source.NewDocument(s.name, bytes.Clone(data))
	s.mu.Lock()
	defer s.mu.Unlock()
	if doc.Version == s.doc.Version {
		return
	}
	s.doc = doc
	close(s.replaced)
	s.replaced = make(chan struct{})
}

// Watch calls changed after each Set that changed the document. Several that
// come while changed runs are told as one.
func (s *Source) Watch(ctx context.Context, changed func()) error {
	_, version := s.state()
	for {
		replaced, now := s.state()
		if now != version {
			version = now
			changed()
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-replaced:
		}
	}
}

func (s *Source) state() (replaced <-chan struct{}, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replaced, s.doc.Version
}
