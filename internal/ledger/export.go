package ledger

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
)

// EntryLine is an entry as it is exported: the fields' names are the columns'
// names, too.
type EntryLine struct {
	ID         string    `json:"id"`
	At         time.Time `json:"at"`
	RequestID  string    `json:"request_id"`
	Key        string    `json:"key"`
	Tenant     string    `json:"tenant"`
	User       string    `json:"user"`
	Model      string    `json:"model"`
	Provider   string    `json:"provider"`
	Target     string    `json:"target"`
	Dialect    string    `json:"dialect"`
	Op         string    `json:"op"`
	Outcome    string    `json:"outcome"`
	Status     int       `json:"status"`
	Input      int64     `json:"input_tokens"`
	Cached     int64     `json:"cached_tokens"`
	CacheWrite int64     `json:"cache_write_tokens"`
	Output     int64     `json:"output_tokens"`
	Reasoning  int64     `json:"reasoning_tokens"`
	Estimated  bool      `json:"estimated"`
	Cost       llm.Money `json:"cost_usd"`
	Priced     bool      `json:"priced"`
}

// Line is the entry as it is exported.
func (e *Entry) Line() EntryLine {
	u := &e.Usage
	return EntryLine{e.ID, e.At, e.RequestID, e.Key, e.Tenant, e.User, e.Model, e.Provider, e.Target, e.Dialect, e.Op, e.Outcome, e.Status,
		u.Input, u.Cached, u.CacheWrite, u.Output, u.Reasoning, u.Estimated, e.Cost, e.Priced}
}

var entryColumns = []string{"id", "at", "request_id", "key", "tenant", "user", "model", "provider", "target", "dialect", "op", "outcome", "status",
	"input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "estimated", "cost_usd", "priced"}

func (l *EntryLine) cells() []string {
	return []string{text(l.ID), l.At.Format(time.RFC3339Nano), text(l.RequestID), text(l.Key), text(l.Tenant), text(l.User), text(l.Model), text(l.Provider),
		text(l.Target), text(l.Dialect), text(l.Op), text(l.Outcome), strconv.Itoa(l.Status),
		number(l.Input), number(l.Cached), number(l.CacheWrite), number(l.Output), number(l.Reasoning), strconv.FormatBool(l.Estimated), money(l.Cost), strconv.FormatBool(l.Priced)}
}

// TotalsLine is totals as they are exported.
type TotalsLine struct {
	Requests   int64     `json:"requests"`
	Input      int64     `json:"input_tokens"`
	Cached     int64     `json:"cached_tokens"`
	CacheWrite int64     `json:"cache_write_tokens"`
	Output     int64     `json:"output_tokens"`
	Reasoning  int64     `json:"reasoning_tokens"`
	Cost       llm.Money `json:"cost_usd"`
	Unpriced   int64     `json:"unpriced_requests"`
}

// Line is the totals as they are exported.
func (t *Totals) Line() TotalsLine {
	return TotalsLine{t.Requests, t.Input, t.Cached, t.CacheWrite, t.Output, t.Reasoning, t.Cost, t.Unpriced}
}

var totalsColumns = []string{"requests", "input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "cost_usd", "unpriced_requests"}

func (l *TotalsLine) cells() []string {
	return []string{number(l.Requests), number(l.Input), number(l.Cached), number(l.CacheWrite), number(l.Output), number(l.Reasoning), money(l.Cost), number(l.Unpriced)}
}

// text is a cell of text that no spreadsheet takes for a formula: one that
// begins like a formula gets an apostrophe in front (OWASP, CSV injection).
func text(s string) string {
	if s != "" {
		switch s[0] {
		case '=', '+', '-', '@', '\t', '\r', '\n':
			return "'" + s
		}
	}
	return s
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// money is an amount in dollars, without the unit.
func money(m llm.Money) string {
	b, _ := m.MarshalText() // has no way to fail
	return string(b)
}

// Source calls a function for each entry, as Room.Each does.
type Source func(func(Entry) error) error

// WriteCSV writes entries as CSV (RFC 4180), their names in the first line.
func WriteCSV(w io.Writer, entries Source) error {
	c := csv.NewWriter(w)
	if err := c.Write(entryColumns); err != nil {
		return err
	}
	err := entries(func(e Entry) error {
		l := e.Line()
		return c.Write(l.cells())
	})
	c.Flush()
	if err != nil {
		return err
	}
	return c.Error()
}

// WriteJSON writes entries as one JSON array, an entry a line. If it fails the
// array is not closed, so that nobody takes it for whole.
func WriteJSON(w io.Writer, entries Source) error {
	a := array{w: w}
	if err := entries(func(e Entry) error { return a.add(e.Line()) }); err != nil {
		return err
	}
	return a.end()
}

// array writes a JSON array, an element a line.
type array struct {
	w     io.Writer
	begun bool
}

func (a *array) add(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	before := "[\n"
	if a.begun {
		before = ",\n"
	}
	a.begun = true
	_, err = a.w.Write(append([]byte(before), b...))
	return err
}

func (a *array) end() error {
	last := "\n]\n"
	if !a.begun {
		last = "[]\n"
	}
	_, err := io.WriteString(a.w, last)
	return err
}

// WriteRowsCSV writes groups as CSV, their names in the first line.
func WriteRowsCSV(w io.Writer, by []string, rows []Row) error {
	c := csv.NewWriter(w)
	if err := c.Write(append(by[:len(by):len(by)], totalsColumns...)); err != nil {
		return err
	}
	for i := range rows {
		cells := make([]string, 0, len(by)+len(totalsColumns))
		for _, v := range rows[i].By {
			cells = append(cells, text(v))
		}
		l := rows[i].Line()
		if err := c.Write(append(cells, l.cells()...)); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// WriteRowsJSON writes groups as one JSON array, a group a line.
func WriteRowsJSON(w io.Writer, by []string, rows []Row) error {
	a := array{w: w}
	for i := range rows {
		if err := a.add(rowLine{by, &rows[i]}); err != nil {
			return err
		}
	}
	return a.end()
}

// rowLine is a group as it is exported: its values under the names of the
// dimensions, then the totals.
type rowLine struct {
	by  []string
	row *Row
}

func (l rowLine) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, d := range l.by {
		value, err := json.Marshal(l.row.By[i])
		if err != nil {
			return nil, err
		}
		b = append(append(append(strconv.AppendQuote(b, d), ':'), value...), ',')
	}
	totals, err := json.Marshal(l.row.Line())
	return append(b, totals[1:]...), err
}
