package config_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/config"
	"github.com/headgate-ai/headgate/internal/config/source"
)

// FuzzLoad gives the loader any text: it loads or names its mistakes with their
// places, and what it loads can be shown without a secret.
func FuzzLoad(f *testing.F) {
	core, err := os.ReadFile("../app/testdata/core.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(core))
	for _, s := range []string{
		"", "a", "[]", "server: {api: {listen: 1}}", "providers: [{name: a, dialect: simulator}]\nauth: none", "a: &x [*x]", "keys: [{secret: literal:hunter2secret}]",
		"server:\n\tapi: x", "? - a\n: b", "models: [{targets: [{weight: 99999999999999999999}]}]", "---\n---\n", "x: !!binary zzz", "server: null", "providers: null\nauth: null",
		"keys: [{expires: 2026-13-45}]", "<<: {auth: none}", "auth: none\nauth: keys", "\x00", "server: {api: {max_body: 9999999999GiB}}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		hung := time.AfterFunc(10*time.Second, func() { panic(fmt.Sprintf("still loading %q", text)) })
		defer hung.Stop()
		loaded, mistakes := config.Load(source.NewDocument("fuzz.yaml", []byte(text)))
		if (loaded == nil) == (len(mistakes) == 0) {
			t.Fatalf("loaded %v with %v", loaded != nil, mistakes)
		}
		for _, m := range mistakes {
			if s := m.String(); !strings.HasPrefix(s, "fuzz.yaml:") {
				t.Fatalf("a mistake without a place: %s", s)
			}
		}
		if loaded == nil {
			return
		}
		if _, err := json.Marshal(loaded.View()); err != nil {
			t.Fatal(err)
		}
	})
}
