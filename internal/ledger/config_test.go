package ledger

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/config/decode"
	"github.com/headgate-ai/headgate/internal/setting"
)

func TestConfig(t *testing.T) {
	for text, want := range map[string]string{
		`ledger: {kind: sqlite, path: headgate.db}`:              "",
		`ledger: {kind: postgres, url: env:DATABASE_URL}`:        "",
		`ledger: {kind: memory}`:                                 "",
		`ledger: {kind: none, sync: 0s}`:                         "",
		`ledger: {kind: mysql}`:                                  `ledger.kind "mysql" is not a kind of ledger; write sqlite, postgres, memory or none`,
		`ledger: {kind: postgres}`:                               "ledger.url is missing",
		`ledger: {url: env:DATABASE_URL}`:                        "ledger.url is for the kind postgres alone",
		`ledger: {path: ""}`:                                     "ledger.path is missing",
		`ledger: {path: /nowhere/at/all.db}`:                     "ledger.path the folder /nowhere/at does not exist",
		`ledger: {spool_limit: 0B}`:                              "ledger.spool_limit is 0",
		`ledger: {sync: 2m}`:                                     "ledger.sync 2m0s is too long",
		`ledger: {kind: postgres, url: "postgres://u:secret@h"}`: "ledger.url not a reference to a secret",
	} {
		doc := struct {
			Ledger Config `yaml:"ledger"`
		}{Default()}
		doc.Ledger.Kind = KindSQLite
		_, mistakes := decode.YAML("x.yaml", []byte(text), &doc)
		var got []string
		for _, m := range mistakes {
			got = append(got, m.Path+" "+m.Message)
		}
		var p setting.Problems
		doc.Ledger.Validate("ledger", &p)
		for _, m := range p {
			got = append(got, m.Path+" "+m.Message)
		}
		if all := strings.Join(got, "\n"); want == "" && all != "" || !strings.HasPrefix(all, want) || strings.Contains(all, "u:secret") {
			t.Errorf("%s: %q, want %q", text, all, want)
		}
	}
}

func TestSpoolFolder(t *testing.T) {
	c := Default()
	c.Kind = KindSQLite
	if got := c.spool(); got != "headgate.db.spool" {
		t.Error(got)
	}
	c.Kind = KindPostgres
	if got := c.spool(); got != "headgate.spool" {
		t.Error(got)
	}
	if c.Spool = "/data/spool"; c.spool() != "/data/spool" {
		t.Error(c.spool())
	}
}

func TestPending(t *testing.T) {
	c := Default()
	c.Spool = filepath.Join(t.TempDir(), "a")
	r, err := Open(t.Context(), Options{Config: c, Store: NewMemory(0)})
	if err != nil {
		t.Fatal(err)
	}
	changed := c
	changed.Sync = setting.Duration(time.Minute)
	if r.Pending(c) || !r.Pending(changed) {
		t.Error("the pending change is not told")
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
