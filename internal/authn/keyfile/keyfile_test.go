package keyfile

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/authn"
)

func mint(t *testing.T, name string) authn.KeyRecord {
	t.Helper()
	_, rec := authn.Mint(authn.KeyHolder{Name: name, Tenant: "acme", Scopes: []string{}, Roles: []string{"user"}}, time.Unix(1_800_000_000, 0).UTC())
	return rec
}

// A random history leaves what a map has, also for who opens the file anew.
func TestHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	r := rand.New(rand.NewPCG(3, 4))
	model := map[string]authn.KeyRecord{}
	var ids []string
	s := New(path)
	for range 60 {
		switch {
		case r.IntN(3) > 0 || len(ids) == 0:
			rec := mint(t, "k")
			if len(ids) > 0 && r.IntN(2) == 0 {
				rec.ID = ids[r.IntN(len(ids))]
			}
			if err := s.Put(rec); err != nil {
				t.Fatal(err)
			}
			model[rec.ID] = rec
			ids = append(ids, rec.ID)
		default:
			id := ids[r.IntN(len(ids))]
			if err := s.Delete(id); err != nil {
				t.Fatal(err)
			}
			delete(model, id)
		}
		got, err := New(path).List()
		var want []authn.KeyRecord
		for _, id := range slices.Sorted(maps.Keys(model)) {
			want = append(want, model[id])
		}
		if err != nil || len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\n%+v\n%+v", err, got, want)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("files are left over: %v %v", left, err)
	}
}

func TestNoSecretInFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	key, rec := authn.Mint(authn.KeyHolder{Name: "k"}, time.Now())
	if err := New(path).Put(rec); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	_, secret, _ := strings.Cut(strings.TrimPrefix(key, "gk_"), "_")
	if err != nil || strings.Contains(string(data), secret) || !strings.Contains(string(data), rec.Hash) {
		t.Errorf("%v %s", err, data)
	}
}

func TestTogether(t *testing.T) {
	s := New(filepath.Join(t.TempDir(), "keys.json"))
	var all sync.WaitGroup
	for range 8 {
		rec := mint(t, "k")
		all.Go(func() {
			if err := s.Put(rec); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got, err := s.List(); err != nil || len(got) != 8 {
		t.Errorf("%d records, %v", len(got), err)
	}
}

// What cannot be read is an error that says so, and is not overwritten.
func TestDamaged(t *testing.T) {
	for content, want := range map[string]string{"": "not a file of key records", "{}": "version 0", `{"version": 2}`: "reads version 1", `{"version":1,"keys":[{"id":7}]}`: "not a file of key records"} {
		path := filepath.Join(t.TempDir(), "keys.json")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		s := New(path)
		if _, err := s.List(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", content, err)
		}
		if err := s.Put(mint(t, "k")); err == nil {
			t.Errorf("%q was overwritten", content)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != content {
			t.Errorf("%q became %q, %v", content, now, err)
		}
	}
	s := New(filepath.Join(t.TempDir(), "missing", "keys.json"))
	if got, err := s.List(); err != nil || len(got) != 0 {
		t.Errorf("%v %v", got, err)
	}
	if err := s.Put(mint(t, "k")); err == nil {
		t.Error("a record was kept nowhere")
	}
	if err := s.Put(authn.KeyRecord{}); err == nil {
		t.Error("a record without an id was kept")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":1,"keys":[{"id":"a","hash":"00","name":"n","models":null,"scopes":[],"created":"2026-01-01T00:00:00Z"}]}`))
	f.Add([]byte(`{"version":1,"keys":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		records, err := parse("keys.json", data)
		if err == nil {
			_ = authn.New().SetKeys(records) // an error is fine, a panic is not
		}
	})
}
