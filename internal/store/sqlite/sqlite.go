// Package sqlite is the ledger in a file of this machine: a store without a
// server. Only app uses it.
package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"

	"github.com/headgate-ai/headgate/internal/store/ledgersql"
)

// pragmas are set for each connection. A commit is on the disk before it
// returns (synchronous FULL): the ledger then removes the entry from its spool.
// At a commit in four seconds this costs little. What SQLite keeps to undo a
// statement stays in memory (temp_store); it is small.
const pragmas = "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=cache_size(-1024)&_pragma=temp_store(MEMORY)&_txlock=immediate"

// readers is how many may read at once.
const readers = 2

// Open prepares the file, and makes it if there is none. SQLite itself is begun
// at the first use: it takes memory that an idle gateway does without. The file
// is in the journal mode WAL: beside it lie two files with -wal and -shm at the
// end of their names.
func Open(path string) (*ledgersql.Store, error) {
	if err := prepare(path); err != nil {
		return nil, fmt.Errorf("cannot open the ledger: %w", err)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the ledger %s: %w", path, err)
	}
	dsn := "file:" + (&url.URL{Path: filepath.ToSlash(abs)}).EscapedPath() + pragmas
	// One connection writes: SQLite has one writer at a time, and those who wait
	// do so in line here rather than by trying again.
	write, err := pool(dsn, 1)
	if err != nil {
		return nil, err
	}
	read, err := pool(dsn, readers)
	if err != nil {
		write.Close()
		return nil, err
	}
	d := ledgersql.Dialect{Migrate: goose.DialectSQLite3, Absent: func() bool { return empty(abs) }}
	return ledgersql.New(d, write, read), nil
}

func pool(dsn string, size int) (*sql.DB, error) {
	c, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(1)
	return db, nil
}

// header begins every database of SQLite's (its file format, section 1.3).
const header = "SQLite format 3\x00"

// prepare makes the file if there is none: SQLite would let everyone on the
// machine read it. What is no database it refuses.
func prepare(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, len(header))
	switch n, err := io.ReadFull(f, b); {
	case errors.Is(err, io.EOF):
		return nil // new
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case string(b[:n]) != header:
		return fmt.Errorf("%s is not a database of SQLite's; give the ledger another path", path)
	}
	return nil
}

// empty is whether nothing has been written yet, be it to the file or to the
// log of what is to go there.
func empty(path string) bool {
	for _, p := range []string{path, path + "-wal"} {
		if i, err := os.Stat(p); err == nil && i.Size() > 0 {
			return false
		}
	}
	return true
}
