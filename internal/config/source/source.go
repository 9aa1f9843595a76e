// Package source says where a configuration comes from. App reads a Document
// from a Source, decodes it, and does so again when the Source says that it has
// changed.
//
// Several documents may make up one configuration. In rising precedence they
// are: the defaults, the file, what is built from the environment, and what an
// administrator sets. They are merged by decoding them over each other in that
// order (see package decode), so this package need not know their content.
package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
)

// Source is a place that configuration comes from.
type Source interface {
	// Name says where that is, as in "file headgate.yaml".
	Name() string
	// Get reads the present document.
	Get(ctx context.Context) (Document, error)
	// Watch calls changed after each change of the document, and of what it
	// refers to, until ctx is done. It returns nil then, and an error only if
	// it cannot watch at all. changed is not called concurrently with itself;
	// the next call comes after it has returned.
	Watch(ctx context.Context, changed func()) error
}

// Document is a configuration as text.
type Document struct {
	// Name is what mistakes are placed in, such as a file's path.
	Name string
	Data []byte
	// Version is the SHA-256 of Data in hexadecimal.
	Version string
}

// NewDocument is a document with its version.
func NewDocument(name string, data []byte) Document {
	sum := sha256.Sum256(data)
	return Document{name, data, hex.EncodeToString(sum[:])}
}
