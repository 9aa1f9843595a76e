// Package config is the table of contents of every room's configuration: it
// lists the sections, decodes a document into them and checks them all. What a
// section means is written beside its type, in its room. app and cli use it.
package config

import (
	"cmp"
	"slices"
	"strings"

	"github.com/headgate-ai/headgate/internal/admin"
	"github.com/headgate-ai/headgate/internal/authn"
	"github.com/headgate-ai/headgate/internal/config/decode"
	"github.com/headgate-ai/headgate/internal/config/source"
	"github.com/headgate-ai/headgate/internal/edge"
	"github.com/headgate-ai/headgate/internal/journal"
	"github.com/headgate-ai/headgate/internal/route"
	"github.com/headgate-ai/headgate/internal/setting"
	"github.com/headgate-ai/headgate/internal/stream"
	"github.com/headgate-ai/headgate/internal/upstream"
)

// File is a whole configuration.
type File struct {
	// Server is where the gateway listens.
	Server Server `yaml:"server"`
	// Auth is who may call: keys, those with a key; none, everyone, which is for
	// a listener on loopback only.
	Auth string `yaml:"auth"`
	// Providers are the services that answer calls.
	Providers []upstream.ProviderConfig `yaml:"providers"`
	// Models are the models that clients may call.
	Models []route.ModelConfig `yaml:"models"`
	// Keys are the API keys that clients call with.
	Keys []authn.KeyConfig `yaml:"keys"`
	// Stream is how answers travel to clients.
	Stream stream.Config `yaml:"stream"`
	// Journal is what is logged, kept and traced of requests.
	Journal journal.Config `yaml:"journal"`
}

// Server is where the gateway listens.
type Server struct {
	// API is the listener that clients call.
	API edge.Config `yaml:"api"`
	// Admin is the listener for operators.
	Admin admin.Config `yaml:"admin"`
}

// Default is the configuration that an empty document means.
func Default() *File {
	return &File{
		Server:  Server{API: edge.Default(), Admin: admin.Default()},
		Auth:    "keys",
		Stream:  stream.Default(),
		Journal: journal.Default(),
	}
}

// Loaded is a document that has been decoded.
type Loaded struct {
	*File
	Document  source.Document
	Positions decode.Positions
}

// Load decodes and checks a document. Every mistake is reported, with its place.
func Load(doc source.Document) (*Loaded, decode.Mistakes) {
	l := &Loaded{File: Default(), Document: doc}
	var mistakes decode.Mistakes
	l.Positions, mistakes = decode.YAML(doc.Name, doc.Data, l.File)
	if unreadable(mistakes) {
		return nil, mistakes
	}
	var p setting.Problems
	l.Validate(&p)
	if mistakes = merge(mistakes, l.Place(p)); len(mistakes) > 0 {
		return nil, mistakes
	}
	return l, nil
}

// unreadable is whether the document as a whole could not be decoded.
func unreadable(mistakes decode.Mistakes) bool {
	return slices.ContainsFunc(mistakes, func(m decode.Mistake) bool { return m.Path == "" })
}

// merge adds to the mistakes of decoding those that a check found, but for the
// ones that only follow from the former: a field that could not be decoded is
// not also missing.
func merge(decoded, checked decode.Mistakes) decode.Mistakes {
	known := len(decoded)
	for _, c := range checked {
		if !slices.ContainsFunc(decoded[:known], func(d decode.Mistake) bool { return within(c.Path, d.Path) || within(d.Path, c.Path) }) {
			decoded = append(decoded, c)
		}
	}
	slices.SortStableFunc(decoded, func(a, b decode.Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return decoded
}

// within is whether path is at or below top.
func within(path, top string) bool {
	rest, ok := strings.CutPrefix(path, top)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Place finds where in the document the problems lie.
func (l *Loaded) Place(p setting.Problems) decode.Mistakes {
	if len(p) == 0 {
		return nil
	}
	return l.Positions.Place(l.Document.Name, p)
}

// Validate notes every mistake in every section.
func (f *File) Validate(p *setting.Problems) {
	f.Server.API.Validate("server.api", p)
	f.Server.Admin.Validate("server.admin", p)
	f.AuthnConfig().Validate(p)
	if f.Auth == "none" && !setting.Loopback(f.Server.API.Listen) {
		p.Add("auth", "none is for listeners on loopback only, and %q can be reached from other machines; add keys, or listen on 127.0.0.1", f.Server.API.Listen)
	}
	upstream.Validate(f.Providers, p)
	if len(f.Providers) == 0 {
		p.Add("providers", "there are none; add one, such as {name: openai, dialect: openai, base_url: https://api.openai.com/v1}")
	}
	f.RouteConfig().Validate(p)
	f.Stream.Validate("stream", p)
	f.Journal.Validate("journal", p)
}

// AuthnConfig is what the room authn needs of the file.
func (f *File) AuthnConfig() *authn.Config { return &authn.Config{Auth: f.Auth, Keys: f.Keys} }

// RouteConfig is what the room route needs of the file.
func (f *File) RouteConfig() *route.Config {
	c := &route.Config{Models: f.Models}
	for _, p := range f.Providers {
		c.Providers = append(c.Providers, p.Name)
	}
	return c
}

// SecretFiles are the files that the configuration's secrets and certificates
// lie in; a change of one of them is a change of the configuration.
func (f *File) SecretFiles() (files []string) {
	add := func(path string) {
		if path != "" {
			files = append(files, path)
		}
	}
	for _, p := range f.Providers {
		for _, c := range p.Credentials {
			add(c.Secret.File())
		}
	}
	for _, k := range f.Keys {
		add(k.Secret.File())
	}
	add(f.Server.Admin.Token.File())
	add(f.Server.API.TLS.TicketKeys.File())
	add(f.Server.API.TLS.Cert)
	add(f.Server.API.TLS.Key)
	return files
}
