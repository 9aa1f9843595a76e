package decode

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"github.com/goccy/go-yaml/ast"
)

// value decodes n into v.
func (d *decoder) value(n ast.Node, v reflect.Value, path string) {
	if !d.spend(n, path) {
		return
	}
	d.depth++
	defer func() { d.depth-- }()
	switch n := n.(type) {
	case *ast.AnchorNode:
		if d.enter(n, n, path) {
			d.value(n.Value, v, path)
			delete(d.active, n)
		}
	case *ast.AliasNode:
		if a := d.target(n, path); a != nil {
			d.value(a, v, path)
		}
	case *ast.TagNode:
		d.add(n, path, "YAML tags are not used here; write the value without %s", clip(n.GetToken().Value))
	default:
		d.resolved(n, v, path)
	}
}

// enter marks the anchor's content as being decoded. The caller removes the mark.
func (d *decoder) enter(a *ast.AnchorNode, at ast.Node, path string) bool {
	if d.active[a] {
		d.add(at, path, "the anchor &%s holds an alias of itself; write out the value", nodeText(a.Name))
		return false
	}
	d.active[a] = true
	return true
}

// target is the anchor that an alias refers to. Aliases of what comes later are
// refused as YAML demands.
func (d *decoder) target(n *ast.AliasNode, path string) *ast.AnchorNode {
	name := nodeText(n.Value)
	a := d.anchors[name]
	if a != nil {
		line, column := start(n)
		aLine, aColumn := start(a)
		if aLine < line || aLine == line && aColumn < column {
			if d.active[a] {
				d.add(n, path, "the alias *%s stands within what it refers to; write out the value", name)
				return nil
			}
			return a
		}
	}
	d.add(n, path, `*%s refers to no anchor before it; define it with &%s, or put a value that begins with * in quotes`, name, name)
	return nil
}

// resolved decodes n, which is not an alias, anchor or tag.
func (d *decoder) resolved(n ast.Node, v reflect.Value, path string) {
	if isNull(n) {
		d.null(n, v, path)
		return
	}
	if v.Kind() == reflect.Pointer {
		fresh := reflect.New(v.Type().Elem())
		if v.IsNil() {
			setDefaults(fresh)
		} else {
			// The old target may be shared with the defaults.
			fresh.Elem().Set(v.Elem())
		}
		d.resolved(n, fresh.Elem(), path)
		v.Set(fresh)
		return
	}
	if s, ok := v.Addr().Interface().(Setting); ok {
		s.DecodeSetting(&Node{d, n, path})
		return
	}
	if isText(v) {
		d.text(n, v, path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.fields(n, v, path, nil)
	case reflect.Map:
		d.mapping(n, v, path)
	case reflect.Slice:
		d.list(n, v, path)
	case reflect.Interface:
		d.anything(n, v, path)
	default:
		d.scalar(n, v, path)
	}
}

// null decodes an empty value. A section whose lines are all commented out is as
// good as absent; a field without its value is a mistake.
func (d *decoder) null(n ast.Node, v reflect.Value, path string) {
	if container(v) {
		if at, ok := d.at[path]; ok {
			at.set = false
			d.at[path] = at
		}
		return
	}
	d.add(n, path, "the value is missing; write %s, or remove the field", wanted(v.Type()))
}

func container(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer, reflect.Interface:
		return true
	case reflect.Struct:
		return !isText(v)
	default:
		_, own := v.Addr().Interface().(Setting)
		return own
	}
}

// fields decodes a mapping into a struct, apart from the fields in except.
func (d *decoder) fields(n ast.Node, v reflect.Value, path string, except []string) {
	known := fieldsOf(v.Type())
	if !isMapping(n) {
		// The text is not repeated: it may be a secret, written one level too high.
		d.add(n, path, "this is %s, not a mapping; write %s", kindOf(n), example(known))
		return
	}
	for _, e := range d.entries(n, path) {
		if slices.Contains(except, e.name) {
			continue
		}
		at := join(path, e.name)
		f, ok := known.find(e.name)
		if !ok {
			d.unknown(e, known, path, except)
			continue
		}
		d.mark(at, e.key, e.value)
		d.value(e.value, v.FieldByIndex(f.index), at)
	}
}

