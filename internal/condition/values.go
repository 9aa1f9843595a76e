package condition

import (
	"errors"
	"math"
	"math/bits"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
)

// ordersOfText are the functions of two strings that say yes or no, by CEL's
// names of their overloads. Strings are compared by their bytes.
var ordersOfText = map[string]func(x, y string) bool{
	overloads.LessString:          func(x, y string) bool { return x < y },
	overloads.LessEqualsString:    func(x, y string) bool { return x <= y },
	overloads.GreaterString:       func(x, y string) bool { return x > y },
	overloads.GreaterEqualsString: func(x, y string) bool { return x >= y },
	overloads.StartsWithString:    strings.HasPrefix,
	overloads.EndsWithString:      strings.HasSuffix,
	overloads.ContainsString:      strings.Contains,
}

var ordersOfIntegers = map[string]func(x, y int64) bool{
	overloads.LessInt64:          func(x, y int64) bool { return x < y },
	overloads.LessEqualsInt64:    func(x, y int64) bool { return x <= y },
	overloads.GreaterInt64:       func(x, y int64) bool { return x > y },
	overloads.GreaterEqualsInt64: func(x, y int64) bool { return x >= y },
}

// arithmetic is on 64 bits, and what does not fit is an error and not a wrong
// number.
var arithmetic = map[string]func(x, y int64) (int64, error){
	overloads.AddInt64:      add,
	overloads.SubtractInt64: subtract,
	overloads.MultiplyInt64: multiply,
	overloads.DivideInt64:   divide,
	overloads.ModuloInt64:   modulo,
}

// The errors of arithmetic, in CEL's words.
var (
	errOverflow = errors.New("integer overflow")
	errDivision = errors.New("division by zero")
	errModulus  = errors.New("modulus by zero")
)

func (t translator) text(e ast.Expr) text {
	switch e.Kind() {
	case ast.IdentKind:
		if v := t.variable(e); v != nil && v.text != nil {
			read := v.text
			return func(in *Input) (string, error) { return read(in), nil }
		}
	case ast.LiteralKind:
		if s, ok := e.AsLiteral().(types.String); ok {
			return func(*Input) (string, error) { return string(s), nil }
		}
	case ast.CallKind:
		if call := e.AsCall(); call.FunctionName() == operators.Conditional {
			args := call.Args()
			return choose(t.boolean(args[0]), t.text(args[1]), t.text(args[2]))
		}
	}
	return nil
}

func (t translator) integer(e ast.Expr) integer {
	switch e.Kind() {
	case ast.IdentKind:
		if v := t.variable(e); v != nil && v.num != nil {
			read := v.num
			return func(in *Input) (int64, error) { return read(in), nil }
		}
	case ast.LiteralKind:
		if n, ok := e.AsLiteral().(types.Int); ok {
			return func(*Input) (int64, error) { return int64(n), nil }
		}
	case ast.CallKind:
		return t.integerCall(e, e.AsCall())
	}
	return nil
}

func (t translator) integerCall(e ast.Expr, call ast.CallExpr) integer {
	args := operands(call)
	if call.FunctionName() == operators.Conditional {
		return choose(t.boolean(args[0]), t.integer(args[1]), t.integer(args[2]))
	}
	switch id := t.overload(e); id {
	case overloads.SizeString, overloads.SizeStringInst:
		return sizeOf(t.text(args[0]))
	case overloads.SizeList, overloads.SizeListInst:
		if v := t.variable(args[0]); v != nil && v.field == Roles {
			return func(in *Input) (int64, error) { return int64(len(in.Roles)), nil }
		}
	case overloads.NegateInt64:
		if a := t.integer(args[0]); a != nil {
			return calculate(func(*Input) (int64, error) { return 0, nil }, a, subtract)
		}
	default:
		if f := arithmetic[id]; f != nil {
			return calculate(t.integer(args[0]), t.integer(args[1]), f)
		}
	}
	return nil
}

// sizeOf counts characters, as CEL does, and not bytes.
func sizeOf(s text) integer {
	if s == nil {
		return nil
	}
	return func(in *Input) (int64, error) {
		v, err := s(in)
		return int64(utf8.RuneCountInString(v)), err
	}
}

func calculate(a, b integer, f func(x, y int64) (int64, error)) integer {
	if a == nil || b == nil {
		return nil
	}
	return func(in *Input) (int64, error) {
		x, err := a(in)
		if err != nil {
			return 0, err
		}
		y, err := b(in)
		if err != nil {
			return 0, err
		}
		return f(x, y)
	}
}

func add(x, y int64) (int64, error) {
	sum := x + y
	if (x < 0) == (y < 0) && (sum < 0) != (x < 0) {
		return 0, errOverflow
	}
	return sum, nil
}

func subtract(x, y int64) (int64, error) {
	difference := x - y
	if (x < 0) != (y < 0) && (difference < 0) != (x < 0) {
		return 0, errOverflow
	}
	return difference, nil
}

func multiply(x, y int64) (int64, error) {
	hi, lo := bits.Mul64(magnitude(x), magnitude(y))
	negative := (x < 0) != (y < 0)
	switch {
	case hi != 0, lo > 1<<63, lo == 1<<63 && !negative:
		return 0, errOverflow
	}
	return x * y, nil
}

func magnitude(x int64) uint64 {
	if x < 0 {
		return -uint64(x) // right for the smallest, too, which has no positive
	}
	return uint64(x)
}

func divide(x, y int64) (int64, error) {
	switch {
	case y == 0:
		return 0, errDivision
	case x == math.MinInt64 && y == -1:
		return 0, errOverflow
	}
	return x / y, nil
}

func modulo(x, y int64) (int64, error) {
	switch {
	case y == 0:
		return 0, errModulus
	case x == math.MinInt64 && y == -1:
		return 0, errOverflow
	}
	return x % y, nil
}

// membership is "in" of a literal list, or of the principal's roles.
func (t translator) membership(element, list ast.Expr) boolean {
	if v := t.variable(list); v != nil && v.field == Roles && t.is(element, types.StringType) {
		return amongRoles(t.text(element))
	}
	if list.Kind() != ast.ListKind || len(list.AsList().OptionalIndices()) > 0 {
		return nil
	}
	elements := list.AsList().Elements()
	switch {
	case t.is(element, types.StringType):
		return among(t.text(element), elements, t.text)
	case t.is(element, types.IntType):
		return among(t.integer(element), elements, t.integer)
	}
	return nil
}

func amongRoles(element text) boolean {
	if element == nil {
		return nil
	}
	return func(in *Input) (bool, error) {
		want, err := element(in)
		if err != nil {
			return false, err
		}
		for _, have := range in.Roles {
			if have == want {
				return true, nil
			}
		}
		return false, nil
	}
}

// among evaluates every element before it compares, because an error in one of
// them is an error of the whole list.
func among[T comparable, F ~func(*Input) (T, error)](element F, list []ast.Expr, translate func(ast.Expr) F) boolean {
	elements := make([]F, len(list))
	for i, e := range list {
		if elements[i] = translate(e); elements[i] == nil {
			return nil
		}
	}
	if element == nil || len(elements) == 0 {
		return nil
	}
	return func(in *Input) (found bool, _ error) {
		want, err := element(in)
		if err != nil {
			return false, err
		}
		for _, e := range elements {
			have, err := e(in)
			if err != nil {
				return false, err
			}
			found = found || have == want
		}
		return found, nil
	}
}
