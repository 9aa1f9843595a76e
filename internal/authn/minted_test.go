package authn

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
)

func mintedPlan(t *testing.T) *Plan {
	t.Helper()
	return compilePlan(t, Config{Minted: true, Tiers: tiers(), Keys: []KeyConfig{{Name: "old", Secret: setting.NewSecret("literal:gk_not_minted")}}})
}

func TestMinted(t *testing.T) {
	p, r := mintedPlan(t), New()
	key, rec := Mint(KeyHolder{Name: "web", Tenant: "acme", User: "u1", Tier: "gold", Roles: []string{"x"}, Models: []string{"gpt-*"}, Scopes: []string{"chat.write"}, Expires: now.Add(time.Hour)}, now)
	if err := r.try(p, key); fault.KindOf(err) != fault.Unauthenticated {
		t.Error("before it is set:", err)
	}
	if err := r.SetKeys([]KeyRecord{rec}); err != nil {
		t.Fatal(err)
	}
	g, err := r.Identify(p, key, false, llm.Chat, now)
	if err != nil || g.Key != "web" || g.Tenant != "acme" || g.User != "u1" || g.Tier != "gold" || p.Class(g) != "P0" || !g.MayUse("gpt-4") || g.MayUse("claude") {
		t.Errorf("%+v %v", g, err)
	}
	if _, err := r.Identify(p, key, false, llm.Embeddings, now); fault.KindOf(err) != fault.Forbidden {
		t.Error("another scope:", err)
	}
	if _, err := r.Identify(p, key, false, llm.Chat, now.Add(time.Hour)); fault.KindOf(err) != fault.KeyExpired {
		t.Error("expired:", err)
	}
	parts := strings.Split(key, "_")
	if len(parts) != 3 || parts[1] != rec.ID || len(parts[2]) != 52 || strings.Contains(rec.Hash, parts[2]) {
		t.Errorf("%q %+v", key, rec)
	}
	for _, wrong := range []string{key + "a", key[:len(key)-1], strings.ToUpper(key), "gk_", "gk__", "gk_" + rec.ID, "gk_" + rec.ID + "_", parts[2], "gk_" + rec.ID + "_" + rec.Hash} {
		if err := r.try(p, wrong); fault.KindOf(err) != fault.Unauthenticated || strings.Contains(err.Error(), parts[2]) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if err := r.try(p, "gk_not_minted"); err != nil {
		t.Error("a key of the configuration:", err)
	}
	rec.Revoked = now
	if err := r.SetKeys([]KeyRecord{rec}); err != nil {
		t.Fatal(err)
	}
	if err := r.try(p, key); fault.KindOf(err) != fault.Unauthenticated || !strings.Contains(err.Error(), "revoked") {
		t.Error("revoked:", err)
	}
	if _, err := r.Identify(p, key, false, llm.Chat, now.Add(-1)); err != nil {
		t.Error("before the revocation:", err)
	}
}

// An old key works until its grace has passed, the new one from the start.
func TestRotate(t *testing.T) {
	p, r := mintedPlan(t), New()
	oldKey, rec := Mint(KeyHolder{Name: "web"}, now)
	newKey, fresh, retired := Rotate(rec, time.Hour, now)
	if fresh.RotatedFrom != rec.ID || fresh.ID == rec.ID || fresh.Name != "web" || !retired.GraceUntil.Equal(now.Add(time.Hour)) || newKey == oldKey {
		t.Errorf("%+v %+v", fresh, retired)
	}
	if err := r.SetKeys([]KeyRecord{fresh, retired}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key   string
		after time.Duration
		ok    bool
	}{{oldKey, 0, true}, {oldKey, time.Hour - 1, true}, {oldKey, time.Hour, false}, {newKey, 0, true}, {newKey, 1000 * time.Hour, true}} {
		if _, err := r.Identify(p, c.key, false, llm.Chat, now.Add(c.after)); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, _, again := Rotate(retired, 24*time.Hour, now); !again.GraceUntil.Equal(retired.GraceUntil) {
		t.Error("a second rotation gave the old key a longer life")
	}
	if _, _, now0 := Rotate(rec, -time.Hour, now); !now0.GraceUntil.Equal(now) {
		t.Error("a grace of less than none")
	}
}

func TestSetKeysRefuses(t *testing.T) {
	r := New()
	_, good := Mint(KeyHolder{Name: "a"}, now)
	if err := r.SetKeys([]KeyRecord{good}); err != nil {
		t.Fatal(err)
	}
	with := func(change func(*KeyRecord)) KeyRecord { k := good; change(&k); return k }
	for want, records := range map[string][]KeyRecord{
		"hexadecimal digits": {with(func(k *KeyRecord) { k.Hash = good.Hash + "00" })},
		"64 hexadecimal":     {with(func(k *KeyRecord) { k.Hash = "zz" })},
		"not 64":             {with(func(k *KeyRecord) { k.Hash = "" })},
		"letters and digits": {with(func(k *KeyRecord) { k.ID = "" })},
		"an id is":           {with(func(k *KeyRecord) { k.ID = "a_b" })},
		"two records":        {good, good},
	} {
		if err := r.SetKeys(records); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if ids := r.Minted(); len(ids) != 1 || ids[0] != good.ID {
		t.Errorf("a list that was refused changed the keys: %v", ids)
	}
}

// Keys change while requests come; each request sees one list or the other.
func TestSetKeysTogether(t *testing.T) {
	p, r := mintedPlan(t), New()
	key, rec := Mint(KeyHolder{Name: "a"}, now)
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if g, err := r.Identify(p, key, false, llm.Chat, now); err == nil && g.Key != "a" {
					t.Error(g)
				}
			}
		})
	}
	for range 200 {
		_ = r.SetKeys([]KeyRecord{rec})
		_ = r.SetKeys(nil)
		if err := r.try(p, key); err == nil {
			t.Error("a key that was taken away works")
		}
	}
	close(stop)
	all.Wait()
}
