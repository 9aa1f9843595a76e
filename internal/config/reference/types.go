package reference

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/config/decode"
	"github.com/headgate-ai/headgate/internal/setting"
)

// field is a struct's field as users know it.
type field struct {
	name   string
	goName string
	owner  string // the key of the type that declares it
	index  []int
	typ    reflect.Type
}

// key is the field's in Comments.
func (f field) key() string { return f.owner + "." + f.goName }

// fieldsOf lists the fields that package decode accepts for t. The path names a
// struct without a name of its own.
func fieldsOf(t reflect.Type, owner string) []field {
	if key := typeKey(t); key != "" {
		owner = key
	}
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag, ok := f.Tag.Lookup("yaml")
		if !ok || !f.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if options == "inline" && f.Type.Kind() == reflect.Struct {
			for _, in := range fieldsOf(f.Type, owner+"."+f.Name) {
				in.index = append([]int{i}, in.index...)
				out = append(out, in)
			}
			continue
		}
		if name != "" && name != "-" {
			out = append(out, field{name, f.Name, owner, []int{i}, f.Type})
		}
	}
	return out
}

var textType = reflect.TypeFor[encoding.TextUnmarshaler]()

// isText is whether values of t are written as one scalar by their own rules.
func isText(t reflect.Type) bool {
	return t.Implements(textType) || reflect.PointerTo(t).Implements(textType)
}

var settingType = reflect.TypeFor[decode.Setting]()

// decodesItself is whether the written form of t is known to its code only.
func decodesItself(t reflect.Type) bool { return reflect.PointerTo(t).Implements(settingType) }

// section is the struct that t is, or that it is a list, a map or a pointer of;
// nil if there is none.
func section(t reflect.Type) reflect.Type {
	for {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			if isText(t) {
				return nil
			}
			t = t.Elem()
		case reflect.Struct:
			if isText(t) || decodesItself(t) && len(fieldsOf(t, "")) == 0 {
				return nil
			}
			return t
		default:
			return nil
		}
	}
}

// known are the types that users know by a name of their own.
var known = map[reflect.Type]string{
	reflect.TypeFor[setting.Duration](): "duration",
	reflect.TypeFor[time.Duration]():    "duration",
	reflect.TypeFor[setting.Size]():     "size",
	reflect.TypeFor[setting.Secret]():   "secret reference",
	reflect.TypeFor[time.Time]():        "date or time",
}

// typeName is how users know t.
func typeName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return typeName(t.Elem())
	}
	if name, ok := known[t]; ok {
		return name
	}
	if isText(t) {
		return "text"
	}
	if decodesItself(t) {
		return "text or section"
	}
	switch k := t.Kind(); {
	case k == reflect.Slice:
		return "list of " + plural(typeName(t.Elem()))
	case k == reflect.Map:
		return "map of " + plural(typeName(t.Elem()))
	case k == reflect.Struct:
		return "section"
	case k == reflect.String:
		return "text"
	case k == reflect.Bool:
		return "true or false"
	case k >= reflect.Int && k <= reflect.Uint64:
		return "whole number"
	case k == reflect.Float32 || k == reflect.Float64:
		return "number"
	default:
		return "any value"
	}
}

// plural leaves names alone that have none, such as text.
func plural(name string) string {
	switch name {
	case "duration", "size", "secret reference", "section", "whole number", "number":
		return name + "s"
	case "any value":
		return "any values"
	case "date or time":
		return "dates or times"
	}
	return name
}

// defaultText is a default as it is written in the file; empty for none.
func defaultText(v reflect.Value) string {
	if !v.IsValid() || v.IsZero() {
		return ""
	}
	if v.Kind() == reflect.Pointer {
		return defaultText(v.Elem())
	}
	switch x := v.Interface().(type) {
	case time.Duration:
		return shortDuration(x)
	case setting.Duration:
		return shortDuration(x.Std())
	case time.Time:
		return x.Format(time.RFC3339)
	case encoding.TextMarshaler:
		b, err := x.MarshalText()
		if err != nil {
			return ""
		}
		return string(b)
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return defaultList(v)
	case reflect.Struct:
		return ""
	default:
		return fmt.Sprint(v.Interface())
	}
}

// defaultList writes a list or a map of scalars in one line. What holds structs
// is not shown: its fields have rows of their own.
func defaultList(v reflect.Value) string {
	if v.Len() == 0 || section(v.Type()) != nil {
		return ""
	}
	if v.Kind() == reflect.Map {
		b, err := json.Marshal(v.Interface()) // in the order of the keys
		if err != nil {
			return ""
		}
		return string(b)
	}
	items := make([]string, v.Len())
	for i := range items {
		items[i] = defaultText(v.Index(i))
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// shortDuration is 1h instead of 1h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// element is a value that t's elements start from.
func element(t reflect.Type) reflect.Value {
	p := reflect.New(t)
	if d, ok := p.Interface().(decode.Defaulter); ok {
		d.SetDefaults()
	}
	return p.Elem()
}
