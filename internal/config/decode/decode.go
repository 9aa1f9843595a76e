// Package decode reads YAML into Go structs strictly, and reports every mistake
// at once with its line, its column and what would be right. Package config and
// the tests of rooms with a Config import it.
//
// It walks the YAML library's syntax tree against the Go types. The library's
// own decoding is not used: it stops at the first mistake, and its messages name
// Go types, which users do not know.
package decode

import (
	"fmt"
	"sort"

	"github.com/goccy/go-yaml/ast"
)

const (
	// maxBytes bounds a configuration's size, as the parser needs far more
	// memory than the text does.
	maxBytes = 4 << 20
	// maxDepth bounds nesting, in the text and through aliases. The parser's
	// time grows with the square of it.
	maxDepth = 100
	// aliasAllowance is how many values aliases may add to those in the text.
	aliasAllowance = 100_000
	// maxMistakes is how many mistakes are told one by one.
	maxMistakes = 1000
)

// Setting is a type that decodes itself, such as a choice between kinds. It
// reports mistakes with Node.Fail.
type Setting interface{ DecodeSetting(n *Node) }

// Defaulter is a type whose values do not start from zero. SetDefaults is called
// before an element of a list or a map, or the target of a nil pointer, is
// decoded.
type Defaulter interface{ SetDefaults() }

// YAML decodes data into the struct that into points to. Fields that the text
// does not mention keep their value, so defaults are filled in beforehand, and
// several documents may be decoded over each other, the weakest first: lists are
// replaced whole, maps and structs are merged.
//
// The mistakes are in the order of the text. If there are any, into is partly
// filled and not to be used.
func YAML(file string, data []byte, into any) (Positions, Mistakes) {
	d := &decoder{
		file:    file,
		at:      map[string]position{},
		anchors: map[string]*ast.AnchorNode{},
		active:  map[*ast.AnchorNode]bool{},
	}
	target, ok := structPointer(into)
	if !ok {
		d.addAt(1, 1, "", "a %T cannot be decoded into; pass a pointer to a struct", into)
		return Positions{}, d.mistakes
	}
	if root := d.parse(data); root != nil {
		d.collectAnchors(root, 0)
		d.value(root, target, "")
	}
	sort.SliceStable(d.mistakes, func(i, j int) bool { return d.mistakes[i].before(d.mistakes[j]) })
	return Positions{d.at}, d.mistakes
}

// decoder is the state of one call of YAML.
type decoder struct {
	file     string
	mistakes Mistakes
	told     map[told]bool
	at       map[string]position
	anchors  map[string]*ast.AnchorNode
	// active holds the anchors whose content is being decoded, to notice one
	// that holds an alias of itself.
	active map[*ast.AnchorNode]bool
	depth  int
	// budget is how many more values may be decoded.
	budget int
	spent  bool
}

// told is what makes two mistakes the same. The path is left out, so that a
// mistake within an anchor is told once and not once for each alias.
type told struct {
	line, column int
	message      string
}

// add notes a mistake at the beginning of n.
func (d *decoder) add(n ast.Node, path, format string, args ...any) {
	line, column := start(n)
	d.addAt(line, column, path, format, args...)
}

func (d *decoder) addAt(line, column int, path, format string, args ...any) {
	m := Mistake{d.file, line, column, path, oneLine(fmt.Sprintf(format, args...))}
	key := told{line, column, m.Message}
	if d.told[key] || len(d.mistakes) > maxMistakes {
		return
	}
	if len(d.mistakes) == maxMistakes {
		m.Path, m.Message = "", fmt.Sprintf("more than %d mistakes; correct these first", maxMistakes)
	}
	if d.told == nil {
		d.told = map[told]bool{}
	}
	d.told[key] = true
	d.mistakes = append(d.mistakes, m)
}

// spend takes one value from the budget. Once it is spent nothing more is
// decoded and nothing more is said.
func (d *decoder) spend(n ast.Node, path string) bool {
	if d.spent {
		return false
	}
	d.budget--
	if d.budget >= 0 && d.depth < maxDepth {
		return true
	}
	if d.budget >= 0 {
		d.add(n, path, "nested more than %d levels deep; write it flatter", maxDepth)
		return false
	}
	d.spent = true
	d.add(n, path, "aliases repeat more than %d values; write fewer of them", aliasAllowance)
	return false
}
