package authn

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
)

// KeyHolder is whom a minted key is for, and what it may do.
type KeyHolder struct {
	Name   string   `json:"name"`
	Tenant string   `json:"tenant,omitempty"` // default is the name
	User   string   `json:"user,omitempty"`
	Tier   string   `json:"tier,omitempty"`
	Class  string   `json:"class,omitempty"`
	Roles  []string `json:"roles,omitempty"`
	// Models and Scopes are those of KeyConfig: nil is all, empty is none.
	Models []string `json:"models"`
	Scopes []string `json:"scopes"`

	Expires time.Time `json:"expires,omitzero"`
}

// KeyInfo is what may be told of a minted key: all but its hash.
type KeyInfo struct {
	ID string `json:"id"`
	KeyHolder
	Created time.Time `json:"created"`
	Revoked time.Time `json:"revoked,omitzero"`
	// RotatedFrom is the id of the key that this one takes the place of, and
	// GraceUntil, on that other one, how long it still works.
	RotatedFrom string    `json:"rotated_from,omitempty"`
	GraceUntil  time.Time `json:"grace_until,omitzero"`
}

// KeyRecord is what is kept of a key that the gateway minted. Hash is the plain
// SHA-256 of its secret part: that is 256 random bits, so no one finds it by
// guessing, salt or none, and a slow hash would only slow down every request.
type KeyRecord struct {
	KeyInfo
	Hash string `json:"hash"` // in hex
}

// KeyStore keeps records. What it lists is given to Room.SetKeys, at start and
// after each change.
type KeyStore interface {
	// List is all records, by id.
	List() ([]KeyRecord, error)
	// Put adds a record, or replaces the one with its id.
	Put(KeyRecord) error
	// Delete removes a record; that there is none with the id is no error.
	Delete(id string) error
}

const (
	mintedPrefix = "gk_"
	idBytes      = 10
	secretBytes  = 32
)

// spelling has no letters that a key's parts are separated by, and survives
// where upper and lower case do not.
var spelling = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Mint makes a new key for a holder. The key, written gk_<id>_<secret>, is shown
// once and kept nowhere.
func Mint(want KeyHolder, now time.Time) (key string, record KeyRecord) {
	var random [idBytes + secretBytes]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand aborts the process instead
	id, secret := spelling.EncodeToString(random[:idBytes]), spelling.EncodeToString(random[idBytes:])
	sum := sha256.Sum256([]byte(secret))
	record = KeyRecord{KeyInfo{ID: id, KeyHolder: want, Created: now}, hex.EncodeToString(sum[:])}
	return mintedPrefix + id + "_" + secret, record
}

// Rotate makes a key that takes the place of an old one, and the old one's
// record as it is from now on: it works until grace has passed, so that its
// holders have time to change. Both records are to be stored.
func Rotate(old KeyRecord, grace time.Duration, now time.Time) (key string, fresh, retired KeyRecord) {
	key, fresh = Mint(old.KeyHolder, now)
	fresh.RotatedFrom = old.ID
	retired = old
	if until := now.Add(max(grace, 0)); retired.GraceUntil.IsZero() || until.Before(retired.GraceUntil) {
		retired.GraceUntil = until // a second rotation does not give the first key a longer life
	}
	return key, fresh, retired
}

// ends is when the record's key stops to work, and whether it ever does.
func (k *KeyRecord) ends() (at time.Time, ever bool) {
	for _, t := range []time.Time{k.Revoked, k.Expires, k.GraceUntil} {
		if !t.IsZero() && (!ever || t.Before(at)) {
			at, ever = t, true
		}
	}
	return at, ever
}

// mintedKeys are the records as they are looked up.
type mintedKeys struct{ byID map[string]*mintedKey }

type mintedKey struct {
	hash    [sha256.Size]byte
	grant   *Grant // its expires is the earliest end
	revoked time.Time
}

// SetKeys makes records the minted keys from the next request on, in place of
// the ones before: a key that is revoked, or not among them, is refused at
// once. A record that cannot be read refuses all of them.
func (r *Room) SetKeys(records []KeyRecord) error {
	keys := &mintedKeys{byID: make(map[string]*mintedKey, len(records))}
	for i := range records {
		rec := &records[i]
		m := &mintedKey{grant: rec.grant(), revoked: rec.Revoked}
		if sum, err := hex.DecodeString(rec.Hash); err != nil || copy(m.hash[:], sum) != len(sum) || len(sum) != len(m.hash) {
			return fmt.Errorf("the record of key %q: its hash is not %d hexadecimal digits", rec.ID, 2*len(m.hash))
		}
		if rec.ID == "" || strings.Contains(rec.ID, "_") {
			return fmt.Errorf("a record has the id %q; an id is letters and digits", rec.ID)
		}
		if keys.byID[rec.ID] != nil {
			return fmt.Errorf("there are two records with the id %q", rec.ID)
		}
		keys.byID[rec.ID] = m
	}
	r.minted.Store(keys)
	return nil
}

func (k *KeyRecord) grant() *Grant {
	g := &Grant{
		Principal: llm.Principal{Key: k.Name, Tenant: k.Tenant, User: k.User, Tier: k.Tier},
		class:     k.Class, roles: slices.Clone(k.Roles), models: slices.Clone(k.Models),
	}
	if g.Key == "" {
		g.Key = k.ID
	}
	if g.Tenant == "" {
		g.Tenant = g.Key
	}
	if k.Scopes != nil {
		g.scopes = append([]string{}, canonicalScopes(k.Scopes)...)
	}
	if at, ever := k.ends(); ever {
		g.expires = at
	}
	return g
}

// findMinted looks a minted key up. Without a record of its id it is no key of
// ours, and may be one of the configuration's.
func (r *Room) findMinted(secret string, now time.Time) (*Grant, error) {
	keys := r.minted.Load()
	id, rest, ok := strings.Cut(secret[len(mintedPrefix):], "_")
	if keys == nil || !ok {
		return nil, nil
	}
	m := keys.byID[id]
	if m == nil {
		return nil, nil
	}
	sum := sha256.Sum256([]byte(rest))
	if subtle.ConstantTimeCompare(sum[:], m.hash[:]) != 1 {
		return nil, nil // the same answer as for an id that does not exist
	}
	if !m.revoked.IsZero() && !now.Before(m.revoked) {
		return m.grant, fault.New(fault.Unauthenticated, "authn.Identify", "The API key has been revoked; ask who operates the gateway for a new one.")
	}
	return m.grant, nil
}

// Minted lists the ids of the minted keys that are known, for operators.
func (r *Room) Minted() []string {
	keys := r.minted.Load()
	if keys == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(keys.byID))
}