func (d *decoder) unknown(e entry, known fields, path string, except []string) {
	if known.secret() && (e.bare || len(e.name) > 40) {
		// Likely a secret where "secret: env:NAME" was meant: not repeated.
		d.add(e.key, path, "text where a field was expected; write %s", example(known))
		return
	}
	d.add(e.key, join(path, e.name), "unknown field %q%s", clip(e.name), suggestion(e.name, known.names(except)))
}

// mapping decodes into a map, over the entries that it has already.
func (d *decoder) mapping(n ast.Node, v reflect.Value, path string) {
	if v.Type().Key().Kind() != reflect.String {
		d.unsupported(n, v, path)
		return
	}
	if !isMapping(n) {
		d.add(n, path, "this is %s, not a mapping; write one \"name: value\" a line", kindOf(n))
		return
	}
	// A copy, as the map may be shared with the defaults.
	out := reflect.MakeMap(v.Type())
	for _, k := range v.MapKeys() {
		out.SetMapIndex(k, v.MapIndex(k))
	}
	for _, e := range d.entries(n, path) {
		at := join(path, e.name)
		d.mark(at, e.key, e.value)
		key := reflect.ValueOf(e.name).Convert(v.Type().Key())
		item := reflect.New(v.Type().Elem())
		if old := out.MapIndex(key); old.IsValid() {
			item.Elem().Set(old)
		} else {
			setDefaults(item)
		}
		d.value(e.value, item.Elem(), at)
		out.SetMapIndex(key, item.Elem())
	}
	v.Set(out)
}

// list decodes into a slice, which it replaces.
func (d *decoder) list(n ast.Node, v reflect.Value, path string) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.add(n, path, "this is %s, not a list; write [a, b], or one \"- item\" a line", kindOf(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), 0, len(seq.Values))
	for i, item := range seq.Values {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.mark(at, item, item)
		e := reflect.New(v.Type().Elem())
		setDefaults(e)
		if isNull(item) && e.Elem().Kind() != reflect.Interface {
			d.add(item, at, "the item is empty; write %s, or remove it", wanted(v.Type().Elem()))
		} else {
			d.value(item, e.Elem(), at)
		}
		if d.spent {
			break
		}
		out = reflect.Append(out, e.Elem())
	}
	v.Set(out)
}

// anything decodes into an any, as maps, lists and the plain Go types.
func (d *decoder) anything(n ast.Node, v reflect.Value, path string) {
	if v.NumMethod() > 0 {
		d.unsupported(n, v, path)
		return
	}
	var out reflect.Value
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		out = reflect.New(reflect.TypeFor[map[string]any]()).Elem()
		d.mapping(n, out, path)
	case *ast.SequenceNode:
		out = reflect.New(reflect.TypeFor[[]any]()).Elem()
		d.list(n, out, path)
	case *ast.IntegerNode:
		out = reflect.New(reflect.TypeFor[int64]()).Elem()
		d.scalar(n, out, path)
	case *ast.FloatNode:
		out = reflect.New(reflect.TypeFor[float64]()).Elem()
		d.scalar(n, out, path)
	case *ast.BoolNode:
		out = reflect.ValueOf(n.Value)
	default:
		out = reflect.ValueOf(nodeText(n))
	}
	v.Set(out)
}

func (d *decoder) unsupported(n ast.Node, v reflect.Value, path string) {
	d.add(n, path, "a field of the Go type %s cannot be set from a file; remove it", v.Type())
}

// mark notes where path stands: a scalar at its value, anything longer at its
// name, which is what a reader looks for.
func (d *decoder) mark(path string, key, value ast.Node) {
	n := value
	if isMapping(value) || isNull(value) {
		n = key
	} else if _, list := value.(*ast.SequenceNode); list {
		n = key
	} else if _, anchor := value.(*ast.AnchorNode); anchor {
		n = key
	}
	line, column := start(n)
	d.at[path] = position{line, column, true}
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// join is the path of a field or a map's entry.
func join(path, name string) string {
	switch {
	case !plainKey.MatchString(name):
		return fmt.Sprintf("%s[%q]", path, clip(name))
	case path == "":
		return name
	default:
		return path + "." + name
	}
}

func setDefaults(pointer reflect.Value) {
	if d, ok := pointer.Interface().(Defaulter); ok {
		d.SetDefaults()
	}
}
