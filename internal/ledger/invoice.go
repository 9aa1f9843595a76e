package ledger

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
)

// Invoice is what a provider charges, summed by day and model.
type Invoice struct {
	// Columns are which of the amounts the invoice has, of the names in Amounts.
	Columns []string
	Lines   map[DayModel]Amounts
}

// DayModel is a line of an invoice.
type DayModel struct {
	Day   string // UTC, as 2006-01-02
	Model string
}

// Amounts are what a line counts.
type Amounts struct {
	Input  int64     `json:"input_tokens"`
	Output int64     `json:"output_tokens"`
	Cached int64     `json:"cached_tokens"`
	Money  llm.Money `json:"amount_usd"`
}

// The names of what an invoice's line says, with other names that they go by.
var invoiceNames = map[string][]string{
	"date":          {"day", "usage_date", "period_start", "start_time", "start"},
	"model":         {"model_name", "model_id"},
	"input_tokens":  {"prompt_tokens", "n_context_tokens_total"},
	"output_tokens": {"completion_tokens", "n_generated_tokens_total"},
	"cached_tokens": {"cached_input_tokens", "input_cached_tokens", "cache_read_input_tokens"},
	"amount_usd":    {"cost_usd", "amount", "cost"},
}

var amountNames = []string{"input_tokens", "output_tokens", "cached_tokens", "amount_usd"}

const (
	// maxLine bounds one line of an invoice.
	maxLine = 1 << 20
	// maxSums bounds how many days and models an invoice has.
	maxSums = 1_000_000
)

// ReadInvoice reads a provider's invoice: CSV with the names of the columns in
// its first line, or JSON, an object a line. Needed are date and model, and at
// least one of input_tokens, output_tokens, cached_tokens and amount_usd; other
// columns are passed over. Lines of the same day and model are summed. Errors
// say in which line the mistake is.
func ReadInvoice(r io.Reader) (*Invoice, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	if bom, _ := b.Peek(3); string(bom) == "\xef\xbb\xbf" {
		_, _ = b.Discard(3) // cannot fail: it has been peeked at
	}
	i := &Invoice{Lines: map[DayModel]Amounts{}}
	first, err := firstByte(b)
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the invoice is empty")
	case err != nil:
		return nil, fmt.Errorf("cannot read the invoice: %w", err)
	case first == '{':
		err = i.readJSON(b)
	default:
		err = i.readCSV(b)
	}
	if err != nil {
		return nil, err
	}
	return i, nil
}

// firstByte is the first one that is not space.
func firstByte(b *bufio.Reader) (byte, error) {
	for {
		c, err := b.ReadByte()
		if err != nil {
			return 0, err
		}
		if c > ' ' {
			return c, b.UnreadByte()
		}
	}
}

func (i *Invoice) readCSV(r io.Reader) error {
	c := csv.NewReader(r)
	c.TrimLeadingSpace = true
	c.ReuseRecord = true
	names, err := c.Read()
	if err != nil {
		return fmt.Errorf("the invoice is not CSV: %w", err)
	}
	columns := map[string]int{}
	for at, n := range names {
		if known := invoiceName(n); known != "" {
			if _, twice := columns[known]; twice {
				return fmt.Errorf("the invoice has two columns for %s; leave one of them", known)
			}
			columns[known] = at
		}
	}
	if err := i.header(func(n string) bool { _, ok := columns[n]; return ok }); err != nil {
		return err
	}
	for {
		record, err := c.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the invoice is not CSV: %w", err)
		}
		line, _ := c.FieldPos(0)
		if err := i.add(func(n string) string { return record[columns[n]] }); err != nil {
			return fmt.Errorf("line %d of the invoice: %w", line, err)
		}
	}
}

// header notes which amounts there are.
func (i *Invoice) header(has func(string) bool) error {
	for _, n := range []string{"date", "model"} {
		if !has(n) {
			return fmt.Errorf("the invoice has no %s; it may also be called %s", n, strings.Join(invoiceNames[n], ", "))
		}
	}
	i.Columns = nil
	for _, n := range amountNames {
		if has(n) {
			i.Columns = append(i.Columns, n)
		}
	}
	if len(i.Columns) == 0 {
		return fmt.Errorf("the invoice has no amounts; they are called %s", strings.Join(amountNames, ", "))
	}
	return nil
}

func (i *Invoice) readJSON(r io.Reader) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	line := 0
	for s.Scan() {
		line++
		text := bytes.TrimSpace(s.Bytes())
		if len(text) == 0 {
			continue
		}
		if err := i.addJSON(text, len(i.Lines) == 0); err != nil {
			return fmt.Errorf("line %d of the invoice: %w", line, err)
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d of the invoice is longer than %d bytes; write an object a line", line+1, maxLine)
	}
	return s.Err()
}

