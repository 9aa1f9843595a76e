// Package reference writes the reference of the configuration, as Markdown and
// as a JSON schema, from the Go types and their doc comments. Tests and
// generators import it; the product does not, as it needs the source files.
package reference

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Comments holds doc comments by "package.Type" and "package.Type.Field".
type Comments map[string]string

// ParseComments reads the doc comments of the types in the Go files of dirs,
// tests left out.
func ParseComments(dirs ...string) (Comments, error) {
	c := Comments{}
	for _, dir := range dirs {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			// A wrong path would otherwise show as a reference without meanings.
			return nil, &os.PathError{Op: "find Go files in", Path: dir, Err: os.ErrNotExist}
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			c.addFile(f)
		}
	}
	return c, nil
}

func (c Comments) addFile(f *ast.File) {
	for _, decl := range f.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.TYPE {
			continue
		}
		for _, spec := range group.Specs {
			t, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			doc := t.Doc
			if doc == nil && len(group.Specs) == 1 {
				doc = group.Doc
			}
			c.addType(f.Name.Name+"."+t.Name.Name, doc, t.Type)
		}
	}
}

func (c Comments) addType(key string, doc *ast.CommentGroup, typ ast.Expr) {
	if text := doc.Text(); text != "" {
		c[key] = text
	}
	s, ok := typ.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range s.Fields.List {
		text := f.Doc.Text()
		if text == "" {
			text = f.Comment.Text()
		}
		for _, name := range f.Names {
			if text != "" {
				c[key+"."+name.Name] = text
			}
			// A struct that is declared within another has no name of its own.
			c.addType(key+"."+name.Name, nil, f.Type)
		}
	}
}

// ofType is the sentence for a type, without its Go name.
func (c Comments) ofType(t reflect.Type) string {
	return withoutName(c[typeKey(t)], t.Name())
}

// ofField is the sentence for a field, without its Go name; that of its type if
// it has none.
func (c Comments) ofField(f field) string {
	if text := c[f.key()]; text != "" {
		return withoutName(text, f.goName)
	}
	if t := section(f.typ); t != nil {
		return c.ofType(t)
	}
	return ""
}

// typeKey is the key of a named type; empty for others.
func typeKey(t reflect.Type) string {
	if t.Name() == "" {
		return ""
	}
	path := t.String() // the package's name and the type's
	name, _, _ := strings.Cut(path, "[")
	return name
}

// verbs follow the Go name in most doc comments, and are no loss without it.
var verbs = []string{"is", "are"}

// withoutName drops a leading Go name, as users know only the name in the file:
// "MaxBody bounds …" becomes "Bounds …", and "Name is what …" becomes "What …".
func withoutName(text, name string) string {
	text = strings.TrimSpace(text)
	rest, ok := strings.CutPrefix(text, name+" ")
	if name == "" || !ok {
		return text
	}
	for _, verb := range verbs {
		if after, ok := strings.CutPrefix(rest, verb+" "); ok {
			rest = after
			break
		}
	}
	r, n := utf8.DecodeRuneInString(rest)
	return string(unicode.ToUpper(r)) + rest[n:]
}
