package config

import (
	"encoding"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/setting"
)

// View is a configuration for operators' eyes: values as they would be written,
// secrets left out, and for every field where its value came from.
type View struct {
	Values  any               `json:"values"`
	Origins map[string]string `json:"origins"`
}

// View shows the whole configuration, defaults included.
func (l *Loaded) View() View {
	v := viewer{origins: map[string]string{}, set: l.Positions.Set, from: l.Document.Name}
	return View{Values: v.value(reflect.ValueOf(*l.File), ""), Origins: v.origins}
}

// Values shows one part of a configuration, without what is empty.
func Values(part any) any {
	v := viewer{origins: map[string]string{}, set: func(string) bool { return false }}
	return full(v.value(reflect.ValueOf(part), ""))
}

// full leaves out what is empty.
func full(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for name, value := range m {
		value = full(value)
		if x := reflect.ValueOf(value); !x.IsValid() || x.IsZero() || (x.Kind() == reflect.Slice || x.Kind() == reflect.Map) && x.Len() == 0 {
			delete(m, name)
		} else {
			m[name] = value
		}
	}
	return m
}

type viewer struct {
	origins map[string]string
	set     func(path string) bool
	from    string
}

func (v *viewer) value(x reflect.Value, path string) any {
	if m, ok := x.Interface().(encoding.TextMarshaler); ok {
		return v.text(m, path)
	}
	switch x.Kind() {
	case reflect.Struct:
		return v.fields(x, path)
	case reflect.Slice:
		list := make([]any, x.Len())
		for i := range list {
			list[i] = v.value(x.Index(i), setting.Index(path, i))
		}
		if len(list) == 0 {
			v.leaf(path)
		}
		return list
	case reflect.Map:
		m := map[string]any{}
		for _, k := range x.MapKeys() {
			// Values of maps are headers, which may hold credentials.
			m[k.String()] = "[redacted]"
		}
		v.leaf(path)
		return m
	}
	v.leaf(path)
	return x.Interface()
}

func (v *viewer) text(m encoding.TextMarshaler, path string) any {
	v.leaf(path)
	if t, ok := m.(time.Time); ok && t.IsZero() {
		return nil
	}
	b, err := m.MarshalText()
	if err != nil {
		return "[unprintable]"
	}
	return string(b)
}

func (v *viewer) fields(x reflect.Value, path string) map[string]any {
	m := map[string]any{}
	for i := range x.NumField() {
		name, options, _ := strings.Cut(x.Type().Field(i).Tag.Get("yaml"), ",")
		if options == "inline" {
			maps.Copy(m, v.fields(x.Field(i), path))
		}
		if name == "" || name == "-" {
			continue
		}
		at := name
		if path != "" {
			at = path + "." + name
		}
		m[name] = v.value(x.Field(i), at)
	}
	return m
}

// leaf notes where the value at path came from.
func (v *viewer) leaf(path string) {
	if v.set(path) {
		v.origins[path] = v.from
	} else {
		v.origins[path] = "default"
	}
}
