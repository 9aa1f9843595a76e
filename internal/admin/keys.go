package admin

import (
	"net/http"
	"time"

	"github.com/headgate-ai/headgate/internal/authn"
	"github.com/headgate-ai/headgate/internal/setting"
)

// Key is a minted key as operators see it: neither the key nor its hash.
type Key struct {
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	State  string   `json:"state"` // active, retiring (it was rotated, and still works), expired or revoked
	Tenant string   `json:"tenant,omitempty"`
	User   string   `json:"user,omitempty"`
	Tier   string   `json:"tier,omitempty"`
	Class  string   `json:"class,omitempty"`
	Roles  []string `json:"roles,omitempty"`
	// Models and Scopes are null for all, and empty for none.
	Models      []string  `json:"models"`
	Scopes      []string  `json:"scopes"`
	Created     time.Time `json:"created"`
	Expires     time.Time `json:"expires,omitzero"`
	Revoked     time.Time `json:"revoked,omitzero"`
	GraceUntil  time.Time `json:"grace_until,omitzero"`
	RotatedFrom string    `json:"rotated_from,omitempty"`
}

// KeyOf shows a record.
func KeyOf(r *authn.KeyRecord, now time.Time) Key {
	k := Key{
		ID: r.ID, Name: r.Name, State: "active", Tenant: r.Tenant, User: r.User, Tier: r.Tier, Class: r.Class, Roles: r.Roles, Models: r.Models,
		Scopes: r.Scopes, Created: r.Created, Expires: r.Expires, Revoked: r.Revoked, GraceUntil: r.GraceUntil, RotatedFrom: r.RotatedFrom,
	}
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
	Create(want authn.KeyRecord) (secret string, made Key, err error)
	// Rotate makes a key in the place of one that works until grace has passed.
	Rotate(id string, grace time.Duration) (secret string, fresh, retired Key, err error)
	Revoke(id string) (Key, error)
}

// wantedKey is the body of POST /admin/v1/keys.
type wantedKey struct {
	Name    string   `json:"name"`
	Tenant  string   `json:"tenant"`
	User    string   `json:"user"`
	Tier    string   `json:"tier"`
	Class   string   `json:"class"`
	Roles   []string `json:"roles"`
	Models  []string `json:"models"`
	Scopes  []string `json:"scopes"`
	Expires when     `json:"expires"`
	Reason  string   `json:"reason"`
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
	secret, made, err := g.Keys.Create(authn.KeyRecord{
		Name: want.Name, Tenant: want.Tenant, User: want.User, Tier: want.Tier, Class: want.Class, Roles: want.Roles,
		Models: want.Models, Scopes: want.Scopes, Expires: time.Time(want.Expires),
	})
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
