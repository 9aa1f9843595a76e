package condition

import (
	"regexp"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
)

// An expression becomes closures of these types. An error is a value: it is
// what CEL's interpreter would have reported, and && and || may absorb it.
type (
	boolean func(*Input) (bool, error)
	text    func(*Input) (string, error)
	integer func(*Input) (int64, error)
)

// translator turns a checked expression into closures. Each of its methods
// returns nil for what it has no closure for; the whole expression is CEL's
// then, because a mixture would have to translate the values in between.
type translator struct{ tree *ast.AST }

// translate is the fast form of an expression, nil where there is none.
func translate(tree *ast.AST) boolean {
	return translator{tree}.boolean(tree.Expr())
}

// operands are the arguments of a call, the receiver of a member call first.
func operands(call ast.CallExpr) []ast.Expr {
	if call.IsMemberFunction() {
		return append([]ast.Expr{call.Target()}, call.Args()...)
	}
	return call.Args()
}

// overload is the one function that a call means, "" if the types leave that
// open until it is called.
func (t translator) overload(e ast.Expr) string {
	if ids := t.tree.GetOverloadIDs(e.ID()); len(ids) == 1 {
		return ids[0]
	}
	return ""
}

func (t translator) is(e ast.Expr, typ *types.Type) bool {
	return t.tree.GetType(e.ID()).IsExactType(typ)
}

func (t translator) variable(e ast.Expr) *variable {
	if e.Kind() != ast.IdentKind {
		return nil
	}
	// The reference and not the spelling, which may begin with a dot. A macro's
	// own variable of the same name does not get here: macros are CEL's.
	if ref := t.tree.ReferenceMap()[e.ID()]; ref != nil {
		return byName[ref.Name]
	}
	return nil
}

func (t translator) boolean(e ast.Expr) boolean {
	switch e.Kind() {
	case ast.IdentKind:
		if v := t.variable(e); v != nil && v.flag != nil {
			flag := v.flag
			return func(in *Input) (bool, error) { return flag(in), nil }
		}
	case ast.LiteralKind:
		if b, ok := e.AsLiteral().(types.Bool); ok {
			return func(*Input) (bool, error) { return bool(b), nil }
		}
	case ast.CallKind:
		return t.booleanCall(e, e.AsCall())
	}
	return nil
}

func (t translator) booleanCall(e ast.Expr, call ast.CallExpr) boolean {
	args := operands(call)
	switch call.FunctionName() {
	case operators.LogicalAnd:
		return logical(t.booleans(args), false)
	case operators.LogicalOr:
		return logical(t.booleans(args), true)
	case operators.LogicalNot:
		return not(t.boolean(args[0]))
	case operators.Conditional:
		return choose(t.boolean(args[0]), t.boolean(args[1]), t.boolean(args[2]))
	case operators.Equals, operators.NotEquals:
		return t.equality(args[0], args[1], call.FunctionName() == operators.Equals)
	case operators.In:
		return t.membership(args[0], args[1])
	}
	id := t.overload(e)
	if compare := ordersOfText[id]; compare != nil {
		return both(t.text(args[0]), t.text(args[1]), compare)
	}
	if compare := ordersOfIntegers[id]; compare != nil {
		return both(t.integer(args[0]), t.integer(args[1]), compare)
	}
	if id == overloads.MatchesString || id == overloads.Matches {
		return t.matches(args[0], args[1])
	}
	return nil
}

// booleans translates all or nothing.
func (t translator) booleans(args []ast.Expr) []boolean {
	all := make([]boolean, len(args))
	for i, a := range args {
		if all[i] = t.boolean(a); all[i] == nil {
			return nil
		}
	}
	return all
}

