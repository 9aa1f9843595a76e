// Package ledger is the room that keeps what every request used and cost, for
// good. An entry is in the kernel's hands when Append returns, so that a
// process that is killed loses none; a store (SQLite, PostgreSQL) has it a
// moment later, exactly once. app owns the room; the hallway appends, admin and
// cli read. Stores implement Store.
//
//	Append ──page cache──▶ spool segments ──ingest, every four seconds──▶ Store ──▶ Sum, Group, Each, Balances
package ledger

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
)

// Entry is one request in the ledger.
type Entry struct {
	// ID is unique among all entries of all gateways: at most 64 bytes. That is
	// up to whoever appends.
	ID string
	// At is when the request began. It is kept to the nanosecond, in UTC.
	At time.Time
	// Texts are cut at MaxText bytes; what is not UTF-8 in them is replaced.
	RequestID, Key, Tenant, User, Model, Provider, Target, Dialect, Op, Outcome string

	Usage  llm.Usage
	Cost   llm.Money
	Priced bool // false if no row of the price table matched
	Status int
	// Charges are what the request cost its budgets. The store adds them to its
	// balances; they are not kept with the entry and are not read back.
	Charges []llm.Charge
}

// Balance is what has been used of a budget in one of its periods.
type Balance struct {
	Scope  string
	Period int64 // when the period began, in seconds since 1970
	Used   int64 // in the budget's unit
}

// Store keeps entries durably. Its methods may be called at the same time.
type Store interface {
	// Insert adds entries, all or none, and their charges to the balances. The
	// store remembers how far it has come with each source: entries that end there
	// or before are passed over together with their charges. When Insert returns
	// without error the entries outlast a loss of power.
	Insert(ctx context.Context, b Batch) error
	// Sum, Group and Each: see Room. The query is valid.
	Sum(ctx context.Context, q Query) (Totals, error)
	Group(ctx context.Context, q Query, by []string) ([]Row, error)
	Each(ctx context.Context, q Query, f func(Entry) error) error
	// Balances are those of periods that began at since or later, and those of
	// the period 0, which never ends.
	Balances(ctx context.Context, since int64) ([]Balance, error)
	// Prune forgets the balances of periods that began before, but for those of
	// the period 0.
	Prune(ctx context.Context, before int64) error
	Close() error
}

// Options are what Open needs.
type Options struct {
	Config Config
	// Store is the one that Config.Kind names; for memory and none it is nil.
	Store Store
	// Log takes what an operator must know: damage, delays, a full spool.
	Log *slog.Logger
}

// Room is the ledger. Its methods may be called at the same time.
type Room struct {
	cfg    Config
	store  Store
	spool  *spool // nil if entries go straight into the store
	ingest *ingester
	closed atomic.Bool
}

// Open takes the spool folder for this process and begins to bring what it
// holds from a former process into the store. It does not wait for the store,
// which may be out of reach; reads do. If Open fails the store is still the
// caller's.
func Open(_ context.Context, o Options) (*Room, error) {
	r := &Room{cfg: o.Config, store: o.Store}
	switch o.Config.Kind {
	case KindNone:
		r.store = nothing{}
		return r, nil
	case KindMemory:
		if r.store == nil {
			r.store = NewMemory(mostInMemory)
		}
		return r, nil
	}
	if o.Store == nil {
		return nil, errors.New("ledger: no store was given for the kind " + o.Config.Kind)
	}
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	var err error
	if r.spool, err = openSpool(o.Config.spool(), o.Config.Sync.Std(), int64(o.Config.SpoolLimit), log); err != nil {
		return nil, err
	}
	r.ingest = newIngester(r.spool, r.store, log)
	go r.spool.syncLoop()
	go r.ingest.run()
	return r, nil
}

// Append adds an entry. When it returns nil, the entry outlasts a kill of the
// process, and after Config.Sync also a loss of power. It fails if the entry has
// no ID or time, if a charge's scope is too long, or if the disk refuses.
func (r *Room) Append(e *Entry) error {
	if r.spool == nil {
		c, err := e.clean()
		if err != nil {
			return err
		}
		return r.store.Insert(context.Background(), BatchOf("", []Entry{c}, nil))
	}
	return r.spool.append(e)
}

// Flush waits until the store has every entry whose Append has returned. It
// returns the store's error if an attempt fails meanwhile.
func (r *Room) Flush(ctx context.Context) error {
	if r.spool == nil {
		return nil
	}
	return r.ingest.flush(ctx)
}

// Lag is what the store does not have yet.
func (r *Room) Lag() Lag {
	if r.spool == nil {
		return Lag{}
	}
	return r.spool.lag()
}

// Close brings what is left into the store while ctx lasts, closes the store,
// and gives the spool folder back. What the store could not take stays in the
// spool for the next process.
func (r *Room) Close(ctx context.Context) error {
	if !r.closed.CompareAndSwap(false, true) {
		return nil
	}
	if r.spool == nil {
		return r.store.Close()
	}
	r.spool.seal()
	late := r.ingest.close(ctx)
	return errors.Join(late, r.spool.close(), r.store.Close())
}

// Sum is the totals of the entries that the query selects.
func (r *Room) Sum(ctx context.Context, q Query) (Totals, error) {
	if err := r.ready(ctx); err != nil {
		return Totals{}, err
	}
	return r.store.Sum(ctx, q)
}

// Group is the totals of the entries that the query selects, for each value of
// the dimensions, see Dimensions, ascending.
func (r *Room) Group(ctx context.Context, q Query, by []string) ([]Row, error) {
	if err := CheckBy(by); err != nil {
		return nil, err
	}
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	return r.store.Group(ctx, q, by)
}

// Each calls f for the entries that the query selects, ordered by time, and
// ends with f's first error. Entries that come while it runs may be missed.
func (r *Room) Each(ctx context.Context, q Query, f func(Entry) error) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	return r.store.Each(ctx, q, f)
}

// Balances are what has been used of the budgets in the periods that began at
// since (seconds since 1970) or later, and in the period 0, which never ends.
func (r *Room) Balances(ctx context.Context, since int64) ([]Balance, error) {
	if r.cfg.Kind == KindNone {
		return nil, nil
	}
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	return r.store.Balances(ctx, since)
}

// Prune forgets the balances of periods that began before (seconds since 1970).
// Entries are never forgotten.
func (r *Room) Prune(ctx context.Context, before int64) error {
	if r.cfg.Kind == KindNone {
		return nil
	}
	return r.store.Prune(ctx, before)
}

// ready is whether there is something to read, and all of it.
func (r *Room) ready(ctx context.Context) error {
	if r.cfg.Kind == KindNone {
		return ErrNone
	}
	return r.Flush(ctx)
}

// ErrNone is the answer to whoever reads where no ledger is kept.
var ErrNone = errors.New("no ledger is kept; set ledger.kind to sqlite or postgres")

// nothing is the store of the kind none.
type nothing struct{ Store }

func (nothing) Insert(context.Context, Batch) error { return nil }
func (nothing) Close() error                        { return nil }
