package ledgersql

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/headgate-ai/headgate/internal/ledger"
)

// page is how many entries Each gives to its caller at once. A reader that takes
// its time, such as a slow client, then holds neither a transaction nor a
// connection. At most twice as many are in memory.
const page = 8192

// Each implements ledger.Store. It goes from hour to hour. The batches of an
// hour overlap, since entries come when requests end and are ordered by when
// they began: a page is the earliest entries behind those of the page before,
// whatever batches they are in.
func (s *Store) Each(ctx context.Context, q ledger.Query, f func(ledger.Entry) error) error {
	if ok, err := s.readable(ctx); !ok {
		return err
	}
	span := spanOf(&q)
	for from := span.from / hour * 3600; ; from += 3600 {
		var next sql.NullInt64
		if err := s.read.QueryRowContext(ctx, s.bind("SELECT MIN(hour) FROM entry_batches WHERE hour >= ?"), from).Scan(&next); err != nil {
			return err
		}
		from = next.Int64
		if !next.Valid || from*int64(time.Second) >= span.until {
			return nil
		}
		if err := s.eachOf(ctx, &reading{query: q, hour: from, from: span.from, until: span.until}, f); err != nil {
			return err
		}
	}
}

// eachOf goes over an hour, page by page.
func (s *Store) eachOf(ctx context.Context, r *reading, f func(ledger.Entry) error) error {
	for more := true; more; {
		if err := s.page(ctx, r); err != nil {
			return err
		}
		more = r.cut()
		for _, e := range r.entries {
			if err := f(e); err != nil {
				return err
			}
		}
		r.next()
	}
	return nil
}

// batchesAtOnce is how many batches one statement reads.
const batchesAtOnce = 64

const hourBatches = `SELECT first_at, source, ends, head, data FROM entry_batches WHERE hour = ? AND last_at >= ? AND first_at < ?
	AND (first_at, source, ends) > (?, ?, ?) ORDER BY first_at, source, ends LIMIT ?`

// page reads batches until none can have an entry of the page.
func (s *Store) page(ctx context.Context, r *reading) error {
	at := place{first: -1}
	for n := batchesAtOnce; n == batchesAtOnce; {
		rows, err := s.read.QueryContext(ctx, s.bind(hourBatches), r.hour, r.from, r.until, at.first, at.source, at.ends, batchesAtOnce)
		if err != nil {
			return err
		}
		if n, err = r.batches(rows, &at); err != nil {
			return err
		}
		r.cut()
	}
	return nil
}

// place is a batch in the order of an hour's.
type place struct {
	first  int64
	source string
	ends   int64
}

// reading is a page of an hour's entries while it is read.
type reading struct {
	query ledger.Query
	hour  int64 // when it begins, in seconds since 1970
	// What comes before from and id, or has them, has been read; until is not
	// included. Both are nanoseconds since 1970.
	from  int64
	id    string
	until int64

	entries []ledger.Entry
	// bounded is whether there are more than a page; none that is later than last
	// is then of it.
	bounded bool
	last    int64
}

// batches adds those of the rows, and says how many that were: none more where
// the rest comes behind the page.
func (r *reading) batches(rows *sql.Rows, at *place) (n int, err error) {
	defer rows.Close()
	for rows.Next() {
		var head, data sql.RawBytes
		if err := rows.Scan(&at.first, &at.source, &at.ends, &head, &data); err != nil {
			return 0, err
		}
		if r.bounded && at.first > r.last {
			return 0, nil
		}
		if err := r.add(head, data); err != nil {
			return 0, err
		}
		n++
	}
	return n, rows.Err()
}

// add adds the entries of a batch that may be of the page.
func (r *reading) add(head, data []byte) error {
	shapes, err := unpackHead(head)
	if err != nil {
		return err
	}
	u, err := unpackBody(shapes, data)
	if err != nil {
		return err
	}
	match := make([]bool, len(shapes))
	for i := range match {
		match[i] = shapes[i].matches(&r.query)
	}
	for rec := (record{}); u.next(&rec); {
		if !match[rec.shape] || !r.within(&rec) {
			continue
		}
		if r.entries = append(r.entries, u.entry(&rec)); len(r.entries) == 2*page {
			r.cut()
		}
	}
	return end(&u.Reader)
}

// within is whether the record's time and id are behind the page before and, as
// far as that is known, not behind this one.
func (r *reading) within(rec *record) bool {
	if rec.at < r.from || rec.at >= r.until || r.bounded && rec.at > r.last {
		return false
	}
	return rec.at > r.from || id(rec.id, rec.idHex) > r.id
}

// cut sorts the entries and keeps a page of them. It reports whether there may
// be more.
func (r *reading) cut() bool {
	slices.SortFunc(r.entries, func(a, b ledger.Entry) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
	})
	if len(r.entries) > page {
		clear(r.entries[page:])
		r.entries, r.bounded = r.entries[:page], true
		r.last = r.entries[page-1].At.UnixNano()
	}
	return r.bounded
}

// next goes on behind the page.
func (r *reading) next() {
	if n := len(r.entries); n > 0 {
		r.from, r.id = r.entries[n-1].At.UnixNano(), r.entries[n-1].ID
	}
	clear(r.entries)
	r.entries, r.bounded = r.entries[:0], false
}
