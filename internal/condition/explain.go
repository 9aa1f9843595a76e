package condition

import (
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/common"
)

// explain turns the compiler's errors into one that a person can act on.
func explain(expr string, found []*common.Error) error {
	var all []string
	for _, e := range found {
		if len(all) > 0 && strings.HasPrefix(e.Message, syntax) {
			continue // it follows from the one before
		}
		all = append(all, place(expr, e.Location)+reword(expr, e))
	}
	return errors.New(strings.Join(all, "; "))
}

// place says where a mistake is; most expressions are one line.
func place(expr string, at common.Location) string {
	switch {
	case at == nil || at.Line() < 1:
		return ""
	case strings.Contains(expr, "\n"):
		return fmt.Sprintf("line %d, column %d: ", at.Line(), at.Column()+1)
	}
	return fmt.Sprintf("column %d: ", at.Column()+1)
}

// spelling turns the names that CEL's compiler has for operators into what one
// writes, and its quotes into ours.
var spelling = strings.NewReplacer(
	"_==_", "==", "_!=_", "!=", "_<_", "<", "_<=_", "<=", "_>_", ">", "_>=_", ">=", "_&&_", "&&", "_||_", "||",
	"_+_", "+", "_-_", "-", "_*_", "*", "_/_", "/", "_%_", "%", "@in", "in", "!_", "!", "-_", "-", "_?_:_", "?:", "_[_]", "[]",
	"'", `"`,
)

const (
	syntax     = "Syntax error: "
	undeclared = "undeclared reference to '"
)

// reword says it in the words of an expression's author.
func reword(expr string, e *common.Error) string {
	message, _, _ := strings.Cut(e.Message, " (in container ''")
	if what, ok := strings.CutPrefix(message, syntax); ok {
		what, _, _ = strings.Cut(what, " expecting {") // a list of everything that could follow helps no one
		switch {
		case strings.Contains(what, "'<EOF>'"):
			return "syntax error: the expression ends where more must follow"
		case strings.HasPrefix(what, "token recognition error at: '\"") || strings.HasPrefix(what, "token recognition error at: ''"):
			return "syntax error: a string without its closing quote"
		}
		return "syntax error: " + what
	}
	name, isName := strings.CutPrefix(message, undeclared)
	if !isName {
		return spelling.Replace(strings.Replace(message, "invalid matches argument", "the pattern of matches is not a regular expression that RE2 understands", 1))
	}
	name, hint, _ := strings.Cut(name, "'")
	if calls(expr, e.Location) {
		return fmt.Sprintf("unknown function %q; there are startsWith, endsWith, contains, matches, size, exists, all, has, cidr, ip and CEL's other standard ones", name)
	}
	_, near, ok := strings.Cut(hint, "(did you mean '")
	if near, _, _ = strings.Cut(near, "'"); ok {
		near = fmt.Sprintf("did you mean %q? Known", near)
	} else {
		near = "known"
	}
	return fmt.Sprintf("undeclared reference to %q; %s names are %s", name, near, strings.Join(Names(), ", "))
}

// calls is whether the place is that of a function call: CEL gives them the
// place of their parenthesis.
func calls(expr string, at common.Location) bool {
	lines := strings.Split(expr, "\n")
	if at == nil || at.Line() < 1 || at.Line() > len(lines) {
		return false
	}
	line := []rune(lines[at.Line()-1])
	return at.Column() >= 0 && at.Column() < len(line) && line[at.Column()] == '('
}
