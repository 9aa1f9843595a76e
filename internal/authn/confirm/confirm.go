// Package confirm has operations confirmed by a second call: the first one is
// answered with a token that works once, within five minutes, for the same
// principal, operation and body. The hallway and the admin API use it for
// operations that cost much or cannot be undone.
package confirm

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
)

const (
	// TTL is how long a token works.
	TTL = 5 * time.Minute
	// maxEach is how many tokens a principal may have at a time; a new one takes
	// the place of its oldest. maxAll bounds the tokens of all principals.
	maxEach = 16
	maxAll  = 4096

	tokenBytes = 32
)

type digest [sha256.Size]byte

// Book holds the tokens that have been issued and not used. Its zero value
// works. Many goroutines may use it.
type Book struct {
	mu     sync.Mutex
	tokens map[digest]*entry
	each   map[string][]*entry // by principal, oldest first
	queue  []*entry            // all, oldest first; used ones stay until they would have expired
}

// entry is a token by its hash: neither the book nor a dump of it has a token
// that works.
type entry struct {
	token     digest
	bound     digest // to what it is bound
	principal string
	expires   time.Time
	gone      bool // used, or pushed out
}

// bind makes one digest of what a token is for. Each part is preceded by its
// length, so that no two differ only in where one part ends.
func bind(principal, operation string, body [sha256.Size]byte) digest {
	var b []byte
	for _, part := range []string{principal, operation} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	return sha256.Sum256(append(b, body[:]...))
}

// Issue makes a token for an operation. The principal is whatever names the
// caller without doubt, such as tenant, key and user. It fails where too many
// tokens are waiting, with a *fault.Error.
func (b *Book) Issue(principal, operation string, body [sha256.Size]byte, now time.Time) (string, error) {
	var random [tokenBytes]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand aborts the process instead
	token := base64.RawURLEncoding.EncodeToString(random[:])

	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire(now)
	if waiting := b.each[principal]; len(waiting) >= maxEach {
		b.remove(waiting[0])
	}
	if len(b.tokens) >= maxAll || len(b.queue) >= 2*maxAll {
		e := fault.New(fault.Overloaded, "confirm.Issue", "Too many operations wait for their confirmation; try again in some minutes.")
		e.RetryAfter = TTL
		return "", e
	}
	if b.tokens == nil {
		b.tokens, b.each = map[digest]*entry{}, map[string][]*entry{}
	}
	e := &entry{token: sha256.Sum256([]byte(token)), bound: bind(principal, operation, body), principal: principal, expires: now.Add(TTL)}
	b.tokens[e.token] = e
	b.each[principal] = append(b.each[principal], e)
	b.queue = append(b.queue, e)
	return token, nil
}

// Redeem uses a token up, and is nil where it was issued for the very same
// principal, operation and body. A token that is presented for anything else is
// used up, too: whoever does that should not have a second try. The error is
// always the same, a *fault.Error.
func (b *Book) Redeem(token, principal, operation string, body [sha256.Size]byte, now time.Time) error {
	want := bind(principal, operation, body)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire(now)
	// The lookup is by hash, so its time says nothing about a token.
	e := b.tokens[sha256.Sum256([]byte(token))]
	if e == nil {
		return refusal()
	}
	b.remove(e)
	if subtle.ConstantTimeCompare(e.bound[:], want[:]) != 1 {
		return refusal()
	}
	return nil
}

func refusal() *fault.Error {
	return &fault.Error{
		Kind: fault.Forbidden, Op: "confirm.Redeem", Code: "CONFIRMATION_INVALID",
		Public: "The confirmation does not do for this request: it was used, has expired, or was for another one. Send the request without it to get a new one.",
	}
}

// expire forgets what is too old. All tokens live equally long, so the oldest
// are in front; a clock that was set back only delays it.
func (b *Book) expire(now time.Time) {
	n := 0
	for ; n < len(b.queue) && !now.Before(b.queue[n].expires); n++ {
		b.remove(b.queue[n])
	}
	b.queue = slices.Delete(b.queue, 0, n)
}

// remove takes an entry out of both indexes, once.
func (b *Book) remove(e *entry) {
	if e.gone {
		return
	}
	e.gone = true
	delete(b.tokens, e.token)
	rest := slices.DeleteFunc(b.each[e.principal], func(other *entry) bool { return other == e })
	if len(rest) == 0 {
		delete(b.each, e.principal)
	} else {
		b.each[e.principal] = rest
	}
}