func (i *Invoice) addJSON(text []byte, first bool) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil {
		return fmt.Errorf("not a JSON object: %w", err)
	}
	values := map[string]string{}
	for n, raw := range object {
		known := invoiceName(n)
		if known == "" || string(raw) == "null" {
			continue
		}
		if _, twice := values[known]; twice {
			return fmt.Errorf("it says %s twice, by two names", known)
		}
		values[known] = string(raw)
		if raw[0] == '"' {
			var s string
			if err := json.Unmarshal(raw, &s); err != nil {
				return err
			}
			values[known] = s
		}
	}
	has := func(n string) bool { _, ok := values[n]; return ok }
	if first {
		if err := i.header(has); err != nil {
			return err
		}
	}
	for _, n := range amountNames {
		if has(n) && !slices.Contains(i.Columns, n) {
			i.Columns = append(i.Columns, n)
		}
	}
	return i.add(func(n string) string { return values[n] })
}

// invoiceName is our name for a column, "" for one that does not matter.
func invoiceName(s string) string {
	s = strings.ToLower(strings.TrimSpace(s))
	for n, others := range invoiceNames {
		if s == n || slices.Contains(others, s) {
			return n
		}
	}
	return ""
}

// add adds a line.
func (i *Invoice) add(value func(string) string) error {
	day, err := readDay(value("date"))
	if err != nil {
		return err
	}
	k := DayModel{day, strings.TrimSpace(value("model"))}
	if k.Model == "" {
		return errors.New("the model is missing")
	}
	a := i.Lines[k]
	for _, n := range i.Columns {
		if err := a.add(n, strings.TrimSpace(value(n))); err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
	}
	if i.Lines[k] = a; len(i.Lines) > maxSums {
		return fmt.Errorf("the invoice has more than %d days and models", maxSums)
	}
	return nil
}

func (a *Amounts) add(name, value string) error {
	if value == "" {
		return nil // a model that has no such tokens
	}
	if name == "amount_usd" {
		m, err := readMoney(value)
		if err != nil {
			return err
		}
		return sum((*int64)(&a.Money), int64(m))
	}
	n, err := readCount(value)
	if err != nil {
		return err
	}
	switch name {
	case "input_tokens":
		return sum(&a.Input, n)
	case "output_tokens":
		return sum(&a.Output, n)
	}
	return sum(&a.Cached, n)
}

func sum(to *int64, n int64) error {
	s := *to + n
	if (s > *to) != (n > 0) {
		return errors.New("the sum is too large")
	}
	*to = s
	return nil
}

// dayLayouts are how a date may be written.
var dayLayouts = []string{time.DateOnly, time.RFC3339, time.DateTime, "2006-01-02T15:04:05", "2006/01/02"}

// readDay gives the day in UTC.
func readDay(s string) (string, error) {
	s = strings.TrimSpace(s)
	for _, l := range dayLayouts {
		if t, err := time.Parse(l, s); err == nil {
			return t.UTC().Format(time.DateOnly), nil
		}
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 1e9 && n < 1e10 {
		return time.Unix(n, 0).UTC().Format(time.DateOnly), nil
	}
	return "", fmt.Errorf("%q is not a date; write one such as 2026-01-31, a time of RFC 3339, or seconds since 1970", clip(s))
}

func readCount(s string) (int64, error) {
	n, ok := decimal(s, 1)
	if !ok || !n.IsInt() || !n.Num().IsInt64() || n.Sign() < 0 {
		return 0, fmt.Errorf("%q is not a number of tokens; write digits", clip(s))
	}
	return n.Num().Int64(), nil
}

// readMoney reads dollars, rounded half away from zero to a nano-dollar: some
// invoices are written by programs that compute with binary fractions.
func readMoney(s string) (llm.Money, error) {
	n, ok := decimal(strings.TrimPrefix(s, "$"), int64(llm.USD))
	if !ok {
		return 0, fmt.Errorf("%q is not an amount of dollars; write a decimal number such as 12.34", clip(s))
	}
	half := big.NewRat(1, 2)
	if n.Sign() < 0 {
		half.Neg(half)
	}
	n.Add(n, half)
	nano := new(big.Int).Quo(n.Num(), n.Denom())
	if !nano.IsInt64() {
		return 0, fmt.Errorf("%q is too large an amount", clip(s))
	}
	return llm.Money(nano.Int64()), nil
}

// maxDecimal and maxExponent keep numbers small enough that computing with them
// is no work.
const (
	maxDecimal  = 100
	maxExponent = 2 // digits
)

// isDecimal is whether s is a number such as -12, 0.5 or 1.5e-05.
func isDecimal(s string) bool {
	s = strings.TrimPrefix(s, "-")
	mantissa, exponent, hasExponent := strings.Cut(strings.ToLower(s), "e")
	whole, fraction, hasFraction := strings.Cut(mantissa, ".")
	if hasExponent && exponent != "" && (exponent[0] == '+' || exponent[0] == '-') {
		exponent = exponent[1:]
	}
	return len(s) <= maxDecimal && len(exponent) <= maxExponent &&
		isDigits(whole) && (isDigits(fraction) || !hasFraction) && (isDigits(exponent) || !hasExponent)
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// decimal reads a number and multiplies it.
func decimal(s string, by int64) (*big.Rat, bool) {
	if !isDecimal(s) {
		return nil, false
	}
	n, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil, false
	}
	return n.Mul(n, new(big.Rat).SetInt64(by)), true
}

// clip keeps an error readable.
func clip(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}
