package decode

import (
	"github.com/goccy/go-yaml/ast"
)

// entry is one field of a mapping, its merge keys resolved.
type entry struct {
	name  string
	key   ast.Node
	value ast.Node
	// bare is set where braces hold text without a colon.
	bare bool
}

// entries lists the fields of a mapping. Its own win over merged ones, and of
// those the ones merged first.
func (d *decoder) entries(n ast.Node, path string) []entry {
	var out []entry
	var merged []ast.Node
	first := map[string]int{}
	for _, p := range pairs(n) {
		if _, merge := p.Key.(*ast.MergeKeyNode); merge {
			merged = append(merged, p.Value)
			continue
		}
		name, ok := d.keyName(p.Key, path)
		if !ok {
			continue
		}
		line, _ := start(p.Key)
		if before, twice := first[name]; twice {
			d.add(p.Key, join(path, name), "%q is given twice, first in line %d; keep one of them", clip(name), before)
			continue
		}
		first[name] = line
		out = append(out, entry{name, p.Key, p.Value, p.Start == p.Key.GetToken()})
	}
	for _, m := range merged {
		for _, e := range d.merge(m, path) {
			if _, own := first[e.name]; !own {
				first[e.name] = 0
				out = append(out, e)
			}
		}
	}
	return out
}

func (d *decoder) keyName(k ast.Node, path string) (string, bool) {
	if explicit, ok := k.(*ast.MappingKeyNode); ok {
		k = explicit.Value
	}
	if isScalar(k) {
		return nodeText(k), true
	}
	d.add(k, path, "a field's name is %s; write plain text", kindOf(k))
	return "", false
}

// merge lists what the value of a merge key adds.
func (d *decoder) merge(n ast.Node, path string) (out []entry) {
	if !d.spend(n, path) {
		return nil
	}
	d.depth++
	defer func() { d.depth-- }()
	switch n := n.(type) {
	case *ast.AliasNode:
		if a := d.target(n, path); a != nil {
			out = d.merge(a, path)
		}
	case *ast.AnchorNode:
		if d.enter(n, n, path) {
			out = d.merge(n.Value, path)
			delete(d.active, n)
		}
	case *ast.SequenceNode:
		for _, item := range n.Values {
			out = append(out, d.merge(item, path)...)
		}
	case *ast.MappingNode, *ast.MappingValueNode:
		out = d.entries(n, path)
		d.budget -= len(out)
	default:
		d.add(n, path, "<< merges %s; write an alias of a mapping, as in \"<<: *common\"", kindOf(n))
	}
	return out
}

// Node is a value of the file, for a Setting to decode.
type Node struct {
	d    *decoder
	n    ast.Node
	path string
}

// Path is the path of the value.
func (n *Node) Path() string { return n.path }

// Text is the text of the value if that is one, as in the short form
// "policy: fair".
func (n *Node) Text() (string, bool) {
	if !isScalar(n.n) {
		return "", false
	}
	return nodeText(n.n), true
}

// Field is the text of a field of the value, as in "policy: {kind: fair}".
func (n *Node) Field(name string) (string, bool) {
	v := n.plain(n.find(name))
	if !isScalar(v) || isNull(v) {
		return "", false
	}
	return nodeText(v), true
}

// find is the value of a field, or nil.
func (n *Node) find(name string) ast.Node {
	if !isMapping(n.n) {
		return nil
	}
	for _, e := range n.d.entries(n.n, n.path) {
		if e.name == name {
			return e.value
		}
	}
	return nil
}

// plain is what is left of v without anchors and aliases, or nil.
func (n *Node) plain(v ast.Node) ast.Node {
	for range maxDepth {
		switch at := v.(type) {
		case *ast.AnchorNode:
			v = at.Value
		case *ast.AliasNode:
			a := n.d.target(at, n.path)
			if a == nil {
				return nil
			}
			v = a.Value
		default:
			return v
		}
	}
	return nil
}

// Into decodes the value into v, a pointer to a struct, apart from the fields in
// except. The type of v is to be another than the one that decodes itself.
func (n *Node) Into(v any, except ...string) {
	target, ok := structPointer(v)
	if !ok {
		n.Fail("", "a %T cannot be decoded into; pass a pointer to a struct", v)
		return
	}
	n.d.fields(n.n, target, n.path, except)
}

// Fail notes a mistake in a field of the value, or in the value itself if field
// is empty. The message says what is wrong, then what would be right.
func (n *Node) Fail(field, format string, args ...any) {
	at, path := n.n, n.path
	if field != "" {
		path = join(path, field)
		if v := n.find(field); v != nil {
			at = v
		}
	}
	n.d.add(at, path, format, args...)
}
