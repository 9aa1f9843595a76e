package reference

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"time"

	"github.com/headgate-ai/headgate/internal/setting"
)

// object is one JSON object. Its keys are written in alphabetical order, so that
// the same types always give the same bytes.
type object map[string]any

// Schema writes a JSON Schema (2020-12) of the configuration whose root is the
// struct type root, for editors. Every named struct is a definition of its own.
func Schema(root reflect.Type, docs Comments) []byte {
	s := &schema{docs: docs, defs: object{}}
	top := s.structure(root, typeKey(root))
	top["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	if doc := docs.ofType(root); doc != "" {
		top["description"] = doc
	}
	if len(s.defs) > 0 {
		top["$defs"] = s.defs
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if e.Encode(top) != nil {
		return nil // cannot be: it holds maps, text and numbers
	}
	return out.Bytes()
}

type schema struct {
	docs Comments
	defs object
}

// structure is a mapping with the fields of t and no others. The owner is the
// comments' key of a struct without a name.
func (s *schema) structure(t reflect.Type, owner string) object {
	properties := object{}
	for _, f := range fieldsOf(t, owner) {
		p := s.of(f.typ, f.key())
		if doc := s.docs.ofField(f); doc != "" {
			p["description"] = doc
		}
		properties[f.name] = p
	}
	return object{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
}

func (s *schema) of(t reflect.Type, owner string) object {
	if o := scalar(t); o != nil {
		return o
	}
	if decodesItself(t) {
		return object{} // only its code knows
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem(), owner)
	case reflect.Slice:
		return object{"type": []string{"array", "null"}, "items": s.of(t.Elem(), owner)}
	case reflect.Map:
		return object{"type": []string{"object", "null"}, "additionalProperties": s.of(t.Elem(), owner)}
	case reflect.Struct:
		return s.reference(t, owner)
	default:
		return object{}
	}
}

// reference refers to the definition of a named struct, and writes it first if
// it is new.
func (s *schema) reference(t reflect.Type, owner string) object {
	name := typeKey(t)
	if name == "" {
		return s.structure(t, owner)
	}
	if _, ok := s.defs[name]; !ok {
		s.defs[name] = nil // for a type that holds itself
		s.defs[name] = s.structure(t, name)
	}
	return object{"$ref": "#/$defs/" + name}
}

// textual is what may be written where text is wanted: unquoted numbers and true
// are taken as they stand.
var textual = []string{"string", "number", "boolean"}

// scalar is the schema of a type that is written as one value, or nil.
func scalar(t reflect.Type) object {
	if t.Kind() == reflect.Pointer {
		return scalar(t.Elem())
	}
	switch t {
	case reflect.TypeFor[setting.Duration](), reflect.TypeFor[time.Duration]():
		return object{"type": []string{"string", "integer"}, "maximum": 0, "minimum": 0, "pattern": `^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+)$`}
	case reflect.TypeFor[setting.Size]():
		return object{"type": []string{"string", "integer"}, "pattern": `^[0-9]+ *(KiB|MiB|GiB|B)?$`, "minimum": 0}
	case reflect.TypeFor[setting.Secret]():
		return object{"type": "string", "pattern": `^(env|file|literal):.`}
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "pattern": `^[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt].+)?$`}
	}
	if isText(t) {
		return object{"type": textual}
	}
	switch k := t.Kind(); {
	case k == reflect.String:
		return object{"type": textual}
	case k == reflect.Bool:
		return object{"type": "boolean"}
	case k >= reflect.Int && k <= reflect.Int64:
		return integer(-math.Ldexp(1, t.Bits()-1), math.Ldexp(1, t.Bits()-1)-1, t.Bits())
	case k >= reflect.Uint && k <= reflect.Uint64:
		return integer(0, math.Ldexp(1, t.Bits())-1, t.Bits())
	case k == reflect.Float32 || k == reflect.Float64:
		return object{"type": "number"}
	}
	return nil
}

// integer states its bounds where a JSON number can hold them exactly.
func integer(low, high float64, bits int) object {
	o := object{"type": "integer"}
	if low == 0 || bits <= 32 {
		o["minimum"] = low
	}
	if bits <= 32 {
		o["maximum"] = high
	}
	return o
}
