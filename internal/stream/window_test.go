package stream

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// windows are the names by which HTTP/2 libraries let code steer flow control.
var windows = regexp.MustCompile(`(?i)window_?update|initial_?(stream_?|conn_?)?window|connreceivewindow|window_?(size|delta|increment)|MaxReceiveBufferPer|MaxUploadBufferPer|setreadbuffer|setwritebuffer`)

// Flow control counts bytes and belongs to the transport. No code of this
// module steers it, so none can return credit by the token; the one thing set
// anywhere is the size of a server's receive buffers, by a constant.
func TestNoTokensInWindows(t *testing.T) {
	root := filepath.Join("..", "..")
	files := gotoken.NewFileSet()
	read := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && path != root && (name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".")) {
			return filepath.SkipDir
		}
		if rel, _ := filepath.Rel(root, path); d.IsDir() && rel == filepath.Join("lab", "experiment") {
			return filepath.SkipDir // it reproduces the flaw, to show what it costs
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		read++
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, what := range windowUses(f) {
			t.Errorf("%s: %s", files.Position(what.Pos()), "this code steers the transport's flow control; windows count bytes and are the transport's own")
		}
		return nil
	})
	if err != nil || read < 50 {
		t.Fatalf("%d files read: %v", read, err)
	}
	bad, err := parser.ParseFile(files, "bad.go", `package p; func f(tokens int) { stream.WriteWindowUpdate(int32(tokens)); _ = C{MaxReceiveBufferPerStream: tokens} }`, parser.SkipObjectResolution)
	if err != nil || len(windowUses(bad)) != 2 {
		t.Errorf("the test itself finds %d uses in an example with two", len(windowUses(bad)))
	}
}

func windowUses(f *ast.File) (uses []ast.Node) {
	fine := map[ast.Node]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr: // a field of a configuration: constants will do
			if key, ok := n.Key.(*ast.Ident); ok && constant(n.Value) {
				fine[key] = true
			}
		case *ast.Ident:
			if windows.MatchString(n.Name) && !fine[n] {
				uses = append(uses, n)
			}
		}
		return true
	})
	return uses
}

func constant(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return true
	case *ast.BinaryExpr:
		return constant(e.X) && constant(e.Y)
	}
	return false
}
