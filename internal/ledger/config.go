package ledger

import (
	"os"
	"path/filepath"
	"time"

	"github.com/headgate-ai/headgate/internal/setting"
)

// The kinds of ledger.
const (
	KindSQLite   = "sqlite"
	KindPostgres = "postgres"
	KindMemory   = "memory"
	KindNone     = "none"
)

// Config is where the ledger is kept.
type Config struct {
	// Kind is sqlite, a file of this gateway's own; postgres, a database that
	// several gateways may share; memory, the latest 100000 requests until the
	// process ends; or none. Default sqlite where there are prices or budgets,
	// else none. Takes effect at start.
	Kind string `yaml:"kind"`
	// Path is the file of the kind sqlite. Default headgate.db. Takes effect at
	// start.
	Path string `yaml:"path"`
	// URL is the database of the kind postgres, as a reference to
	// postgres://USER:PASSWORD@HOST/DATABASE. Takes effect at start.
	URL setting.Secret `yaml:"url"`
	// Spool is the folder where entries wait for the store, on a disk of this
	// machine; each gateway needs one of its own. Default is the path with
	// .spool at its end, and for postgres headgate.spool. Takes effect at start.
	Spool string `yaml:"spool"`
	// SpoolLimit is how large the spool may grow, while the store is out of
	// reach, before the gateway complains each minute. It never drops entries.
	// Default 1GiB. Takes effect at start.
	SpoolLimit setting.Size `yaml:"spool_limit"`
	// Sync is how long an entry may be in memory alone, where a loss of power
	// would take it (the end of the process would not); 0 writes each to the
	// disk before its request is done. Default 1s. Takes effect at start.
	Sync setting.Duration `yaml:"sync"`
}

// Default is the configuration of a gateway that says nothing about it.
func Default() Config {
	return Config{Path: "headgate.db", SpoolLimit: 1 << 30, Sync: setting.Duration(time.Second)}
}

// mostSync keeps out what cannot have been meant.
const mostSync = setting.Duration(time.Minute)

// Validate notes every mistake, with path as the section's own place.
func (c *Config) Validate(path string, p *setting.Problems) {
	switch c.Kind {
	case KindSQLite:
		switch i, err := os.Stat(filepath.Dir(c.Path)); {
		case c.Path == "":
			p.Add(path+".path", "is missing; write a file's path, such as headgate.db")
		case err != nil || !i.IsDir():
			p.Add(path+".path", "the folder %s does not exist; create it", filepath.Dir(c.Path))
		}
	case KindPostgres:
		if c.URL.IsZero() {
			p.Add(path+".url", "is missing; write where the database's address is found, such as env:DATABASE_URL")
		}
	case KindMemory, KindNone:
	default:
		p.Add(path+".kind", "%q is not a kind of ledger; write sqlite, postgres, memory or none", c.Kind)
	}
	if !c.URL.IsZero() && c.Kind != KindPostgres {
		p.Add(path+".url", "is for the kind postgres alone; write kind: postgres, or take it out")
	}
	if c.SpoolLimit <= 0 {
		p.Add(path+".spool_limit", "is 0; write a size such as 1GiB")
	}
	if c.Sync > mostSync {
		p.Add(path+".sync", "%s is too long; write at most %s, such as 1s", c.Sync.Std(), mostSync.Std())
	}
}

// spool is the folder of the spool.
func (c *Config) spool() string {
	switch {
	case c.Spool != "":
		return c.Spool
	case c.Kind == KindPostgres:
		return "headgate.spool"
	}
	return c.Path + ".spool"
}

// Pending says whether the configuration differs from the one the room was
// opened with, which the room takes up at the next start only.
func (r *Room) Pending(c Config) bool { return r.cfg != c }
