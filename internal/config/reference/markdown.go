package reference

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
)

// Markdown writes the reference of the configuration whose root is the struct
// type root: for each section a heading, its meaning, and a table of its fields.
// The defaults are a value of the root's type, a pointer to one, or nil. It is
// the body of a page, without a title.
func Markdown(root reflect.Type, docs Comments, defaults any) []byte {
	m := &markdown{docs: docs}
	v := reflect.ValueOf(defaults)
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() || v.Type() != root {
		v = reflect.Zero(root)
	}
	m.section(root, "", field{typ: root}, v)
	return bytes.TrimLeft(m.out.Bytes(), "\n")
}

type markdown struct {
	docs Comments
	out  bytes.Buffer
	// within holds the types around the present section, as a type may hold
	// itself.
	within []reflect.Type
}

// section writes the section at path, which the field holds, and then those
// within it.
func (m *markdown) section(t reflect.Type, path string, of field, v reflect.Value) {
	for _, outer := range m.within {
		if outer == t {
			return
		}
	}
	m.within = append(m.within, t)
	defer func() { m.within = m.within[:len(m.within)-1] }()

	fields := fieldsOf(t, of.key())
	if path != "" {
		fmt.Fprintf(&m.out, "\n## `%s`\n", path)
	}
	if doc := m.docs.ofField(of); doc != "" {
		fmt.Fprintf(&m.out, "\n%s\n", doc)
	}
	if len(fields) > 0 {
		m.out.WriteString("\n| field | type | default | meaning |\n|---|---|---|---|\n")
	}
	for _, f := range fields {
		m.row(f, path, v)
	}
	for _, f := range fields {
		m.inner(f, path, v)
	}
}

func (m *markdown) row(f field, path string, v reflect.Value) {
	text := ""
	if d := defaultText(v.FieldByIndex(f.index)); d != "" {
		text = "`" + cell(d) + "`"
	}
	meaning := m.docs.ofField(f)
	if section(f.typ) != nil {
		// The whole of it stands below the heading.
		meaning = firstSentence(meaning)
	}
	fmt.Fprintf(&m.out, "| `%s` | %s | %s | %s |\n", join(path, f.name), typeName(f.typ), text, cell(meaning))
}

// inner writes the section that a field is or holds.
func (m *markdown) inner(f field, path string, v reflect.Value) {
	t := section(f.typ)
	if t == nil {
		return
	}
	at, item := join(path, f.name), v.FieldByIndex(f.index)
	for typ := f.typ; typ != t; typ = typ.Elem() {
		switch typ.Kind() {
		case reflect.Slice:
			at += "[]"
		case reflect.Map:
			at += ".NAME"
		}
	}
	if item.Kind() == reflect.Pointer && !item.IsNil() {
		item = item.Elem()
	}
	if item.Type() != t {
		item = element(t)
	}
	m.section(t, at, f, item)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// cell makes text fit into one cell of a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}

func firstSentence(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if i := strings.Index(s, ". "); i >= 0 {
		return s[:i+1]
	}
	return s
}
