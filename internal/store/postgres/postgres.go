// Package postgres is the ledger in a PostgreSQL database, which several
// gateways may share. Only app uses it.
package postgres

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/headgate-ai/headgate/internal/store/ledgersql"
)

const (
	// connections is how many are open at most: one for the ledger's writer, the
	// others for whoever reads.
	connections = 4
	// idle is how long a connection is kept that nobody needs.
	idle = 5 * time.Minute
	// patience is how long to wait for a connection if the address does not say.
	patience = 5 * time.Second
)

// errURL does not repeat the address, nor what the parser says of it: either may
// hold the password.
var errURL = errors.New("the ledger's database address cannot be read; write postgres://USER:PASSWORD@HOST:PORT/DATABASE, " +
	"and percent-encode what is special in the password")

// Open prepares the database at the address, in the form of a URL or of libpq's
// key=value pairs. It does not connect yet: a database that is out of reach
// does not keep the gateway from starting, and the schema is made at the first
// use.
func Open(address string) (*ledgersql.Store, error) {
	c, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, errURL
	}
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = patience
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "headgate"
	}
	// Gateways that start together must not migrate together.
	alone, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return nil, fmt.Errorf("cannot prepare the ledger's schema: %w", err)
	}
	db := stdlib.OpenDB(*c)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(1)
	db.SetConnMaxIdleTime(idle)
	d := ledgersql.Dialect{
		Migrate:  goose.DialectPostgres,
		Options:  []goose.ProviderOption{goose.WithSessionLocker(alone)},
		Numbered: true,
	}
	return ledgersql.New(d, db, db), nil
}
