package condition

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// source makes choices from fuzzed bytes; it chooses 0 when they run out.
type source struct{ rest []byte }

func (s *source) pick(n int) int {
	if len(s.rest) == 0 {
		return 0
	}
	b := int(s.rest[0])
	s.rest = s.rest[1:]
	return b % n
}

func oneOf[T any](s *source, from ...T) T { return from[s.pick(len(from))] }

var words = []string{"", "a", "gpt-4", "gpt-4-turbo", "/v1/chat/completions", "ü€", "gold", "a\xff"}

func (s *source) text(depth int) string {
	switch s.pick(4) {
	case 0:
		return fmt.Sprintf("%q", oneOf(s, words[:7]...)) // a literal is valid UTF-8
	case 1:
		if depth > 0 {
			return fmt.Sprintf("(%s ? %s : %s)", s.boolean(depth-1), s.text(depth-1), s.text(depth-1))
		}
	}
	return oneOf(s, "request.path", "request.model", "model", "tenant", "tier", "region", "intent", "principal.user", "request.ip", "time.date", "resource.owner_id", ".model")
}

func (s *source) integer(depth int) string {
	if depth > 0 {
		switch s.pick(6) {
		case 0:
			return fmt.Sprintf("(%s ? %s : %s)", s.boolean(depth-1), s.integer(depth-1), s.integer(depth-1))
		case 1, 2:
			return fmt.Sprintf("(%s %s %s)", s.integer(depth-1), oneOf(s, "+", "-", "*", "/", "%"), s.integer(depth-1))
		case 3:
			return fmt.Sprintf("-(%s)", s.integer(depth-1))
		case 4:
			return oneOf(s, "size("+s.text(depth-1)+")", s.text(0)+".size()", "size(principal.roles)", "principal.roles.size()")
		}
	}
	return oneOf(s, "0", "1", "-1", "7", "9223372036854775807", "-9223372036854775808", "4294967296",
		"est_tokens", "request.tokens", "request.max_tokens", "request.bytes", "request.messages", "time.hour", "time.weekday", "time.minute")
}

func list(s *source, depth int, element func(int) string) string {
	all := make([]string, 1+s.pick(3))
	for i := range all {
		all[i] = element(depth)
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func (s *source) boolean(depth int) string {
	if depth == 0 {
		return oneOf(s, "true", "false", "stream", "request.stream", `model == "gpt-4"`, `1/est_tokens == 0`)
	}
	d := depth - 1
	switch s.pick(13) {
	case 12:
		return fmt.Sprintf("%s %s %q", oneOf(s, "model", "tier", "request.path"), oneOf(s, "==", "!="), oneOf(s, words[:7]...))
	case 0, 1, 2:
		return fmt.Sprintf("(%s && %s)", s.boolean(d), s.boolean(d))
	case 3, 4:
		return fmt.Sprintf("(%s || %s)", s.boolean(d), s.boolean(d))
	case 5:
		return fmt.Sprintf("!(%s)", s.boolean(d))
	case 6:
		return fmt.Sprintf("(%s ? %s : %s)", s.boolean(d), s.boolean(d), s.boolean(d))
	case 7:
		return fmt.Sprintf("%s %s %s", s.text(d), oneOf(s, "==", "!=", "<", "<=", ">", ">="), s.text(d))
	case 8:
		return fmt.Sprintf("%s %s %s", s.integer(d), oneOf(s, "==", "!=", "<", "<=", ">", ">="), s.integer(d))
	case 9:
		return fmt.Sprintf("(%s) == (%s)", s.boolean(d), s.boolean(d))
	case 10:
		return s.text(d) + oneOf(s, ".startsWith(", ".endsWith(", ".contains(") + s.text(d) + ")"
	}
	switch s.pick(4) {
	case 0:
		return s.text(d) + " in principal.roles"
	case 1:
		return s.text(d) + " in " + list(s, d, s.text)
	case 2:
		return s.integer(d) + " in " + list(s, d, s.integer)
	}
	return s.text(d) + ".matches(" + oneOf(s, `"^gpt"`, `"a*$"`, `"."`, `"(?i)GOLD|ü"`, `"[[:alpha:]]+-\\d"`) + ")"
}

func (s *source) input() *Input {
	word := func() string { return oneOf(s, words...) }
	num := func() int64 { return oneOf[int64](s, 0, 1, -1, 7, 1<<40, 1<<63-1, -1<<63) }
	in := &Input{
		Path: word(), Model: word(), Region: word(), Intent: word(), IP: word(), Tenant: word(), User: word(), Tier: word(), Owner: word(),
		Stream: s.pick(2) == 1, Bytes: num(), Tokens: num(), MaxTokens: num(), Messages: num(),
		Now: time.Unix(int64(s.pick(256))*100_003, 0), Zone: oneOf(s, nil, time.FixedZone("", 5*3600+1800)),
	}
	for range s.pick(3) {
		in.Roles = append(in.Roles, word())
	}
	return in
}

// The closures give the verdict, and the error, that CEL gives.
func FuzzSameAsCEL(f *testing.F) {
	for i := range 64 {
		seed := make([]byte, 48)
		for j := range seed {
			seed[j] = byte(i*31 + j*j*7)
		}
		f.Add(seed)
	}
	f.Fuzz(sameAsCEL)
}

func sameAsCEL(t *testing.T, choices []byte) {
	s := &source{choices}
	expr := s.boolean(4)
	c, err := Compile(expr)
	if err != nil {
		if len(expr) > maxLength || strings.Contains(err.Error(), "recursion") {
			return
		}
		t.Fatalf("%s: %v", expr, err)
	}
	if c.fast == nil {
		t.Fatalf("%s: is of the fast subset and went to CEL", expr)
	}
	for range 4 {
		in := s.input()
		want, wantErr := c.slow(in)
		got, gotErr := c.Eval(in)
		if got != want || (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error() {
			t.Fatalf("%s\n%+v\ngot %v, %v; CEL says %v, %v", expr, in, got, gotErr, want, wantErr)
		}
	}
}

// The same without a fuzzer, so that every run of the tests asks much of it.
func TestSameAsCEL(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 1500 {
		choices := make([]byte, 400)
		for i := range choices {
			choices[i] = byte(r.Uint32())
		}
		sameAsCEL(t, choices)
	}
}

// Whatever is written, compiling it and asking it end well.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{`model == "gpt-4"`, `principal.claims.a.b[0] == 1`, `[1,2].exists(x, x > est_tokens)`, `model.matches("(")`,
		`cidr("10.0.0.0/8").containsIP(request.ip)`, "a\n&&", `{"a": 1}.a == 1`, `has(principal.claims.x)`, "((((((((", `"\x00" in principal.roles`} {
		f.Add(seed)
	}
	in := &Input{Model: "gpt-4", Roles: []string{"a"}, Claims: map[string]any{"a": map[string]any{"b": []any{1.0}}}}
	f.Fuzz(func(t *testing.T, expr string) {
		c, err := Compile(expr)
		if err != nil {
			if err.Error() == "" {
				t.Errorf("%q: an error that says nothing", expr)
			}
			return
		}
		want, wantErr := c.slow(in)
		got, gotErr := c.Eval(in)
		if got != want || (gotErr == nil) != (wantErr == nil) {
			t.Errorf("%q: got %v, %v; CEL says %v, %v", expr, got, gotErr, want, wantErr)
		}
	})
}
