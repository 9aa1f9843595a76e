package app

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate-ai/headgate/internal/admin"
	"github.com/headgate-ai/headgate/internal/authn"
	"github.com/headgate-ai/headgate/internal/authn/keyfile"
	"github.com/headgate-ai/headgate/internal/config"
	"github.com/headgate-ai/headgate/internal/setting"
)

// Key is a minted key as operators see it.
type Key = admin.Key

// KeyRing is the minted keys of a file, and the changes that can be made to
// them. A gateway has one; the command line has another of the same file, beside
// the gateway: a lock keeps their changes apart.
type KeyRing struct {
	path  string
	store *keyfile.Store
	// check says what is wrong with a key that is to be made.
	check func(authn.KeyHolder) error
	// changed is given all records after a change; nil is not.
	changed func([]authn.KeyRecord) error
	mu      sync.Mutex
}

var _ admin.Keys = (*KeyRing)(nil)

// NewKeyRing is the keys in a file. A key that is to be made is checked against
// a configuration, or where that is nil only by its form.
func NewKeyRing(path string, f *config.File) *KeyRing {
	k := &KeyRing{path: path, store: keyfile.New(path)}
	k.check = func(r authn.KeyHolder) error { return checkKey(f, r) }
	return k
}

// checkKey holds a key against what the configuration says of its own keys.
func checkKey(f *config.File, r authn.KeyHolder) error {
	c := authn.Config{Auth: "keys", Minted: true, Keys: []authn.KeyConfig{{
		Name: r.Name, Secret: setting.NewSecret("literal:none"), Tenant: r.Tenant, User: r.User,
		Tier: r.Tier, Class: r.Class, Roles: r.Roles, Scopes: r.Scopes,
	}}}
	if f != nil {
		c.Tiers, c.Access.Roles = f.Tiers, f.Access.Roles
		for _, k := range f.Keys {
			if k.Name == r.Name && k.Name != "" {
				return refusal(http.StatusConflict, "%q is the name of a key of the configuration; names must differ", k.Name)
			}
		}
	} else {
		c.Tiers, c.Access.Roles = map[string]authn.TierConfig{}, map[string][]string{}
		if c.Keys[0].Tier = ""; r.Tier != "" {
			c.Tiers[r.Tier] = authn.TierConfig{}
		}
		for _, role := range r.Roles {
			c.Access.Roles[role] = []string{"*"}
		}
	}
	var p setting.Problems
	c.Validate(&p)
	var all []string
	for _, one := range p {
		all = append(all, strings.TrimPrefix(one.Path, "keys[0].")+": "+one.Message)
	}
	if len(all) > 0 {
		return refusal(http.StatusUnprocessableEntity, "%s", strings.Join(all, "; "))
	}
	return nil
}

func refusal(status int, format string, args ...any) error {
	return &admin.Refusal{Status: status, Message: fmt.Sprintf(format, args...)}
}

// List is all keys, the oldest first.
func (k *KeyRing) List() ([]Key, error) {
	records, err := k.store.List()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	all := make([]Key, len(records))
	for i := range records {
		all[i] = admin.KeyOf(&records[i], now)
	}
	slices.SortStableFunc(all, func(a, b Key) int { return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID)) })
	return all, nil
}

// Find is the key of an id.
func (k *KeyRing) Find(id string) (Key, error) {
	r, err := k.find(id)
	return admin.KeyOf(&r, time.Now()), err
}

func (k *KeyRing) find(id string) (authn.KeyRecord, error) {
	records, err := k.store.List()
	if err != nil {
		return authn.KeyRecord{}, err
	}
	for _, r := range records {
		if r.ID == id {
			return r, nil
		}
	}
	return authn.KeyRecord{}, refusal(http.StatusNotFound, "there is no key with the id %q; list the keys to see their ids", id)
}

// Create makes a key.
func (k *KeyRing) Create(want authn.KeyHolder) (secret string, made Key, err error) {
	now := time.Now()
	if !want.Expires.IsZero() && !want.Expires.After(now) {
		return "", made, refusal(http.StatusUnprocessableEntity, "expires: %s is over; name a time to come", want.Expires.Format(time.RFC3339))
	}
	if err := k.check(want); err != nil {
		return "", made, err
	}
	err = k.change(func() error {
		records, err := k.store.List()
		if err != nil {
			return err
		}
		for i := range records {
			if state := admin.KeyOf(&records[i], now).State; records[i].Name == want.Name && state == "active" {
				return refusal(http.StatusConflict, "the key %s has the name %q; names must differ, or what they use could not be told apart", records[i].ID, want.Name)
			}
		}
		var record authn.KeyRecord
		secret, record = authn.Mint(want, now.UTC())
		made = admin.KeyOf(&record, now)
		return k.store.Put(record)
	})
	if err != nil {
		secret = ""
	}
	return secret, made, err
}

// Rotate makes a key that takes the place of another one, which works until
// grace has passed.
func (k *KeyRing) Rotate(id string, grace time.Duration) (secret string, fresh, retired Key, err error) {
	now := time.Now()
	err = k.change(func() error {
		old, err := k.find(id)
		if err != nil {
			return err
		}
		if s := admin.KeyOf(&old, now).State; s != "active" && s != "retiring" {
			return refusal(http.StatusConflict, "the key %s is %s; make a new one", id, s)
		}
		var next, last authn.KeyRecord
		secret, next, last = authn.Rotate(old, grace, now.UTC())
		fresh, retired = admin.KeyOf(&next, now), admin.KeyOf(&last, now)
		// The new one first: whatever happens in between, a key works.
		if err := k.store.Put(next); err != nil {
			return err
		}
		return k.store.Put(last)
	})
	if err != nil {
		secret = ""
	}
	return secret, fresh, retired, err
}

// Revoke ends a key at once. Its record stays, so that its past can be told.
func (k *KeyRing) Revoke(id string) (gone Key, err error) {
	now := time.Now()
	err = k.change(func() error {
		r, err := k.find(id)
		if err != nil {
			return err
		}
		if r.Revoked.IsZero() {
			r.Revoked = now.UTC()
		}
		gone = admin.KeyOf(&r, now)
		return k.store.Put(r)
	})
	return gone, err
}

// change makes one change, with no other in this process or another one
// meanwhile, and tells of it.
func (k *KeyRing) change(f func() error) (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	unlock, err := lockFile(k.path + ".lock")
	if err != nil {
		return fmt.Errorf("cannot take the file of keys for a change: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := f(); err != nil {
		return err
	}
	if k.changed == nil {
		return nil
	}
	records, err := k.store.List()
	if err != nil {
		return err
	}
	return k.changed(records)
}
