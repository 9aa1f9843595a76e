package decode

import (
	"fmt"
	"strings"

	"github.com/headgate-ai/headgate/internal/setting"
)

// Mistake is one thing that is wrong in a file. Line and Column count from 1,
// the column in characters.
type Mistake struct {
	File         string
	Line, Column int
	// Path is the field's path, as in "providers[0].base_url"; empty means the
	// whole document.
	Path string
	// Message says what is wrong, then what would be right.
	Message string
}

// String is "file:line:column: path: what is wrong; what would be right".
func (m Mistake) String() string {
	path := m.Path
	if path == "" {
		path = "(document)"
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s", m.File, m.Line, m.Column, path, m.Message)
}

func (m Mistake) before(o Mistake) bool {
	if m.Line != o.Line {
		return m.Line < o.Line
	}
	return m.Column < o.Column
}

// Mistakes is every mistake of a file, in the order of its text.
type Mistakes []Mistake

// Error lists the mistakes, one a line.
func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i := range m {
		lines[i] = m[i].String()
	}
	return strings.Join(lines, "\n")
}

// Err is the mistakes as an error, or nil if there are none. A Mistakes without
// elements that is assigned to an error directly would not be nil.
func (m Mistakes) Err() error {
	if len(m) == 0 {
		return nil
	}
	return m
}

// Positions knows where in the text each path stands. The zero value knows none.
type Positions struct{ at map[string]position }

type position struct {
	line, column int
	set          bool
}

// Set is whether the text gives the field at path a value, itself or through an
// alias. What it does not set comes from a weaker source or the defaults.
func (p Positions) Set(path string) bool { return p.at[path].set }

// Find is where path stands, or else its nearest ancestor that the text has.
func (p Positions) Find(path string) (line, column int) {
	for {
		if at, ok := p.at[path]; ok {
			return at.line, at.column
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return 1, 1
		}
		path = path[:i]
	}
}

// Place gives problems, which a later validation found, their place in the text.
func (p Positions) Place(file string, ps setting.Problems) Mistakes {
	var out Mistakes
	for _, problem := range ps {
		line, column := p.Find(problem.Path)
		out = append(out, Mistake{file, line, column, problem.Path, problem.Message})
	}
	return out
}
