package sqlite

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/ledger/ledgertest"
)

func TestStore(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) ledger.Store {
		s, err := Open(filepath.Join(t.TempDir(), "a b?c%20#.db"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestOpenAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "odd ?name#.db")
	e := ledger.Entry{ID: "a", At: ledgertest.Epoch}
	for range 2 {
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Insert(t.Context(), ledger.BatchOf("a", []ledger.Entry{e}, []int64{1})); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Sum(t.Context(), ledger.Query{}); err != nil || got.Requests != 1 {
			t.Errorf("%+v, %v", got, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if i, err := os.Stat(path); err != nil || i.Mode().Perm()&0o007 != 0 {
		t.Errorf("the file is elsewhere (%v), or everyone may read it", err)
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other.txt")
	if err := os.WriteFile(other, []byte(strings.Repeat("This is no database. ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		other:                               "give the ledger another path",
		filepath.Join(dir, "none", "at.db"): "cannot open the ledger: open " + filepath.Join(dir, "none", "at.db") + ": no such file",
	} {
		if s, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
			if err == nil {
				s.Close()
			}
		}
	}
	if b, err := os.ReadFile(other); err != nil || !strings.HasPrefix(string(b), "This is no database.") {
		t.Error("the other file was changed")
	}
}

// A file whose entries have a row each is brought over at the first use.
func TestOldLayout(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	oracle := ledgertest.Old(t, db, goose.DialectSQLite3)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ledgertest.Moved(t, s, oracle)
}
