// Package authn turns a credential into a principal and says what that
// principal may do. A credential is an API key of the configuration, a key that
// the gateway minted, or a signed token (JWT) of an issuer that the
// configuration trusts. What it may do is its scopes, then its roles (RBAC),
// then conditions on the request (ABAC). Keys are held as hashes; nothing here
// can give one back. Only the hallway uses it, and app, which owns the room.
package authn

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
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
	const most = 224
	if len(secret) > most {
		return hashLong(secret)
	}
	var room [len(pepper) + most]byte // most secrets fit, and cost no allocation
	return sha256.Sum256(append(append(room[:0], pepper[:]...), secret...))
}

// hashLong has the larger room that a token needs, which a key's hash would
// have to clear for nothing.
func hashLong(secret string) digest {
	var room [len(pepper) + 2016]byte
	return sha256.Sum256(append(append(room[:0], pepper[:]...), secret...))
}

// Room is what survives a reload: minted keys, the keys of issuers as they were
// last fetched, and tokens that have been verified. Its zero value works; Close
// ends what it started.
type Room struct {
	minted   atomic.Pointer[mintedKeys]
	verified tokenCache

	mu     sync.Mutex // guards what follows, when it changes
	sets   atomic.Pointer[map[string]*keySet]
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
	client *http.Client
	closed bool
}

// New makes a room.
func New() *Room { return &Room{} }

// Identify finds the grant of a credential and checks that it covers the
// operation. The lookup is by a keyed hash, so its time says nothing about
// how much of a key was right. A token's first use may wait a few seconds for
// the issuer's keys. The grant is returned with an error, too, where the
// credential is known but does not do.
func (r *Room) Identify(p *Plan, secret string, basic bool, op llm.Operation, now time.Time) (*Grant, error) {
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
	g, err := r.find(p, secret, now)
	if err != nil {
		return g, err
	}
	if !g.expires.IsZero() && !now.Before(g.expires) {
		return g, &fault.Error{Kind: fault.KeyExpired, Op: verb}
	}
	scope := ScopeOf(op)
	if scope == "" {
		return g, nil // everyone may see how they stand
	}
	if !g.may(scope) {
		e := fault.New(fault.Forbidden, verb, "The API key has no scope for this; it needs %q.", scope)
		e.Details = map[string]any{"scope": scope}
		return g, e
	}
	// Authorize asks this again, but before the body is read it costs the
	// client, and us, less.
	if d := p.rbac(g, scope); !d.Allowed {
		return g, d.fault(verb)
	}
	return g, nil
}

// find looks for a credential among the configuration's keys, the minted ones
// and the tokens, in this order.
func (r *Room) find(p *Plan, secret string, now time.Time) (*Grant, error) {
	d := hash(secret)
	if g, ok := p.keys[d]; ok {
		return g, nil
	}
	if strings.HasPrefix(secret, mintedPrefix) {
		if g, err := r.findMinted(secret, now); g != nil || err != nil {
			return g, err
		}
	}
	if p.tokens != nil {
		if g := r.cached(p.tokens, d, now); g != nil {
			return g, nil
		}
		if looksLikeToken(secret) {
			return r.verify(p.tokens, secret, d, now)
		}
	}
	return nil, fault.New(fault.Unauthenticated, "authn.Identify", "The API key is not known to this gateway.")
}

// Adopt begins to fetch the issuers' keys that a new plan needs and stops to
// fetch those that it does not. Without it the first token of an issuer waits
// for the first fetch.
func (r *Room) Adopt(p *Plan) {
	var urls []string
	if p.tokens != nil {
		urls = p.tokens.urls()
	}
	r.keep(urls)
}

// Close ends the fetching of keys and waits for it.
func (r *Room) Close() {
	r.mu.Lock()
	r.closed = true
	cancel, client := r.cancel, r.client
	r.mu.Unlock()
	if cancel != nil {
		cancel()
		r.done.Wait()
		client.CloseIdleConnections()
	}
}
