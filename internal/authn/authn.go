// Package authn turns a credential into a principal and says what that
// principal may do. Keys are held as hashes; nothing here can give one back.
// Only the hallway uses it.
package authn

import (
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
)

// pepper makes the hashes of this process worth nothing elsewhere.
var pepper = func() (p [32]byte) {
	_, _ = rand.Read(p[:]) // never fails: crypto/rand aborts the process instead
	return p
}()

type digest [sha256.Size]byte

// hash is a keyed SHA-256 and not a slow password hash: keys are random, so
// there is nothing to guess, and it runs once a request. Putting the key first
// would let a digest be extended to a longer message; no digest ever leaves
// this process, and the fixed length of the pepper keeps key and secret apart.
func hash(secret string) digest {
	var room [len(pepper) + 224]byte // most secrets fit, and cost no allocation
	return sha256.Sum256(append(append(room[:0], pepper[:]...), secret...))
}

// Room has no state of its own yet; what survives a reload will live here.
type Room struct{}

// Grant is who a credential stands for and what it may do. It is part of a
// plan and never changes.
type Grant struct {
	llm.Principal
	models  []string
	scopes  []string
	expires time.Time
}

// Identify finds the grant of a credential and checks that it covers the
// operation. The lookup is by a keyed hash, so its time says nothing about
// how much of a key was right.
func (Room) Identify(p *Plan, secret string, basic bool, op llm.Operation, now time.Time) (*Grant, error) {
	const verb = "authn.Identify"
	if p.open != nil {
		return p.open, nil
	}
	switch {
	case basic:
		return nil, fault.New(fault.Unauthenticated, verb, "User name and password are not accepted here; send an API key as \"Authorization: Bearer …\".")
	case secret == "":
		return nil, fault.New(fault.Unauthenticated, verb, "No API key was sent; send one as \"Authorization: Bearer …\" or in the header x-api-key.")
	}
	g, ok := p.keys[hash(secret)]
	if !ok {
		return nil, fault.New(fault.Unauthenticated, verb, "The API key is not known to this gateway.")
	}
	if !g.expires.IsZero() && !now.Before(g.expires) {
		return g, &fault.Error{Kind: fault.KeyExpired, Op: verb}
	}
	if scope := ScopeOf(op); !g.may(scope) {
		e := fault.New(fault.Forbidden, verb, "The API key has no scope for this; it needs %q.", scope)
		e.Details = map[string]any{"scope": scope}
		return g, e
	}
	return g, nil
}

// MayUse is whether the grant covers a model, by the name the client called.
func (g *Grant) MayUse(model string) bool {
	if g.models == nil {
		return true
	}
	for _, glob := range g.models {
		if setting.Match(glob, model) {
			return true
		}
	}
	return false
}

func (g *Grant) may(scope string) bool {
	if g.scopes == nil {
		return true
	}
	for _, have := range g.scopes {
		if covers(have, scope) {
			return true
		}
	}
	return false
}

// covers is whether a scope, possibly with * for a part, includes another.
func covers(have, want string) bool {
	if have == "inference" {
		return want != "models:read"
	}
	return setting.Match(have, want)
}

// scopes are those of the operations.
var scopes = map[llm.Operation]string{
	llm.Chat: "chat:write", llm.Completion: "chat:write", llm.Responses: "chat:write", llm.CountTokens: "chat:write",
	llm.Embeddings: "embeddings:write", llm.Moderations: "moderations:write", llm.Images: "images:write",
	llm.Speech: "audio:write", llm.Transcriptions: "audio:write",
	llm.ListModels: "models:read", llm.GetModel: "models:read",
}

// ScopeOf is the scope that an operation needs.
func ScopeOf(op llm.Operation) string { return scopes[op] }

// known lists the scopes that a key can be given.
func known() []string {
	return []string{"inference", "chat:write", "embeddings:write", "moderations:write", "images:write", "audio:write", "models:read", "*"}
}

func knownScope(s string) bool {
	for _, op := range scopes {
		if covers(s, op) {
			return true
		}
	}
	return false
}

// canonicalScope accepts the spelling with a dot, as role lists use it.
func canonicalScope(s string) string { return strings.ReplaceAll(s, ".", ":") }
