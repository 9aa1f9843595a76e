package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/journal"
	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/llm"
)

// Usage reads the ledger: the totals of each group, or of everything in one row
// where by is empty.
type Usage func(ctx context.Context, q ledger.Query, by []string) ([]ledger.Row, error)

// usageTime bounds the reading of the ledger.
const usageTime = 30 * time.Second

// The parameters of GET /admin/v1/usage, without and with a ledger.
var (
	plainUsage  = []string{"model", "key", "tenant"}
	ledgerUsage = []string{"model", "key", "tenant", "user", "provider", "from", "until", "by", "format"}
)

// flatUsage is the answer that is not grouped. With a ledger all but the errors
// and cancelled requests, which it does not keep, outlast the process.
type flatUsage struct {
	journal.Totals
	Cost *llm.Money `json:"cost_usd,omitempty"`
}

// asked is what of the ledger is asked for.
type asked struct {
	ledger.Query
	by  []string
	csv bool
}

func (g *server) usage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	known := plainUsage
	if g.Usage != nil {
		known = ledgerUsage
	}
	if err := know(q, known); err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	totals := g.Journal.Totals(q.Get("model"), q.Get("key"), q.Get("tenant"))
	if g.Usage == nil {
		write(w, http.StatusOK, totals)
		return
	}
	a, err := ask(q.Get)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), usageTime)
	defer cancel()
	rows, err := g.Gateway.Usage(ctx, a.Query, a.by)
	if err != nil {
		fail(w, http.StatusServiceUnavailable, "the ledger cannot be read: "+err.Error())
		return
	}
	a.answer(w, rows, totals)
}

// know says what is wrong with the parameters' names.
func know(q url.Values, known []string) error {
	for name := range q {
		switch {
		case slices.Contains(known, name):
		case slices.Contains(ledgerUsage, name) && len(known) == len(plainUsage):
			return fmt.Errorf("%q needs a ledger, and none is kept; set ledger.kind to sqlite or postgres", name)
		default:
			return errors.New("unknown parameter; usage takes " + strings.Join(known, ", "))
		}
	}
	return nil
}

// ask reads the parameters.
func ask(get func(string) string) (a asked, err error) {
	a.Model, a.Key, a.Tenant, a.User, a.Provider = get("model"), get("key"), get("tenant"), get("user"), get("provider")
	if a.From, err = ParseTime(get("from")); err != nil {
		return a, fmt.Errorf("from: %w", err)
	}
	if a.Until, err = ParseTime(get("until")); err != nil {
		return a, fmt.Errorf("until: %w", err)
	}
	if by := get("by"); by != "" {
		a.by = strings.Split(by, ",")
		if err = ledger.CheckBy(a.by); err != nil {
			return a, fmt.Errorf("by: %w", err)
		}
	}
	switch get("format") {
	case "", "json":
	case "csv":
		a.csv = true
	default:
		return a, fmt.Errorf("format: %q is not a format; write json or csv", get("format"))
	}
	return a, nil
}

func (a *asked) answer(w http.ResponseWriter, rows []ledger.Row, since journal.Totals) {
	if a.csv {
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		_ = ledger.WriteRowsCSV(w, a.by, rows) // the client has gone; there is no one to tell
		return
	}
	if a.by != nil {
		var b strings.Builder
		if err := ledger.WriteRowsJSON(&b, a.by, rows); err != nil {
			fail(w, http.StatusInternalServerError, err.Error())
			return
		}
		write(w, http.StatusOK, map[string]any{"by": a.by, "rows": json.RawMessage(b.String())})
		return
	}
	var t ledger.Totals
	if len(rows) > 0 {
		t = rows[0].Totals
	}
	since.Requests, since.PromptTokens, since.CompletionTokens, since.CachedTokens = t.Requests, t.Input, t.Output, t.Cached
	write(w, http.StatusOK, flatUsage{since, &t.Cost})
}
