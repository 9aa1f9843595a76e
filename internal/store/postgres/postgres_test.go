package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/ledger/ledgertest"
	"github.com/headgate-ai/headgate/internal/store/ledgersql"
)

func TestPostgres(t *testing.T) {
	s := start(t)
	n := 0
	open := func(t *testing.T) ledger.Store {
		n++
		return mustOpen(t, s.address(t, fmt.Sprint("suite", n)))
	}
	t.Run("suite", func(t *testing.T) { ledgertest.Run(t, open) })
	t.Run("two gateways", func(t *testing.T) { twoGateways(t, s.address(t, "two")) })
	t.Run("old layout", func(t *testing.T) { oldLayout(t, s.address(t, "old")) })
	t.Run("outage", func(t *testing.T) { outage(t, s) })
}

func mustOpen(t *testing.T, address string) *ledgersql.Store {
	t.Helper()
	s, err := Open(address)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Two gateways that start at the same time on an empty database both make the
// schema, and charge the same budgets.
func twoGateways(t *testing.T, address string) {
	const entries = 200
	failed := make(chan error, 2)
	for g := range 2 {
		s := mustOpen(t, address)
		defer s.Close()
		go func() {
			var err error
			for i := 0; i < entries && err == nil; i++ {
				e := ledger.Entry{ID: fmt.Sprintf("%d-%d", g, i), At: ledgertest.Epoch, Cost: 1}
				err = s.Insert(context.Background(), ledger.BatchOf("", []ledger.Entry{e}, nil))
			}
			failed <- err
		}()
	}
	for range 2 {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	s := mustOpen(t, address)
	defer s.Close()
	if got, err := s.Sum(t.Context(), ledger.Query{}); err != nil || got.Requests != 2*entries || got.Cost != 2*entries {
		t.Errorf("%+v, %v", got, err)
	}
}

// A database whose entries have a row each is brought over at the first use.
func oldLayout(t *testing.T, address string) {
	db, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	oracle := ledgertest.Old(t, db, goose.DialectPostgres)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, address)
	defer s.Close()
	ledgertest.Moved(t, s, oracle)
}

// While the database is gone entries wait in the spool; when it is back, it has
// them all, once.
func outage(t *testing.T, s *server) {
	const entries = 700
	c := ledger.Default()
	c.Kind, c.Spool = ledger.KindPostgres, filepath.Join(t.TempDir(), "spool")
	r, err := ledger.Open(t.Context(), ledger.Options{Config: c, Store: mustOpen(t, s.address(t, "outage")), Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	next := 0
	add := func() {
		for range entries {
			next++
			if err := r.Append(&ledger.Entry{ID: fmt.Sprint(next), At: ledgertest.Epoch, Cost: 3}); err != nil {
				t.Fatal(err)
			}
		}
	}
	add()
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	add()
	s.down(t)
	add()
	if err := r.Flush(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("without a database: %v", err)
	}
	if lag := r.Lag(); lag.Records < entries || lag.Bytes == 0 || lag.Age <= 0 {
		t.Errorf("without a database: %+v", lag)
	}
	s.up(t)
	deadline := time.Now().Add(20 * time.Second)
	for err = r.Flush(t.Context()); err != nil && time.Now().Before(deadline); err = r.Flush(t.Context()) {
		time.Sleep(10 * time.Millisecond)
	}
	got, err := r.Sum(t.Context(), ledger.Query{})
	if err != nil || got.Requests != 3*entries || got.Cost != 9*entries {
		t.Errorf("after the outage: %+v, %v", got, err)
	}
	if lag := r.Lag(); lag != (ledger.Lag{}) {
		t.Errorf("after the outage: %+v", lag)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A wrong address is refused without being repeated, and one that nobody answers
// at is told of at the first use.
func TestAddress(t *testing.T) {
	_, err := Open("postgres://user:hunter2@host:notaport/db")
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "postgres://USER:PASSWORD") {
		t.Errorf("%v", err)
	}
	s, err := Open("postgres://user:hunter2@127.0.0.1:1/db?connect_timeout=1")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err = s.Sum(t.Context(), ledger.Query{}); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}
