package ledger

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
)

// Verdict is what a line of a reconciliation comes to.
type Verdict string

// The verdicts.
const (
	Match        Verdict = "match"
	Differs      Verdict = "differs"
	MissingHere  Verdict = "missing here"  // the invoice has it, the ledger does not
	MissingThere Verdict = "missing there" // the ledger has it, the invoice does not
)

// Reconciliation says what to compare an invoice with, and how closely.
type Reconciliation struct {
	// Provider is whose entries count; all when empty.
	Provider string
	// From and Until bound both sides; when zero they are the invoice's first
	// day and its last. A day of the invoice is where it begins, in UTC.
	From, Until time.Time
	// Tokens and Money are how much a line may differ, as may Share, from 0 to 1
	// of the larger side. What is within any of them is a match.
	Tokens int64
	Money  llm.Money
	Share  float64
}

// ReconciledLine is one day and model on both sides.
type ReconciledLine struct {
	Day string `json:"day"`
	// Model is the provider's name of it, not the one that clients call.
	Model    string  `json:"model"`
	Invoiced Amounts `json:"invoiced"`
	Ledger   Amounts `json:"ledger"`
	// Difference is what is invoiced beyond the ledger, of the amounts that the
	// invoice has.
	Difference Amounts `json:"difference"`
	Verdict    Verdict `json:"verdict"`
}

// Group reads a ledger: the totals of each group, as Room.Group does.
type Group func(ctx context.Context, q Query, by []string) ([]Row, error)

// Reconcile compares a provider's invoice, see ReadInvoice, with the ledger that
// group reads, by day (UTC) and model, in that order.
func Reconcile(ctx context.Context, group Group, invoice io.Reader, how Reconciliation) ([]ReconciledLine, error) {
	if err := how.validate(); err != nil {
		return nil, err
	}
	i, err := ReadInvoice(invoice)
	if err != nil {
		return nil, err
	}
	q := Query{Provider: how.Provider, From: how.From, Until: how.Until}
	first, last := i.span()
	if q.From.IsZero() {
		q.From = first
	}
	if q.Until.IsZero() {
		q.Until = last
	}
	rows, err := group(ctx, q, []string{Day, "provider", "target", "model"})
	if err != nil {
		return nil, err
	}
	i.keep(q)
	return i.compare(byModel(rows), how), nil
}

// span is from the invoice's first day to the end of its last.
func (i *Invoice) span() (from, until time.Time) {
	first, last := "9999-12-31", ""
	for k := range i.Lines {
		first, last = min(first, k.Day), max(last, k.Day)
	}
	if last == "" {
		return time.Unix(0, 0), time.Unix(0, 0) // an invoice of no lines: nothing to compare
	}
	from, _ = time.Parse(time.DateOnly, first) // readDay wrote both
	until, _ = time.Parse(time.DateOnly, last)
	return from, until.AddDate(0, 0, 1)
}

// keep leaves out the lines of days outside of the query's.
func (i *Invoice) keep(q Query) {
	q = Query{From: q.From, Until: q.Until}
	maps.DeleteFunc(i.Lines, func(k DayModel, _ Amounts) bool {
		day, _ := time.Parse(time.DateOnly, k.Day) // readDay wrote it
		return !q.Match(&Entry{At: day})
	})
}

// byModel sums groups by the day and the provider's name of the model, which
// stands in the target, as in "openai/gpt-4"; without one it is the name that
// clients call.
func byModel(rows []Row) map[DayModel]Amounts {
	all := make(map[DayModel]Amounts, len(rows))
	for _, row := range rows {
		provider, target, model := row.By[1], row.By[2], row.By[3]
		if name, ok := strings.CutPrefix(target, provider+"/"); ok {
			model = name
		}
		k := DayModel{row.By[0], model}
		a := all[k]
		all[k] = Amounts{a.Input + row.Input, a.Output + row.Output, a.Cached + row.Cached, a.Money + row.Cost}
	}
	return all
}

func (i *Invoice) compare(ours map[DayModel]Amounts, how Reconciliation) []ReconciledLine {
	lines := []ReconciledLine{}
	for k, a := range ours {
		l := ReconciledLine{Day: k.Day, Model: k.Model, Ledger: a}
		invoiced, ok := i.Lines[k]
		l.Invoiced = invoiced
		l.judge(i.Columns, how)
		if !ok {
			l.Verdict = MissingThere
		}
		lines = append(lines, l)
	}
	for k, invoiced := range i.Lines {
		if _, ok := ours[k]; !ok {
			l := ReconciledLine{Day: k.Day, Model: k.Model, Invoiced: invoiced}
			l.judge(i.Columns, how)
			l.Verdict = MissingHere
			lines = append(lines, l)
		}
	}
	slices.SortFunc(lines, func(a, b ReconciledLine) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Model, b.Model))
	})
	return lines
}

// judge compares the amounts that the invoice has.
func (l *ReconciledLine) judge(columns []string, how Reconciliation) {
	l.Verdict = Match
	a, b, d := l.Invoiced.all(), l.Ledger.all(), l.Difference.all()
	for n, name := range amountNames {
		if !slices.Contains(columns, name) {
			continue
		}
		*d[n] = *a[n] - *b[n]
		allowed := how.Tokens
		if name == "amount_usd" {
			allowed = int64(how.Money)
		}
		larger := max(abs(*a[n]), abs(*b[n]))
		if off := abs(*d[n]); off > allowed && float64(off) > how.Share*float64(larger) {
			l.Verdict = Differs
		}
	}
}

// all are the amounts in the order of amountNames.
func (a *Amounts) all() [4]*int64 {
	return [...]*int64{&a.Input, &a.Output, &a.Cached, (*int64)(&a.Money)}
}

func abs(n int64) int64 { return max(n, -n) }

// Counts is how many lines have each verdict.
func Counts(lines []ReconciledLine) map[Verdict]int {
	n := map[Verdict]int{}
	for _, l := range lines {
		n[l.Verdict]++
	}
	return n
}

// WriteReconciledCSV writes a reconciliation as CSV, the columns' names in the
// first line.
func WriteReconciledCSV(w io.Writer, lines []ReconciledLine) error {
	c := csv.NewWriter(w)
	columns := []string{"day", "model"}
	for _, side := range []string{"invoiced", "ledger", "difference"} {
		for _, n := range amountNames {
			columns = append(columns, side+"_"+n)
		}
	}
	if err := c.Write(append(columns, "verdict")); err != nil {
		return err
	}
	for i := range lines {
		l := &lines[i]
		cells := []string{l.Day, text(l.Model)}
		for _, a := range []*Amounts{&l.Invoiced, &l.Ledger, &l.Difference} {
			cells = append(cells, number(a.Input), number(a.Output), number(a.Cached), money(a.Money))
		}
		if err := c.Write(append(cells, string(l.Verdict))); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// validate says what is wrong with the tolerances.
func (how *Reconciliation) validate() error {
	if how.Tokens < 0 || how.Money < 0 || !(how.Share >= 0 && how.Share <= 1) {
		return fmt.Errorf("tolerances are tokens and dollars of 0 or more, and a share from 0 to 1; these are %d, %s and %v", how.Tokens, how.Money, how.Share)
	}
	return nil
}
