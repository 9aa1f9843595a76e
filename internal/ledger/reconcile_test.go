package ledger

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
)

func memoryWith(t testing.TB, entries ...Entry) *Room {
	t.Helper()
	r, err := Open(t.Context(), Options{Config: Config{Kind: KindMemory}})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		mustAppend(t, r, e)
	}
	return r
}

func used(id, day, model string, in, cached, out int64, cost llm.Money) Entry {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		panic(err)
	}
	return Entry{ID: id, At: at.Add(23 * time.Hour), Model: "alias-" + id, Provider: "openai", Target: "openai/" + model, Usage: llm.Usage{Input: in, Cached: cached, Output: out}, Cost: cost, Priced: true}
}

func TestReconcile(t *testing.T) {
	r := memoryWith(t,
		used("a", "2026-01-01", "gpt-4", 100, 10, 20, 5e6),
		used("b", "2026-01-01", "gpt-4", 50, 0, 5, 2e6),
		used("c", "2026-01-01", "gpt-5", 7, 0, 1, 1),
		used("d", "2026-01-02", "gpt-4", 1000, 0, 100, 3e9),
		used("e", "2026-01-09", "gpt-4", 1000, 0, 100, 3e9), // after the invoice
	)
	const csvText = "\ufeffPeriod_Start, model, project, prompt_tokens, output_tokens, amount_usd\n" +
		"2026-01-01T10:00:00Z,gpt-4,x,100,20,0.005\n" +
		"2026-01-01T23:30:00-01:00,gpt-4,x,1005,100,$3.000000\n" + // the next day in UTC
		"2026-01-01,gpt-4,\"y, z\",50,5,0.002\n" +
		"2026-01-02,ghost,x,1,,1e-3\n"
	const jsonText = `{"date": "2026-01-01", "model": "gpt-4", "input_tokens": 100, "output_tokens": 20, "cost_usd": 0.005}
{"start_time": 1767317400, "model": "gpt-4", "input_tokens": 1005.0, "output_tokens": 100, "cost_usd": "3"}

{"date": "2026/01/01", "model": "gpt-4", "input_tokens": 50, "output_tokens": 5, "cost_usd": 2E-3, "note": {"a": [1]}}
{"date": "2026-01-02", "model": "ghost", "input_tokens": 1, "output_tokens": null, "cost_usd": 0.001}
`
	want := []ReconciledLine{
		{"2026-01-01", "gpt-4", Amounts{150, 25, 0, 7e6}, Amounts{150, 25, 10, 7e6}, Amounts{}, Match},
		{"2026-01-01", "gpt-5", Amounts{}, Amounts{7, 1, 0, 1}, Amounts{-7, -1, 0, -1}, MissingThere},
		{"2026-01-02", "ghost", Amounts{1, 0, 0, 1e6}, Amounts{}, Amounts{1, 0, 0, 1e6}, MissingHere},
		{"2026-01-02", "gpt-4", Amounts{1005, 100, 0, 3e9}, Amounts{1000, 100, 0, 3e9}, Amounts{5, 0, 0, 0}, Differs},
	}
	for _, text := range []string{csvText, jsonText} {
		got, err := Reconcile(t.Context(), r.Group, strings.NewReader(text), Reconciliation{})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v: got\n%+v, want\n%+v", err, got, want)
		}
		for _, how := range []Reconciliation{{Tokens: 5}, {Share: 0.005}} {
			got, err := Reconcile(t.Context(), r.Group, strings.NewReader(text), how)
			if err != nil || Counts(got)[Match] != 2 || Counts(got)[Differs] != 0 {
				t.Errorf("%+v: %+v, %v", how, got, err)
			}
		}
		for _, how := range []Reconciliation{{Tokens: 4}, {Share: 0.004}, {Money: 5}} {
			if got, err := Reconcile(t.Context(), r.Group, strings.NewReader(text), how); err != nil || Counts(got)[Differs] != 1 {
				t.Errorf("%+v: %+v, %v", how, got, err)
			}
		}
		got, err = Reconcile(t.Context(), r.Group, strings.NewReader(text), Reconciliation{Until: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)})
		if err != nil || !reflect.DeepEqual(got, want[:2]) {
			t.Errorf("of one day: %+v, %v", got, err)
		}
		got, err = Reconcile(t.Context(), r.Group, strings.NewReader(text), Reconciliation{Provider: "other"})
		if err != nil || Counts(got)[MissingHere] != 3 || len(got) != 3 {
			t.Errorf("of another provider: %+v, %v", got, err)
		}
	}
	if _, err := Reconcile(t.Context(), r.Group, strings.NewReader(csvText), Reconciliation{Share: 2}); err == nil || !strings.Contains(err.Error(), "share from 0 to 1") {
		t.Errorf("%v", err)
	}
}

func TestInvoiceMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "the invoice is empty",
		"a,b\n1,2\n":                           "has no date; it may also be called day",
		"date,input_tokens\n":                  "has no model",
		"date,model\n":                         "has no amounts; they are called input_tokens",
		"date,day,model,cost\n":                "two columns for date",
		"date,model,cost\n2026-01-01,m,1\nx\n": "not CSV",
		"date,model,cost\n2026-01-01,m,1\n1.2.2026,m,1\n":                      `line 3 of the invoice: "1.2.2026" is not a date`,
		"date,model,cost\n2026-01-01,,1\n":                                     "line 2 of the invoice: the model is missing",
		"date,model,cost\n2026-01-01,m,EUR 1\n":                                `line 2 of the invoice: amount_usd: "EUR 1" is not an amount`,
		"date,model,cost\n2026-01-01,m,1e99\n":                                 "too large",
		"date,model,input_tokens\n2026-01-01,m,1.5\n":                          `input_tokens: "1.5" is not a number of tokens`,
		"date,model,input_tokens\n2026-01-01,m,-1\n":                           "is not a number of tokens",
		"date,model,input_tokens\n2026-01-01,m,9e18\n2026-01-01,m,9e18":        "the sum is too large",
		`{"date": "2026-01-01", "model": "m"}`:                                 "line 1 of the invoice: the invoice has no amounts",
		`{"date": "2026-01-01", "model": "m", "cost": 1}` + "\n[":              "line 2 of the invoice: not a JSON object",
		`{"date": "2026-01-01", "day": "2026-01-01", "model": "m", "cost": 1}`: "it says date twice",
	} {
		if _, err := ReadInvoice(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestMoneyOfInvoices(t *testing.T) {
	for s, want := range map[string]llm.Money{
		"0.0000000005": 1, "0.00000000049": 0, "-0.0000000005": -1, "1.5e-05": 15_000, "$12.34": 12_340_000_000,
		"0.30000000000000004": 300_000_000, "-2": -2_000_000_000,
	} {
		if got, err := readMoney(s); err != nil || got != want {
			t.Errorf("%s: %d (%v), want %d", s, got, err, want)
		}
	}
}

// Any ledger's own figures, as an invoice, match; whichever line is changed
// differs.
func TestReconcileAgainstItself(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		var entries []Entry
		for i := range 1 + rnd.IntN(60) {
			entries = append(entries, used(fmt.Sprint(i), fmt.Sprintf("2026-02-%02d", 1+rnd.IntN(9)), fmt.Sprint("m", rnd.IntN(3)),
				100+rnd.Int64N(1e6), rnd.Int64N(100), rnd.Int64N(1e5), llm.Money(rnd.Int64N(1e12))))
		}
		r := memoryWith(t, entries...)
		rows, err := r.Group(t.Context(), Query{}, []string{Day, "target"})
		if err != nil {
			t.Fatal(err)
		}
		changed := rnd.IntN(len(rows) + 1)
		var b strings.Builder
		b.WriteString("date,model,input_tokens,output_tokens,cached_tokens,amount_usd\n")
		for i, row := range rows {
			if i == changed {
				row.Cost++
			}
			fmt.Fprintf(&b, "%s,%s,%d,%d,%d,%s\n", row.By[0], strings.TrimPrefix(row.By[1], "openai/"), row.Input, row.Output, row.Cached, money(row.Cost))
		}
		lines, err := Reconcile(t.Context(), r.Group, strings.NewReader(b.String()), Reconciliation{})
		if err != nil || len(lines) != len(rows) {
			t.Fatalf("%d lines of %d: %v", len(lines), len(rows), err)
		}
		for i, l := range lines {
			if (l.Verdict == Differs) != (i == changed) || (l.Verdict == Match) == (i == changed) {
				t.Fatalf("%+v, changed %v", l, i == changed)
			}
		}
	}
}

func FuzzInvoice(f *testing.F) {
	f.Add([]byte("date,model,input_tokens,amount_usd\n2026-01-01,m,5,1.5\n"))
	f.Add([]byte(`{"date":"2026-01-01","model":"m","cost_usd":1e-5}`))
	f.Add([]byte("\ufeffday,model,cost\n1767317400,\"a\nb\",$3\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := ReadInvoice(bytes.NewReader(b))
		if err != nil {
			return
		}
		from, until := i.span()
		for k, a := range i.Lines {
			day, err := time.Parse(time.DateOnly, k.Day)
			if err != nil || day.Before(from) || !day.Before(until) || k.Model == "" || a.Input < 0 || a.Output < 0 || a.Cached < 0 {
				t.Fatalf("%+v: %+v", k, a)
			}
		}
		for _, l := range i.compare(nil, Reconciliation{}) {
			if l.Verdict != MissingHere || l.Difference != l.Invoiced {
				t.Fatalf("%+v", l)
			}
		}
	})
}

func TestExport(t *testing.T) {
	e := entry(1)
	e.Model, e.User, e.Key = "=1+1", "a,\"b\"", "-x"
	e.Cost = 12_500_000
	r := memoryWith(t, e, entry(2))
	each := func(f func(Entry) error) error { return r.Each(t.Context(), Query{}, f) }

	var b bytes.Buffer
	if err := WriteCSV(&b, each); err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(records) != 3 {
		t.Fatalf("%v, %v", records, err)
	}
	cells := map[string]string{}
	for i, n := range records[0] {
		cells[n] = records[1][i]
	}
	if len(cells) != len(records[1]) || cells["model"] != "'=1+1" || cells["key"] != "'-x" || cells["user"] != "a,\"b\"" || cells["cost_usd"] != "0.0125" || cells["at"] != "1970-01-01T00:00:01Z" {
		t.Errorf("%v", cells)
	}

	b.Reset()
	if err := WriteJSON(&b, each); err != nil {
		t.Fatal(err)
	}
	var objects []map[string]any
	if err := json.Unmarshal(b.Bytes(), &objects); err != nil || len(objects) != 2 || objects[0]["model"] != "=1+1" || objects[0]["cost_usd"] != 0.0125 {
		t.Errorf("%v, %v", objects, err)
	}
	for n := range objects[0] {
		if _, ok := cells[n]; !ok {
			t.Errorf("the field %s is no column", n)
		}
	}
	b.Reset()
	if err := WriteJSON(&b, func(func(Entry) error) error { return nil }); err != nil || b.String() != "[]\n" {
		t.Errorf("no entries: %q, %v", b.String(), err)
	}
}

func TestExportRows(t *testing.T) {
	a, b := entry(1), entry(2)
	a.Tenant, b.Priced = "@sum", false
	by := []string{"tenant", Day}
	rows, err := memoryWith(t, a, b).Group(t.Context(), Query{}, by)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := WriteRowsCSV(&out, by, rows); err != nil {
		t.Fatal(err)
	}
	if want := "tenant,day,requests,input_tokens,cached_tokens,cache_write_tokens,output_tokens,reasoning_tokens,cost_usd,unpriced_requests\n" +
		"'@sum,1970-01-01,1,1,0,0,7,0,0.000000001,0\nacme,1970-01-01,1,2,0,0,7,0,0.000000002,1\n"; out.String() != want {
		t.Errorf("got %s, want %s", out.String(), want)
	}
	out.Reset()
	if err := WriteRowsJSON(&out, by, rows); err != nil {
		t.Fatal(err)
	}
	if want := `[
{"tenant":"@sum","day":"1970-01-01","requests":1,"input_tokens":1,"cached_tokens":0,"cache_write_tokens":0,"output_tokens":7,"reasoning_tokens":0,"cost_usd":0.000000001,"unpriced_requests":0},
{"tenant":"acme","day":"1970-01-01","requests":1,"input_tokens":2,"cached_tokens":0,"cache_write_tokens":0,"output_tokens":7,"reasoning_tokens":0,"cost_usd":0.000000002,"unpriced_requests":1}
]
`; out.String() != want {
		t.Errorf("got %s, want %s", out.String(), want)
	}
}

func TestExportReconciled(t *testing.T) {
	var out strings.Builder
	if err := WriteReconciledCSV(&out, []ReconciledLine{{"2026-01-01", "+m", Amounts{5, 0, 0, 2e9}, Amounts{7, 0, 0, 1e9}, Amounts{-2, 0, 0, 1e9}, Differs}}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if !strings.HasPrefix(lines[0], "day,model,invoiced_input_tokens,") || !strings.HasSuffix(lines[0], ",difference_amount_usd,verdict") ||
		lines[1] != "2026-01-01,'+m,5,0,0,2,7,0,0,1,-2,0,0,1,differs" {
		t.Errorf("%s", out.String())
	}
}
