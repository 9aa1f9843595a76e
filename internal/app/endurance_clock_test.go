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
	"internal/app/reload.go UTC":             "shown by the admin API",
	"internal/edge/h1/body.go Unix":          "a deadline that has passed",
	"internal/edge/h1/reshead.go UTC":        "the header Date",
	"internal/edge/h1/reshead.go Unix":       "whether the header Date is that of this second; compared for being equal only",
	"internal/journal/line.go UTC":           "the time of a log line",
	"internal/journal/process.go UTC":        "a time in a log line",
	"internal/journal/recent.go Truncate":    "shown by the admin API",
	"internal/cli/load.go Round":             "of a duration, shown",
	"internal/journal/recent.go UTC":         "shown by the admin API",
	"internal/upstream/h1/conn.go Unix":      "a deadline that has passed",
	"internal/stream/watch.go Unix":          "a deadline that has passed",
	"internal/config/decode/scalar.go Parse": "a date of the configuration",
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
