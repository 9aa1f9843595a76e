// Package condition decides yes or no about a request by an expression of CEL
// (the Common Expression Language, cel.dev): quota rules and budgets say with
// one whom they concern, access rules what must hold. An expression is compiled
// once, when a configuration is loaded, with the type of every name known, so
// that a mistake is found there. What most conditions consist of runs without
// CEL's interpreter and with the same verdicts; the rest runs in it. The
// package is a pure tool: the time is part of the input. The rooms quota and
// authn use it.
package condition

import (
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"
)

const (
	// maxLength bounds an expression, in characters; longer ones are policies
	// that want to be several.
	maxLength = 8192
	// maxDepth bounds how deep an expression may nest.
	maxDepth = 64
	// maxCost bounds one evaluation in CEL's units, about a comparison each. It
	// is far above what a condition on a request can need and far below what
	// would be felt.
	maxCost = 100_000
)

// Condition is a compiled expression. It never changes and may be used by many
// goroutines.
type Condition struct {
	source  string
	uses    Fields
	fast    boolean // nil where only CEL can evaluate the expression
	program cel.Program
}

// Compile checks an expression and prepares it. The error says where in the
// expression the mistake is and what would be right; lines and columns count
// from 1.
func Compile(expr string) (*Condition, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	checked, issues := env.Compile(expr)
	if issues.Err() != nil {
		return nil, explain(expr, issues.Errors())
	}
	if t := checked.OutputType(); !t.IsExactType(types.BoolType) {
		return nil, fmt.Errorf("the expression is of type %s; a condition is true or false (type bool), such as request.model == \"gpt-4\"", cel.FormatCELType(t))
	}
	program, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost))
	if err != nil {
		return nil, fmt.Errorf("the expression can not be evaluated: %w", err)
	}
	tree := checked.NativeRep()
	return &Condition{source: expr, uses: usesOf(tree), fast: translate(tree), program: program}, nil
}

// Check compiles an expression of a configuration, where a name that the gateway
// knows but never fills in is a mistake, too: what was written with it would be
// void, or refuse everyone.
func Check(expr string) error {
	c, err := Compile(expr)
	if err != nil {
		return err
	}
	for _, v := range variables {
		if unfilled.Any(v.field) && c.uses.Any(v.field) {
			return fmt.Errorf("%s is empty for every request, because nothing sets it yet; use one of %s", v.name, strings.Join(Names(), ", "))
		}
	}
	return nil
}

// String is the expression as it was written.
func (c *Condition) String() string { return c.source }

// Uses is what the condition reads. A verdict may be kept for as long as none
// of it changes.
func (c *Condition) Uses() Fields { return c.uses }

// Eval is the verdict on a request. An error means that the expression has no
// value for this input, such as when a claim it reads is missing.
func (c *Condition) Eval(in *Input) (bool, error) {
	if c.fast != nil {
		return c.fast(in)
	}
	return c.slow(in)
}

// slow evaluates in CEL's own interpreter; it is also the oracle of the tests.
func (c *Condition) slow(in *Input) (bool, error) {
	out, _, err := c.program.Eval((*binding)(in))
	if err != nil {
		return false, err
	}
	verdict, ok := out.(types.Bool)
	if !ok {
		return false, errors.New("the condition is neither true nor false") // Compile saw to it that it is
	}
	return bool(verdict), nil
}

// environment is what expressions can name. It is made for each Compile,
// because configurations are loaded seldom and a tool holds no state.
func environment() (*cel.Env, error) {
	options := []cel.EnvOption{
		ext.Network(), // cidr("10.0.0.0/8").containsIP(request.ip)
		cel.ASTValidators(cel.ValidateRegexLiterals()),
		cel.ParserExpressionSizeLimit(maxLength),
		cel.ParserRecursionLimit(maxDepth),
	}
	for i := range variables {
		options = append(options, cel.Variable(variables[i].name, variables[i].celType()))
	}
	return cel.NewEnv(options...)
}

// usesOf collects the fields that a checked expression names.
func usesOf(tree *ast.AST) (f Fields) {
	for _, r := range tree.ReferenceMap() {
		if v := byName[r.Name]; v != nil {
			f |= v.field
		}
	}
	return f
}
