package decode

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// parse gives the content of the only document in data, or nil if there is none
// or it cannot be read.
func (d *decoder) parse(data []byte) ast.Node {
	if len(data) > maxBytes {
		d.addAt(1, 1, "", "the file has %d bytes; a configuration has at most %d", len(data), maxBytes)
		return nil
	}
	// A byte order mark would otherwise become part of the first field's name.
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !d.checkText(data) {
		return nil
	}
	tree, err := d.tree(string(data))
	if err != nil {
		d.addSyntax(err)
		return nil
	}
	if tree == nil {
		return nil
	}
	return d.onlyDocument(tree)
}

// checkText refuses bytes that are not UTF-8, which the parser would replace.
func (d *decoder) checkText(data []byte) bool {
	line, column := 1, 1
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			d.addAt(line, column, "", "the byte 0x%02x is not UTF-8; save the file as UTF-8", data[i])
			return false
		}
		if r == 0 {
			d.addAt(line, column, "", "there is a zero byte; save the file as UTF-8 text")
			return false
		}
		if i += n; r == '\n' {
			line, column = line+1, 0
		}
		column++
	}
	return true
}

// tree parses text. Neither the lexer nor the parser promises never to panic,
// and a file that is being edited must not take the gateway down.
func (d *decoder) tree(text string) (f *ast.File, err error) {
	defer func() {
		if recover() != nil {
			f, err = nil, errors.New("cannot be read as YAML")
		}
	}()
	tokens := lexer.Tokenize(text)
	if at := tooDeep(tokens); at != nil {
		d.addAt(at.Line, at.Column, "", "nested more than %d levels deep; write it flatter", maxDepth)
		return nil, nil
	}
	d.budget = len(tokens) + aliasAllowance
	// Duplicate keys are looked for later, where all of them are found.
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// tooDeep is where brackets, or entries that begin on the same line, nest deeper
// than is allowed; nil if nowhere. Nesting by indentation needs no bound of its
// own: its text grows with the square of the depth.
func tooDeep(tokens token.Tokens) *token.Position {
	brackets, line, entries := 0, 0, 0
	for _, t := range tokens {
		if t.Position == nil {
			continue
		}
		if t.Position.Line != line {
			line, entries = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets--
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType:
			// Within brackets these may follow each other without nesting.
			if brackets <= 0 {
				entries++
			}
		}
		if brackets > maxDepth || entries > maxDepth {
			return t.Position
		}
	}
	return nil
}

func (d *decoder) onlyDocument(f *ast.File) ast.Node {
	var root ast.Node
	for _, doc := range f.Docs {
		if _, directive := doc.Body.(*ast.DirectiveNode); directive || doc.Body == nil {
			continue
		}
		if root != nil {
			d.add(doc.Body, "", `a second document begins here; a configuration is one document, so remove the "---" and what follows`)
			break
		}
		root = doc.Body
	}
	return root
}

// positioned is the part of the parser's errors that is needed here; the types
// themselves are internal to it.
type positioned interface {
	GetToken() *token.Token
	GetMessage() string
}

func (d *decoder) addSyntax(err error) {
	line, column, message := 1, 1, err.Error()
	var p positioned
	if errors.As(err, &p) {
		message = p.GetMessage()
		if t := p.GetToken(); t != nil && t.Position != nil {
			line, column = t.Position.Line, t.Position.Column
		}
	}
	d.addAt(line, column, "", "%s", syntaxSentence(message))
}

// syntaxHints says what would be right, by a part of the parser's message. The
// first that fits is taken.
var syntaxHints = []struct{ part, hint string }{
	{"\t", "indent with spaces"},
	{"tab character", "use spaces"},
	{"reserved character", "put the value in quotes"},
	{"escape", `write a backslash as \\, or use single quotes`},
	{"alias", `put a value that begins with * in quotes, as in "*"`},
	{"unexpected scalar value type", `put a value that begins with *, &, ! or ? in quotes, as in "*"`},
	{"anchor", `put a value that begins with & in quotes`},
	{"tag", "put a value that begins with ! in quotes"},
	{"mapping value is not allowed", `put a value that holds ": " in quotes, or begin a new line`},
	{"single-quoted", "close the quote"},
	{"double-quoted", "close the quote"},
	{"']'", "check that each [ has its ] and a comma between items"},
	{"'}'", "check that each { has its } and a comma between items"},
	{"not allowed in this context", "check the indentation of this line and the one before"},
	{"key", `write "field: value", and quote a name that is not plain text`},
}

func syntaxSentence(message string) string {
	hint := "check the indentation and the quotes here"
	for _, h := range syntaxHints {
		if strings.Contains(message, h.part) {
			hint = h.hint
			break
		}
	}
	message = strings.ReplaceAll(message, "'\t'", "TAB")
	return fmt.Sprintf("not valid YAML: %s; %s", strings.Join(strings.Fields(message), " "), hint)
}

// collectAnchors finds every anchor before decoding begins, also below fields
// that are not decoded.
func (d *decoder) collectAnchors(n ast.Node, depth int) {
	if depth > 10*maxDepth {
		return
	}
	switch n := n.(type) {
	case *ast.AnchorNode:
		name := nodeText(n.Name)
		if first := d.anchors[name]; first != nil {
			line, _ := start(first)
			d.add(n, "", "a second anchor is named &%s, first used in line %d; choose another name", name, line)
		} else {
			d.anchors[name] = n
		}
		d.collectAnchors(n.Value, depth+1)
	case *ast.TagNode:
		d.collectAnchors(n.Value, depth+1)
	case *ast.SequenceNode:
		for _, item := range n.Values {
			d.collectAnchors(item, depth+1)
		}
	case *ast.MappingNode, *ast.MappingValueNode:
		for _, p := range pairs(n) {
			d.collectAnchors(p.Value, depth+1)
		}
	}
}

// pairs is the content of a mapping.
func pairs(n ast.Node) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

// start is where n begins. For a mapping the library names the first colon,
// where users expect the first field.
func start(n ast.Node) (line, column int) {
	if m, ok := n.(*ast.MappingNode); !ok || !m.IsFlowStyle {
		if ps := pairs(n); len(ps) > 0 {
			return start(ps[0].Key)
		}
	}
	if n == nil {
		return 1, 1
	}
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return 1, 1
	}
	return t.Position.Line, t.Position.Column
}
