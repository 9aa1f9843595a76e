package ledger

import (
	"iter"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
)

// Batch is entries on their way into a store, which reads them one by one: they
// are never all in memory.
type Batch struct {
	// Source is where they come from: a name that nothing else in the world has,
	// such as a segment's. Without one nothing of the batch is in the store
	// already.
	Source string
	// Records are the entries that end behind a place in the source. They may be
	// gone over again. An error is the last thing that comes.
	Records func(after int64) iter.Seq2[*Record, error]
}

// Record is an entry as a store reads it. It is used again for the next one, and
// so are its slices.
type Record struct {
	// Kind is the same pointer for all of a batch that are of the kind.
	*Kind
	ID, RequestID []byte
	At            int64 // nanoseconds since 1970
	Numbers       Numbers
	Charges       []Charge
	// End is how far the source has been read with the entry. Ends ascend.
	End int64
}

// Kind is what entries have in common: requests differ in few ways. The texts
// are kept beyond a batch.
type Kind struct {
	Key, Tenant, User, Model, Provider, Target, Dialect, Op, Outcome string
	Status                                                           int
	Estimated, Priced                                                bool
}

// Charge is an amount that an entry adds to an account's balance. Entries that are
// charged to the same account mostly have the same pointer.
type Charge struct {
	*Account
	Amount int64
}

// Account is a budget in one of its periods. The text is kept beyond a batch.
type Account struct {
	Scope  string
	Period int64 // when it began, in seconds since 1970; 0 is one that never ends
}

// Numbers are an entry's numbers: the tokens of its input, those of them that were
// read from a cache and written to it, those of its output and those of them that
// were thought, and its cost.
type Numbers [6]int64

// texts are the kind's texts, in their order in a payload.
func (k *Kind) texts() [9]*string {
	return [...]*string{&k.Key, &k.Tenant, &k.User, &k.Model, &k.Provider, &k.Target, &k.Dialect, &k.Op, &k.Outcome}
}

func (e *Entry) kind() Kind {
	return Kind{e.Key, e.Tenant, e.User, e.Model, e.Provider, e.Target, e.Dialect, e.Op, e.Outcome, e.Status, e.Usage.Estimated, e.Priced}
}

func (e *Entry) numbers() Numbers {
	u := &e.Usage
	return Numbers{u.Input, u.Cached, u.CacheWrite, u.Output, u.Reasoning, int64(e.Cost)}
}

// EntryOf is an entry without its charges.
func EntryOf(k *Kind, id, requestID string, at int64, c *Numbers) Entry {
	return Entry{
		ID: id, At: time.Unix(0, at).UTC(), RequestID: requestID, Key: k.Key, Tenant: k.Tenant, User: k.User, Model: k.Model, Provider: k.Provider,
		Target: k.Target, Dialect: k.Dialect, Op: k.Op, Outcome: k.Outcome, Status: k.Status, Priced: k.Priced,
		Usage: llm.Usage{Input: c[0], Cached: c[1], CacheWrite: c[2], Output: c[3], Reasoning: c[4], Estimated: k.Estimated}, Cost: llm.Money(c[5]),
	}
}

// Entry is the record's entry, as it was appended.
func (r *Record) Entry() Entry {
	e := EntryOf(r.Kind, string(r.ID), string(r.RequestID), r.At, &r.Numbers)
	for _, c := range r.Charges {
		e.Charges = append(e.Charges, llm.Charge{Scope: c.Scope, Period: c.Period, Amount: c.Amount})
	}
	return e
}

// BatchOf is a batch of entries, and of how far the source has been read with
// each of them; without a source there are no ends.
func BatchOf(source string, entries []Entry, ends []int64) Batch {
	return Batch{source, func(after int64) iter.Seq2[*Record, error] {
		return func(yield func(*Record, error) bool) {
			kinds := map[Kind]*Kind{}
			for i := range entries {
				r := recordOf(&entries[i], kinds)
				if ends != nil {
					r.End = ends[i]
				}
				if (ends == nil || r.End > after) && !yield(&r, nil) {
					return
				}
			}
		}
	}}
}

func recordOf(e *Entry, kinds map[Kind]*Kind) Record {
	k := e.kind()
	if kinds[k] == nil {
		kinds[k] = &k
	}
	r := Record{Kind: kinds[k], ID: []byte(e.ID), RequestID: []byte(e.RequestID), At: e.At.UnixNano(), Numbers: e.numbers()}
	for _, c := range e.Charges {
		r.Charges = append(r.Charges, Charge{&Account{c.Scope, c.Period}, c.Amount})
	}
	return r
}
