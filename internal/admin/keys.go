package admin

import (
	"net/http"
	"time"

	"github.com/headgate-ai/headgate/internal/authn"
	"github.com/headgate-ai/headgate/internal/setting"
)

// Key is a minted key as operators see it: neither the key nor its hash.
type Key struct {
	authn.KeyInfo
	State string `json:"state"` // active, retiring (it was rotated, and still works), expired or revoked
}

// KeyOf shows a record.
func KeyOf(r *authn.KeyRecord, now time.Time) Key {
	k := Key{r.KeyInfo, "active"}
	over := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	switch {
	case over(r.Revoked):
		k.State = "revoked"
	case over(r.Expires), over(r.GraceUntil):
		k.State = "expired"
	case !r.GraceUntil.IsZero():
		k.State = "retiring"
	}
	return k
}

// Keys are the keys that the gateway mints. Mistakes are of type *Refusal. A
// key that a method returns is shown once and kept nowhere.
type Keys interface {
	List() ([]Key, error)
	Find(id string) (Key, error)
	Create(want authn.KeyHolder) (secret string, made Key, err error)
	// Rotate makes a key in the place of one that works until grace has passed.
	Rotate(id string, grace time.Duration) (secret string, fresh, retired Key, err error)
	Revoke(id string) (Key, error)
}

// wantedKey is the body of POST /admin/v1/keys.
type wantedKey struct {
	authn.KeyHolder
	Expires when   `json:"expires"` // in place of the holder's: a date will do
	Reason  string `json:"reason"`
}

// minted is a key that is shown for the only time.
type minted struct {
	Secret string `json:"key"`
	Key
	// Retired is the key that a rotated one takes the place of.
	Retired *Key `json:"retired,omitempty"`
}

// hasKeys answers where the gateway keeps no keys.
func (g *server) hasKeys(w http.ResponseWriter) bool {
	if g.Keys == nil {
		fail(w, http.StatusNotFound, "this gateway mints no keys; set keystore.path in its configuration")
	}
	return g.Keys != nil
}

func (g *server) listKeys(w http.ResponseWriter, _ *http.Request) {
	if !g.hasKeys(w) {
		return
	}
	all, err := g.Keys.List()
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	write(w, http.StatusOK, map[string]any{"keys": all})
}

func (g *server) createKey(w http.ResponseWriter, r *http.Request) {
	if !g.hasKeys(w) {
		return
	}
	var want wantedKey
	c, ok := g.begin(w, r, "keys.create", "", &want)
	if !ok {
		return
	}
	want.KeyHolder.Expires = time.Time(want.Expires)
	secret, made, err := g.Keys.Create(want.KeyHolder)
	if err != nil {
		c.fail(err)
		return
	}
	c.target = made.ID
	c.done(http.StatusCreated, Entry{New: made, Reason: want.Reason}, minted{Secret: secret, Key: made})
}

// defaultGrace is how long a key works after its rotation where the operator
// does not say.
const defaultGrace = setting.Duration(24 * time.Hour)

func (g *server) rotateKey(w http.ResponseWriter, r *http.Request) {
	if !g.hasKeys(w) {
		return
	}
	want := struct {
		Grace  setting.Duration `json:"grace"`
		Reason string           `json:"reason"`
	}{Grace: defaultGrace}
	id := r.PathValue("id")
	c, ok := g.begin(w, r, "keys.rotate", id, &want)
	if !ok {
		return
	}
	old, err := g.Keys.Find(id)
	if err != nil {
		c.fail(err)
		return
	}
	if !c.confirmed(want.Reason) {
		return
	}
	secret, fresh, retired, err := g.Keys.Rotate(id, want.Grace.Std())
	if err != nil {
		c.fail(err)
		return
	}
	c.done(http.StatusCreated, Entry{Old: old, New: fresh, Reason: want.Reason}, minted{Secret: secret, Key: fresh, Retired: &retired})
}

func (g *server) revokeKey(w http.ResponseWriter, r *http.Request) {
	if !g.hasKeys(w) {
		return
	}
	id := r.PathValue("id")
	c, ok := g.begin(w, r, "keys.revoke", id, nil)
	if !ok {
		return
	}
	old, err := g.Keys.Find(id)
	if err != nil {
		c.fail(err)
		return
	}
	reason := r.URL.Query().Get("reason")
	if !c.confirmed(reason) {
		return
	}
	gone, err := g.Keys.Revoke(id)
	if err != nil {
		c.fail(err)
		return
	}
	c.done(http.StatusOK, Entry{Old: old, New: gone, Reason: reason}, gone)
}