// logical is && (decisive false) or || (decisive true). An error counts only
// where no term decides, whatever their order: that is CEL's commutative
// logic. Of several errors it is the first.
func logical(terms []boolean, decisive bool) boolean {
	switch len(terms) {
	case 0:
		return nil
	case 2: // by far the most common, and without the loop
		a, b := terms[0], terms[1]
		return func(in *Input) (bool, error) {
			left, err := a(in)
			if err == nil && left == decisive {
				return decisive, nil
			}
			right, errRight := b(in)
			switch {
			case errRight == nil && right == decisive:
				return decisive, nil
			case err != nil:
				return false, err
			case errRight != nil:
				return false, errRight
			}
			return !decisive, nil
		}
	}
	return func(in *Input) (bool, error) {
		var first error
		for _, term := range terms {
			v, err := term(in)
			switch {
			case err == nil && v == decisive:
				return decisive, nil
			case err != nil && first == nil:
				first = err
			}
		}
		return first == nil && !decisive, first
	}
}

func not(a boolean) boolean {
	if a == nil {
		return nil
	}
	return func(in *Input) (bool, error) {
		v, err := a(in)
		return err == nil && !v, err
	}
}

// choose is the ternary operator, of any of the three types.
func choose[T any, F ~func(*Input) (T, error)](condition boolean, yes, no F) F {
	if condition == nil || yes == nil || no == nil {
		return nil
	}
	return func(in *Input) (none T, _ error) {
		v, err := condition(in)
		switch {
		case err != nil:
			return none, err
		case v:
			return yes(in)
		}
		return no(in)
	}
}

// both applies a comparison. Of two errors the left one counts, as both sides
// are evaluated from left to right.
func both[T any, F ~func(*Input) (T, error)](a, b F, compare func(x, y T) bool) boolean {
	if a == nil || b == nil {
		return nil
	}
	return func(in *Input) (bool, error) {
		x, err := a(in)
		if err != nil {
			return false, err
		}
		y, err := b(in)
		if err != nil {
			return false, err
		}
		return compare(x, y), nil
	}
}

func same[T comparable](x, y T) bool      { return x == y }
func different[T comparable](x, y T) bool { return x != y }

// equality is == or != of two values of one simple type.
func (t translator) equality(a, b ast.Expr, equal bool) boolean {
	switch {
	case t.is(a, types.StringType) && t.is(b, types.StringType):
		if f := t.textIs(a, b, equal); f != nil {
			return f
		}
		return compared(t.text(a), t.text(b), equal)
	case t.is(a, types.IntType) && t.is(b, types.IntType):
		return compared(t.integer(a), t.integer(b), equal)
	case t.is(a, types.BoolType) && t.is(b, types.BoolType):
		return compared(t.boolean(a), t.boolean(b), equal)
	}
	return nil
}

func compared[T comparable, F ~func(*Input) (T, error)](a, b F, equal bool) boolean {
	if equal {
		return both(a, b, same[T])
	}
	return both(a, b, different[T])
}

// textIs is the shortest form of what most conditions are: a variable compared
// with a literal.
func (t translator) textIs(a, b ast.Expr, equal bool) boolean {
	if b.Kind() != ast.LiteralKind {
		a, b = b, a
	}
	v := t.variable(a)
	if v == nil || v.text == nil || b.Kind() != ast.LiteralKind {
		return nil
	}
	read, literal := v.text, string(b.AsLiteral().(types.String)) // equality saw to the type
	return func(in *Input) (bool, error) { return (read(in) == literal) == equal, nil }
}

// matches is RE2 with a pattern that is known. A pattern that is a variable is
// left to CEL.
func (t translator) matches(subject, pattern ast.Expr) boolean {
	s := t.text(subject)
	if s == nil || pattern.Kind() != ast.LiteralKind {
		return nil
	}
	p, ok := pattern.AsLiteral().(types.String)
	if !ok {
		return nil
	}
	re, err := regexp.Compile(string(p))
	if err != nil {
		return nil // Compile has already refused it
	}
	return func(in *Input) (bool, error) {
		v, err := s(in)
		return err == nil && re.MatchString(v), err
	}
}
