package floors

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// notInTools are the packages that a pure package has no use for, with what
// lies below each of them.
var notInTools = []string{
	"context", "crypto/rand", "database", "io/ioutil", "log", "math/rand", "math/rand/v2", "net", "os", "plugin",
	"runtime", "sync", "syscall", "testing", "unsafe",
}

// harmless are exceptions: packages that read or write bytes in memory only.
var harmless = []string{"net/http", "net/netip", "net/textproto", "net/url"}

// words are the parts of a package that a pure package may use; the rest of
// net/http serves or calls.
var words = map[string]func(name string) bool{
	"net/http": func(name string) bool {
		return name == "Header" || name == "CanonicalHeaderKey" || name == "ParseTime" || name == "TimeFormat" ||
			strings.HasPrefix(name, "Status") || strings.HasPrefix(name, "Method")
	},
	"net/textproto": func(name string) bool {
		return name == "MIMEHeader" || name == "CanonicalMIMEHeaderKey" || name == "TrimString"
	},
	"time": func(name string) bool {
		return !slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Timer", "Ticker", "Local", "LoadLocation"}, name)
	},
	"fmt": func(name string) bool { return !strings.HasPrefix(name, "Print") && !strings.HasPrefix(name, "Scan") },
}

func TestToolsArePure(t *testing.T) {
	for _, p := range product(t) {
		if level, ok := place(p.name()); !ok || stairs[level].nature != pure {
			continue
		}
		for _, imp := range p.Imports {
			if _, isOwn := own(imp); !isOwn && !allowed(imp) {
				t.Errorf("%s is a tool and imports %s; tools have no I/O, goroutine, lock, clock, chance or logger, and no third party's code", p.name(), imp)
			}
		}
		for _, file := range p.files() {
			f := parse(t, file)
			for _, wrong := range impure(f.file) {
				t.Errorf("%s: %s", f.set.Position(wrong.at), wrong.what)
			}
		}
	}
}

func allowed(imp string) bool {
	if slices.Contains(harmless, imp) {
		return true
	}
	if strings.Contains(strings.Split(imp, "/")[0], ".") {
		return false
	}
	return !slices.ContainsFunc(notInTools, func(bad string) bool { return imp == bad || strings.HasPrefix(imp, bad+"/") })
}

// finding is one thing in the source that a tool does not do.
type finding struct {
	at   token.Pos
	what string
}

// impure finds what a pure package may not do and what its imports alone do
// not show.
func impure(f *ast.File) (all []finding) {
	note := func(n ast.Node, format string, args ...any) {
		all = append(all, finding{n.Pos(), fmt.Sprintf(format, args...)})
	}
	imports := importNames(f)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			note(n, "a tool starts no goroutine")
		case *ast.ChanType, *ast.SendStmt, *ast.SelectStmt:
			note(n, "a tool has no channels; it returns what it has to say")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				note(n, "a tool waits for nothing")
			}
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok {
				return true
			}
			// What a local variable shadows is not the package's.
			if may := words[imports[x.Name]]; may != nil && x.Obj == nil && !may(n.Sel.Name) {
				note(n, "a tool does not use %s.%s: it is told the time, and reads and writes nothing but its arguments", imports[x.Name], n.Sel.Name)
			}
		}
		return true
	})
	return all
}

// importNames gives the import path for each name that a file knows one by.
func importNames(f *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path[strings.LastIndexByte(path, '/')+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = path
	}
	return names
}

type parsed struct {
	set  *token.FileSet
	file *ast.File
}

func parse(t *testing.T, path string) parsed {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return parsed{set, f}
}

// The test above is worth as much as what it finds.
func TestImpureFinds(t *testing.T) {
	for src, want := range map[string]int{
		`import "time"; func f() time.Time { return time.Now() }`:                                         1,
		`import clock "time"; var f = clock.Since`:                                                        1,
		`import "time"; func f(d time.Duration) time.Time { return time.Unix(0, int64(d)) }`:              0,
		`import "net/http"; func f(h http.Header) int { h.Set("A", "b"); return http.StatusOK }`:          0,
		`import "net/http"; func f() { http.Get("") }`:                                                    1,
		`import "net/http"; var c http.Client`:                                                            1,
		`import "net/http"; func f(http func()) { type s struct{ Get int }; var x s; _ = x.Get; http() }`: 0,
		`func f(c chan int) { go f(nil); select {} }`:                                                     3,
		`import "fmt"; func f() error { fmt.Println(); return fmt.Errorf("x") }`:                          1,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; "+src, 0)
		if err != nil {
			t.Fatal(src, err)
		}
		if got := impure(f); len(got) != want {
			t.Errorf("%s: %d findings, want %d: %v", src, len(got), want, got)
		}
	}
	for imp, want := range map[string]bool{
		"strings": true, "net/http": true, "net/url": true, "io": true, "math/bits": true, "crypto/sha256": true, "time": true,
		"net": false, "net/http/httptest": false, "os/exec": false, "sync/atomic": false, "crypto/rand": false, "log/slog": false, "example.com/x": false,
	} {
		if allowed(imp) != want {
			t.Errorf("allowed(%q) is %v", imp, !want)
		}
	}
}

// Nothing registers itself, and only a command ends the process.
func TestNoHiddenDoors(t *testing.T) {
	for _, p := range product(t) {
		for _, file := range p.files() {
			f := parse(t, file)
			imports := importNames(f.file)
			ast.Inspect(f.file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					if n.Recv == nil && n.Name.Name == "init" {
						t.Errorf("%s: a func init; nothing registers itself here, app and the tables name what there is", f.set.Position(n.Pos()))
					}
				case *ast.SelectorExpr:
					x, ok := n.X.(*ast.Ident)
					if ok && p.Name != "main" && (imports[x.Name] == "os" && n.Sel.Name == "Exit" || imports[x.Name] == "log" && strings.HasPrefix(n.Sel.Name, "Fatal")) {
						t.Errorf("%s: only a command ends the process; return an error", f.set.Position(n.Pos()))
					}
				}
				return true
			})
		}
	}
}
