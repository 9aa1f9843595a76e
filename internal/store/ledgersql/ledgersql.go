// Package ledgersql is the ledger in SQL that SQLite and PostgreSQL both
// understand. The packages sqlite and postgres use it, and add how each is
// reached.
//
//	Insert ──▶ entry_batches + pending_batches ──fold, every five minutes──▶ usage_by_hour + balances
//
// A batch is one row, whose entries only this package can read; sums are rows
// for everyone. Questions are answered from the sums of whole hours, the heads of
// batches that are still pending, and the batches of hours that are asked for in
// part.
package ledgersql

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/headgate-ai/headgate/internal/ledger"
)

// Dialect is where the databases differ.
type Dialect struct {
	// Migrate is the name by which goose knows the database.
	Migrate goose.Dialect
	// Options are for goose, such as a lock against others that migrate.
	Options []goose.ProviderOption
	// Numbered is whether placeholders are $1, $2 and not ?.
	Numbered bool
	// Absent, if not nil, is whether there is no database yet. Reads then find
	// nothing, and do not make one.
	Absent func() bool
}

// Store is a ledger.Store. Its schema is brought up to date at the first use,
// so that a database that cannot be reached yet does not keep the gateway from
// starting, and one that is not needed costs no memory.
type Store struct {
	dialect     Dialect
	write, read *sql.DB

	migrating sync.Mutex
	ready     bool       // guarded by migrating
	prepared  statements // set before ready

	spare spare

	mu       sync.Mutex
	unfolded int       // entries that were added since
	folded   time.Time // when pending batches were summed last
}

var _ ledger.Store = (*Store)(nil)

// New makes a store. The pools, which may be one, become the store's.
func New(d Dialect, write, read *sql.DB) *Store {
	return &Store{dialect: d, write: write, read: read}
}

//go:embed migrations/*.sql
var files embed.FS

// migrate brings the schema up to date, if that has not been done.
func (s *Store) migrate(ctx context.Context) error {
	s.migrating.Lock()
	defer s.migrating.Unlock()
	if s.ready {
		return nil
	}
	migrations, err := fs.Sub(files, "migrations")
	if err != nil {
		return err
	}
	options := append([]goose.ProviderOption{goose.WithTableName("headgate_schema"), goose.WithDisableGlobalRegistry(true),
		goose.WithGoMigrations(s.moveEntries())}, s.dialect.Options...)
	p, err := goose.NewProvider(s.dialect.Migrate, s.write, migrations, options...)
	if err != nil {
		return fmt.Errorf("cannot prepare the ledger's schema: %w", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("cannot bring the ledger's schema up to date: %w", err)
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	s.ready = true
	return nil
}

// readable is whether there is something to read.
func (s *Store) readable(ctx context.Context) (bool, error) {
	if s.dialect.Absent != nil && s.dialect.Absent() {
		return false, nil
	}
	err := s.migrate(ctx)
	return err == nil, err
}

// Close closes the pools.
func (s *Store) Close() error {
	err := s.write.Close()
	if s.read != s.write {
		if rerr := s.read.Close(); err == nil {
			err = rerr
		}
	}
	return err
}

// bind writes the placeholders, which are ? in all statements here, as the
// database wants them.
func (s *Store) bind(query string) string {
	if !s.dialect.Numbered {
		return query
	}
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(query, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		query = after
	}
}
