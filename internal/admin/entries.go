package admin

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"slices"

	"github.com/headgate-ai/headgate/internal/ledger"
)

// Entries calls f for each entry of the ledger that the query selects, in the
// order of time, and ends with f's first error.
type Entries func(ctx context.Context, q ledger.Query, f func(ledger.Entry) error) error

// entryParameters are those of GET /admin/v1/usage/entries.
var entryParameters = slices.DeleteFunc(slices.Clone(ledgerUsage), func(name string) bool { return name == "by" })

// entries answers with the ledger's entries while they are read, however many
// there are.
func (g *server) entries(w http.ResponseWriter, r *http.Request) {
	if g.Entries == nil {
		fail(w, http.StatusBadRequest, ledger.ErrNone.Error())
		return
	}
	q := r.URL.Query()
	if err := know(q, entryParameters); err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	a, err := ask(q.Get)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	s := &sending{ResponseWriter: w}
	b := bufio.NewWriterSize(s, 32<<10)
	source := func(f func(ledger.Entry) error) error { return g.Gateway.Entries(r.Context(), a.Query, f) }
	w.Header().Set("Cache-Control", "no-store")
	if a.csv {
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		// Not b itself, which the writer would take for its own and flush.
		err = ledger.WriteCSV(struct{ io.Writer }{b}, source)
	} else {
		w.Header().Set("Content-Type", "application/json")
		err = ledger.WriteJSON(b, source)
	}
	switch {
	case err == nil:
		_ = b.Flush() // the client has gone; there is no one to tell
	case s.begun:
		panic(http.ErrAbortHandler) // what was sent must not be taken for whole
	default:
		fail(w, http.StatusServiceUnavailable, "the ledger cannot be read: "+err.Error())
	}
}

// sending is an answer that knows whether it has begun.
type sending struct {
	http.ResponseWriter
	begun bool
}

func (s *sending) Write(p []byte) (int, error) {
	s.begun = true
	return s.ResponseWriter.Write(p)
}
