package app_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// wallClock is where the code leaves the monotonic clock, and why that is no
// duration. Go keeps a monotonic reading in every time.Now, and Sub, Since,
// Until, Before, After and timers use it, so a clock that is set, back or
// forth, changes none of them, unless the reading is taken off by one of these
// calls. What must follow the wall clock does: dates that are shown, and the
// expiry of keys, which is a date.
var wallClock = map[string]string{
	"internal/admin/audit.go UTC":                   "the time of an entry of the record",
	"internal/admin/when.go Parse":                  "a date that an operator writes",
	"internal/admin/when.go UTC":                    "a date that an operator writes",
	"internal/admin/providers.go UTC":               "shown by the admin API",
	"internal/wire/allowance/allowance.go Parse":    "a moment that a provider names",
	"internal/wire/allowance/allowance.go UnixNano": "a moment that a provider names, as seconds since 1970",
	"internal/wire/tokens/measure.go Round":         "of a weight",
	"internal/app/keyring.go UTC":                   "a date in the file of keys",
	"internal/cli/when.go UTC":                      "a date that an operator writes",
	"internal/app/reload.go UTC":                    "shown by the admin API",
	"internal/edge/h1/body.go Unix":                 "a deadline that has passed",
	"internal/edge/h1/reshead.go UTC":               "the header Date",
	"internal/edge/h1/reshead.go Unix":              "whether the header Date is that of this second; compared for being equal only",
	"internal/journal/line.go UTC":                  "the time of a log line",
	"internal/journal/process.go UTC":               "a time in a log line",
	"internal/journal/recent.go Truncate":           "shown by the admin API",
	"internal/cli/load.go Round":                    "of a duration, shown",
	"internal/journal/recent.go UTC":                "shown by the admin API",
	"internal/upstream/h1/conn.go Unix":             "a deadline that has passed",
	"internal/stream/watch.go Unix":                 "a deadline that has passed",
	"internal/config/decode/scalar.go Parse":        "a date of the configuration",
	"internal/app/ledger.go Unix":                   "which periods of the calendar are read",
	"internal/condition/input.go UTC":               "the hour and the date that conditions read",
	"internal/gateway/limits.go UTC":                "the date of a ledger's entry",
	"internal/gateway/status.go Unix":               "a date in an answer",
	"internal/ledger/batch.go UTC":                  "a date of the ledger",
	"internal/ledger/batch.go Unix":                 "a date of the ledger",
	"internal/ledger/batch.go UnixNano":             "a date of the ledger",
	"internal/ledger/frame.go UTC":                  "a date of the ledger",
	"internal/ledger/frame.go Unix":                 "a date of the ledger",
	"internal/ledger/frame.go UnixNano":             "a date of the ledger",
	"internal/ledger/invoice.go Parse":              "a date of the ledger",
	"internal/ledger/invoice.go UTC":                "a date of the ledger",
	"internal/ledger/invoice.go Unix":               "a date of the ledger",
	"internal/ledger/ledgertest/ledgertest.go Date": "a date of the ledger",
	"internal/ledger/ledgertest/ledgertest.go UTC":  "a date of the ledger",
	"internal/ledger/ledgertest/ledgertest.go Unix": "a date of the ledger",
	"internal/ledger/ledgertest/old.go UnixNano":    "a date of the ledger",
	"internal/ledger/query.go UTC":                  "a date of the ledger",
	"internal/ledger/reconcile.go AddDate":          "a date of the ledger",
	"internal/ledger/reconcile.go Parse":            "a date of the ledger",
	"internal/ledger/reconcile.go Unix":             "a date of the ledger",
	"internal/ledger/spool_map.go Truncate":         "of a file",
	"internal/ledger/spool.go Unix":                 "a date of the ledger",
	"internal/quota/budget.go Date":                 "periods of the calendar",
	"internal/quota/budget.go Truncate":             "periods of the calendar",
	"internal/quota/budget.go Unix":                 "periods of the calendar",
	"internal/quota/budget.go UnixNano":             "periods of the calendar",
	"internal/quota/bound.go Round":                 "of a duration, shown",
	"internal/quota/moving.go Round":                "of a number",
	"internal/quota/plan.go Round":                  "of a number",
	"internal/quota/quota.go UnixNano":              "where the room's own monotonic clock begins",
	"internal/app/quota.go Round":                   "of a duration, shown",
	"internal/quota/sharedlease.go UTC":             "which period of the calendar a budget's count is of",
	"internal/quota/sharedlease.go Unix":            "which period of the calendar a budget's count is of",
	"internal/quota/refusal.go Unix":                "a date in a message",
	"internal/quota/rule.go Round":                  "of a number",
	"internal/store/ledgersql/each.go UnixNano":     "a date in the database",
	"internal/store/ledgersql/group.go Unix":        "a date in the database",
	"internal/store/ledgersql/move.go UTC":          "a date in the database",
	"internal/store/ledgersql/move.go Unix":         "a date in the database",
	"internal/store/ledgersql/move.go UnixNano":     "a date in the database",
	"internal/store/ledgersql/select.go Unix":       "a date in the database",
	"internal/store/ledgersql/select.go UnixNano":   "a date in the database",
	"internal/wire/values.go Truncate":              "a date in a header",
	"internal/wire/values.go UTC":                   "a date in a header",
	"internal/wire/limits.go Unix":                  "a date in a header",
}

// No duration of the product is measured on the wall clock. This is a look at
// the text: it finds every call that takes the monotonic reading off a time,
// and wants each to be in the list above. It does not jump a real clock, which
// would take the machine's other users with it.
func TestDurationsAreMonotonic(t *testing.T) {
	strips := []string{"UTC", "Local", "AddDate", "Unix", "UnixNano", "UnixMilli", "UnixMicro", "ParseInLocation", "Round", "Truncate"}
	found := map[string]bool{}
	for _, root := range []string{"../../internal", "../../cmd"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				sel, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				pkg, _ := sel.X.(*ast.Ident)
				of := pkg != nil && pkg.Name == "time"
				name := sel.Sel.Name
				switch {
				case slices.Contains(strips, name), of && (name == "Parse" || name == "Date"):
				default:
					return true
				}
				at := strings.TrimPrefix(filepath.ToSlash(path), "../../") + " " + name
				if found[at] = true; wallClock[at] == "" {
					t.Errorf("%s: %s takes the monotonic reading off a time. If no duration comes of it, add %q to the list in this test; else measure with time.Now and time.Since.",
						files.Position(call.Pos()), name, at)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for at := range wallClock {
		if !found[at] {
			t.Errorf("%q is in the list and not in the code; take it out", at)
		}
	}
}
