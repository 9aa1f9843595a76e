package decode

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/ast"

	"github.com/headgate-ai/headgate/internal/setting"
)

// field is a struct's field as users know it.
type field struct {
	name  string
	index []int
	typ   reflect.Type
}

// fields are those of a struct, in the order of their declaration.
type fields []field

// fieldsOf lists the fields of t that have a name, those of inlined structs in
// their place.
func fieldsOf(t reflect.Type) fields {
	var out fields
	for i := range t.NumField() {
		f := t.Field(i)
		tag, ok := f.Tag.Lookup("yaml")
		if !ok || !f.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if options == "inline" && f.Type.Kind() == reflect.Struct {
			for _, in := range fieldsOf(f.Type) {
				in.index = append([]int{i}, in.index...)
				out = append(out, in)
			}
			continue
		}
		if name != "" && name != "-" {
			out = append(out, field{name, []int{i}, f.Type})
		}
	}
	return out
}

func (fs fields) find(name string) (field, bool) {
	i := slices.IndexFunc(fs, func(f field) bool { return f.name == name })
	if i < 0 {
		return field{}, false
	}
	return fs[i], true
}

func (fs fields) names(more []string) []string {
	out := slices.Clone(more)
	for _, f := range fs {
		out = append(out, f.name)
	}
	return out
}

// secret is whether one of the fields holds a secret.
func (fs fields) secret() bool {
	return slices.ContainsFunc(fs, func(f field) bool {
		t := f.typ
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		return t == reflect.TypeFor[setting.Secret]()
	})
}

// example shows how a mapping with these fields is written.
func example(fs fields) string {
	if len(fs) == 0 {
		return `one "field: value" a line`
	}
	return fmt.Sprintf("its fields, as in \"%s: …\"", fs[0].name)
}

// few is how many known names a message lists beside its suggestion.
const few = 12

// suggestion is what would be right instead of an unknown name.
func suggestion(name string, known []string) string {
	near := nearest(name, known)
	var b strings.Builder
	if near != "" {
		fmt.Fprintf(&b, "; did you mean %q?", near)
	}
	switch {
	case len(known) == 0:
		b.WriteString("; there are no fields here")
	case near == "":
		fmt.Fprintf(&b, "; known fields are %s", strings.Join(known, ", "))
	case len(known) <= few:
		fmt.Fprintf(&b, " Known fields are %s", strings.Join(known, ", "))
	}
	return b.String()
}

// nearest is the known name that is most like name, or "" if none is.
func nearest(name string, known []string) string {
	best, distance := "", max(2, len(name)/3)+1
	for _, k := range known {
		if n := levenshtein(fold(name), fold(k)); n < distance {
			best, distance = k, n
		}
	}
	return best
}

// fold makes baseUrl, base-url and base_url the same.
func fold(s string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s))
}

// levenshtein counts the letters to add, drop or change between a and b.
func levenshtein(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return len(a) + len(b)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// wanted is what is to be written for a value of type t.
func wanted(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case timeType:
		return "a date such as 2027-01-31"
	case durationType, reflect.TypeFor[setting.Duration]():
		return "a duration such as 30s"
	case reflect.TypeFor[setting.Size]():
		return "a size such as 64KiB"
	case reflect.TypeFor[setting.Secret]():
		return "a reference: env:NAME, file:PATH or literal:VALUE"
	}
	if isText(reflect.New(t).Elem()) {
		return "one value"
	}
	switch k := t.Kind(); {
	case k == reflect.String:
		return "text"
	case k == reflect.Bool:
		return "true or false"
	case k == reflect.Float32 || k == reflect.Float64:
		return "a number such as 0.5"
	case k >= reflect.Int && k <= reflect.Uint64:
		return "a whole number such as 64"
	case k == reflect.Slice:
		return "a list such as [a, b]"
	case k == reflect.Struct:
		return example(fieldsOf(t))
	default:
		return "a value"
	}
}

// kindOf says what a value is.
func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "true or false"
	case *ast.NullNode:
		return "nothing"
	case *ast.AliasNode, *ast.AnchorNode, *ast.TagNode:
		return "an alias, an anchor or a tag"
	default:
		return "text"
	}
}

// clip keeps a long value from filling the message.
func clip(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

// oneLine keeps a value with line breaks, or with codes for the terminal, from
// breaking the list of mistakes.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

func structPointer(v any) (reflect.Value, bool) {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() || p.Elem().Kind() != reflect.Struct {
		return reflect.Value{}, false
	}
	return p.Elem(), true
}
