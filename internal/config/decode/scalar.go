package decode

import (
	"encoding"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/headgate-ai/headgate/internal/setting"
)

var (
	timeType     = reflect.TypeFor[time.Time]()
	durationType = reflect.TypeFor[time.Duration]()
)

// isText is whether v is decoded from a scalar by its type's own rules.
func isText(v reflect.Value) bool {
	if v.Type() == timeType || v.Type() == durationType {
		return true
	}
	_, ok := v.Addr().Interface().(encoding.TextUnmarshaler)
	return ok
}

// text decodes a scalar by its type's own rules. The type's message is used as it
// stands: setting.Secret's does not repeat the value.
func (d *decoder) text(n ast.Node, v reflect.Value, path string) {
	if !isScalar(n) {
		d.add(n, path, "this is %s, not one value; write %s", kindOf(n), wanted(v.Type()))
		return
	}
	text := nodeText(n)
	switch v.Type() {
	case timeType:
		d.time(n, v, path, text)
	case durationType:
		var s setting.Duration
		if err := s.UnmarshalText([]byte(text)); err != nil {
			d.add(n, path, "%s", err)
		}
		v.SetInt(int64(s))
	default:
		u, _ := v.Addr().Interface().(encoding.TextUnmarshaler)
		if err := u.UnmarshalText([]byte(text)); err != nil {
			d.add(n, path, "%s", err)
		}
	}
}

func (d *decoder) time(n ast.Node, v reflect.Value, path, text string) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			v.Set(reflect.ValueOf(t))
			return
		}
	}
	d.add(n, path, "%q is not a date or a time; write one such as 2027-01-31 or 2027-01-31T18:00:00Z", clip(text))
}

// scalar decodes text, numbers, and true and false.
func (d *decoder) scalar(n ast.Node, v reflect.Value, path string) {
	if !isScalar(n) {
		d.add(n, path, "this is %s, not one value; write %s", kindOf(n), wanted(v.Type()))
		return
	}
	switch k := v.Kind(); {
	case k == reflect.String:
		// Numbers and true are taken as they are written: a user need not know
		// what YAML makes of an unquoted 1.10.
		v.SetString(nodeText(n))
	case k == reflect.Bool:
		if b, ok := n.(*ast.BoolNode); ok {
			v.SetBool(b.Value)
			return
		}
		d.wrong(n, path, "true or false", "true or false", isBool(nodeText(n)))
	case v.CanInt() || v.CanUint():
		d.whole(n, v, path)
	case v.CanFloat():
		d.float(n, v, path)
	default:
		d.unsupported(n, v, path)
	}
}

func isBool(s string) bool { return s == "true" || s == "false" }

// wrong notes that a scalar is not what it should be. If it would be without its
// quotes, it says so.
func (d *decoder) wrong(n ast.Node, path, not, write string, withoutQuotes bool) {
	text := clip(nodeText(n))
	if withoutQuotes && quoted(n) {
		d.add(n, path, "%q is in quotes, so it is not %s; write %s without them", text, not, text)
		return
	}
	d.add(n, path, "%q is not %s; write %s", text, not, write)
}

var (
	zeros  = regexp.MustCompile(`^[+-]?0[0-9_]`)
	digits = regexp.MustCompile(`^[+-]?[0-9]+$`)
)

func (d *decoder) whole(n ast.Node, v reflect.Value, path string) {
	text := nodeText(n)
	if zeros.MatchString(text) && !quoted(n) {
		// YAML 1.1 reads 010 as eight, YAML 1.2 as ten.
		d.add(n, path, "%q begins with a zero, which some read as octal; write it without", clip(text))
		return
	}
	i, err := strconv.ParseInt(text, 0, 64)
	u, uErr := strconv.ParseUint(strings.TrimPrefix(text, "+"), 0, 64)
	number := err == nil || uErr == nil || digits.MatchString(text)
	switch {
	case !number || quoted(n):
		d.wrong(n, path, "a whole number", "digits, such as 64", number)
	case v.CanInt() && err == nil && !v.OverflowInt(i):
		v.SetInt(i)
	case v.CanUint() && uErr == nil && !v.OverflowUint(u):
		v.SetUint(u)
	default:
		low, high := bounds(v.Type())
		d.add(n, path, "%s is out of range; write a whole number from %s to %s", clip(text), low, high)
	}
}

func bounds(t reflect.Type) (low, high string) {
	bits := t.Bits()
	if reflect.Zero(t).CanUint() {
		return "0", strconv.FormatUint(math.MaxUint64>>(64-bits), 10)
	}
	high64 := int64(math.MaxInt64) >> (64 - bits)
	return strconv.FormatInt(-high64-1, 10), strconv.FormatInt(high64, 10)
}

func (d *decoder) float(n ast.Node, v reflect.Value, path string) {
	text := nodeText(n)
	f, err := strconv.ParseFloat(text, 64)
	finite := err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
	if !finite || quoted(n) {
		d.wrong(n, path, "a number", "one such as 0.5", finite)
		return
	}
	if v.OverflowFloat(f) {
		d.add(n, path, "%s is out of range; write a number of at most %g", clip(text), math.MaxFloat32)
		return
	}
	v.SetFloat(f)
}

func isScalar(n ast.Node) bool {
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode,
		*ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return true
	}
	return false
}

func isMapping(n ast.Node) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

func isNull(n ast.Node) bool {
	_, null := n.(*ast.NullNode)
	return null || n == nil
}

// quoted is whether a scalar is text whatever it looks like.
func quoted(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.LiteralNode:
		return true
	case *ast.StringNode:
		t := n.GetToken()
		return t != nil && (t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType)
	}
	return false
}

// nodeText is a scalar as it is written, without its quotes.
func nodeText(n ast.Node) string {
	switch n := n.(type) {
	case nil:
		return ""
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		if n.Value == nil {
			return ""
		}
		return n.Value.Value
	}
	if t := n.GetToken(); t != nil {
		return t.Value
	}
	return ""
}
