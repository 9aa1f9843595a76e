package jsonspan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

var seeds = []string{
	``, `{}`, ` [ ] `, `{"a":1,"a":[true,false,null,-0.5e+7,"x\n\u00e9\ud83d\ude00"]}`, `{"mod\u0065l":"gpt","b":{"c":{"d":[[[]]]}}}`,
	`{"a":1,}`, `[1,]`, `[01]`, `{"a":NaN}`, "{\"a\":\"\n\"}", `{"a":"\q"}`, `{} x`, `[[[[`, `{"a":{"a":{"a":`, "\xef\xbb\xbf{}", "{\"\xff\":1}",
	chat(400), chat(4096),
}

func tooDeepError(err error) bool {
	var syntax *SyntaxError
	return errors.As(err, &syntax) && syntax.Msg == problemText[tooDeep]
}

// checkError holds what every error must be.
func checkError(t *testing.T, raw []byte, err error) {
	var syntax *SyntaxError
	if !errors.As(err, &syntax) {
		t.Fatalf("%T", err)
	}
	if syntax.Offset < 0 || syntax.Offset > len(raw) || syntax.Line < 1 || syntax.Column < 1 || !utf8.ValidString(syntax.Error()) {
		t.Fatalf("%+v", syntax)
	}
	lines := bytes.SplitAfter(raw, []byte("\n"))
	if at := len(bytes.Join(lines[:syntax.Line-1], nil)) + syntax.Column - 1; at != syntax.Offset {
		t.Fatalf("%+v is byte %d", syntax, at)
	}
	for _, c := range []byte(syntax.Error()) {
		if c < 0x20 || c > 0x7e {
			t.Fatalf("%q is not safe to show", syntax.Error())
		}
	}
}

func FuzzValid(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(checkValid)
}

// checkValid compares Valid with encoding/json.
func checkValid(t *testing.T, raw []byte) {
	err := Valid(raw, MaxDepth)
	if err != nil {
		checkError(t, raw, err)
	}
	if want := json.Valid(raw); (err == nil) != want && !tooDeepError(err) {
		t.Fatalf("%q: %v, encoding/json says %v", raw, err, want)
	}
}

// tokens writes a value as a list of tokens, by our iterators alone.
func tokens(t *testing.T, raw []byte, v Value, out []string) []string {
	switch v.Kind {
	case KindObject:
		out = append(out, "{")
		m := In(raw, v)
		for m.Next() {
			out = append(out, strconv.Quote(string(m.Key())))
			out = tokens(t, raw, m.Value(), out)
		}
		if m.Err() != nil {
			t.Fatalf("in %s: %v", v.Of(raw), m.Err())
		}
		return append(out, "}")
	case KindArray:
		out = append(out, "[")
		e := Elements(raw, v)
		for e.Next() {
			out = tokens(t, raw, e.Value(), out)
		}
		if e.Err() != nil {
			t.Fatalf("in %s: %v", v.Of(raw), e.Err())
		}
		return append(out, "]")
	case KindString:
		s, ok := Unquote(nil, raw, v)
		if !ok || StringLen(raw, v) != len(s) {
			t.Fatalf("%s is no string", v.Of(raw))
		}
		return append(out, strconv.Quote(string(s)))
	}
	return append(out, string(v.Of(raw)))
}

// checkCount counts again, by the iterators.
func checkCount(t *testing.T, raw []byte, v Value, got int) {
	want := 0
	switch v.Kind {
	case KindObject:
		for m := In(raw, v); m.Next(); want++ {
		}
	case KindArray:
		for e := Elements(raw, v); e.Next(); want++ {
		}
	}
	if got != want {
		t.Fatalf("%s has %d members or elements, counted %d", v.Of(raw), want, got)
	}
}

// stdTokens is the same by encoding/json.
func stdTokens(raw []byte) (out []string, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return out, err
		}
		switch token := token.(type) {
		case string:
			out = append(out, strconv.Quote(token))
		case nil:
			out = append(out, "null")
		default:
			out = append(out, fmt.Sprint(token))
		}
	}
}

func FuzzObject(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(checkObject)
}

// checkObject compares everything found in an object with encoding/json.
func checkObject(t *testing.T, raw []byte) {
	before := bytes.Clone(raw)
	got := []string{"{"}
	var edits []Edit
	m := Object(raw, 0)
	for m.Next() {
		got = append(got, strconv.Quote(string(m.Key())))
		got = tokens(t, raw, m.Value(), got)
		checkCount(t, raw, m.Value(), m.Count())
		edits = append(edits, Edit{m.KeyValue().Span, m.KeyValue().Of(raw)}, Edit{m.Value().Span, m.Value().Of(raw)})
	}
	if !bytes.Equal(raw, before) {
		t.Fatal("the text has changed")
	}
	isObject := json.Valid(raw) && bytes.TrimLeft(raw, " \t\r\n")[0] == '{'
	if (m.Err() == nil) != isObject && !tooDeepError(m.Err()) {
		t.Fatalf("%q: %v, encoding/json says %v", raw, m.Err(), isObject)
	}
	// A value put in its own place changes nothing, valid text or not.
	if same := Splice(nil, raw, edits); !bytes.Equal(same, raw) {
		t.Fatalf("%q became %q", raw, same)
	}
	if m.Err() != nil {
		checkError(t, raw, m.Err())
		return
	}
	if want := bytes.TrimSpace(raw); !bytes.Equal(m.Span().Of(raw), want) {
		t.Fatalf("the object is %q", m.Span().Of(raw))
	}
	if want, _ := stdTokens(raw); utf8.Valid(raw) && !slices.Equal(append(got, "}"), want) {
		t.Fatalf("%q\ngot  %q\nwant %q", raw, append(got, "}"), want)
	}
}

func FuzzArray(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte("["+s+"]"), 3)
	}
	f.Fuzz(checkArray)
}

// checkArray does so for an array.
func checkArray(t *testing.T, raw []byte, depth int) {
	got := []string{"["}
	e := Array(raw, depth)
	for e.Next() {
		got = tokens(t, raw, e.Value(), got)
	}
	isArray := json.Valid(raw) && bytes.TrimLeft(raw, " \t\r\n")[0] == '['
	if (e.Err() == nil) != isArray && !tooDeepError(e.Err()) {
		t.Fatalf("%q: %v, encoding/json says %v", raw, e.Err(), isArray)
	}
	if e.Err() != nil {
		checkError(t, raw, e.Err())
		return
	}
	if deep := deepest(raw); deep > depthOf(depth) {
		t.Fatalf("%d deep, %d allowed", deep, depth)
	}
	if want, _ := stdTokens(raw); utf8.Valid(raw) && !slices.Equal(append(got, "]"), want) {
		t.Fatalf("%q\ngot  %q\nwant %q", raw, append(got, "]"), want)
	}
}

// deepest is the nesting of a valid text.
func deepest(raw []byte) (deep int) {
	d, level := json.NewDecoder(bytes.NewReader(raw)), 0
	for {
		token, err := d.Token()
		if err != nil {
			return deep
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			level++
			deep = max(deep, level)
		case json.Delim('}'), json.Delim(']'):
			level--
		}
	}
}

func FuzzInt(f *testing.F) {
	for _, s := range []string{"0", "-1", "1e3", "5.0", "1200e-2", "9223372036854775808", "0.00e5", "1e-1", "-9223372036854775808.0"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 100 {
			return
		}
		got, ok := Int(raw, Value{Span{0, len(raw)}, KindNumber})
		trimmed := bytes.TrimSpace(raw)
		if !json.Valid(raw) || len(trimmed) != len(raw) || strings.Trim(string(raw), "+-.0123456789eE") != "" {
			if ok {
				t.Fatalf("%q is %d", raw, got)
			}
			return
		}
		if _, e, _ := strings.Cut(strings.ToLower(string(raw)), "e"); len(e) > 4 {
			return // too much for the oracle
		}
		r, _ := new(big.Rat).SetString(string(raw))
		want := r.IsInt() && r.Num().IsInt64()
		if ok != want || ok && got != r.Num().Int64() {
			t.Fatalf("%q: %d %v, want %s %v", raw, got, ok, r, want)
		}
	})
}

func FuzzSplice(f *testing.F) {
	f.Add([]byte(`{"model":"a"}`), []byte(`"b"`), 9, 12, 13, 13)
	f.Add([]byte(`abc`), []byte(``), 0, 0, 0, 3)
	f.Add([]byte(`abc`), []byte(`x`), 2, 3, 1, 2)
	f.Fuzz(func(t *testing.T, raw, put []byte, a, b, c, d int) {
		edits := []Edit{{Span{a, b}, put}, {Span{c, d}, put[:len(put)/2]}}
		got := Splice([]byte("dst"), raw, edits)
		if 0 > a || a > b || b > c || c > d || d > len(raw) {
			if got != nil {
				t.Fatalf("%v gave %q", edits, got)
			}
			return
		}
		want := "dst" + string(raw[:a]) + string(put) + string(raw[b:c]) + string(put[:len(put)/2]) + string(raw[d:])
		if string(got) != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

// TestRandomTexts does more than the fuzzers where texts are made of what JSON is
// made of: most are wrong in one place only, or right.
func TestRandomTexts(t *testing.T) {
	words := strings.Split(`{ } [ ] {" [] {} , , : : "a": "b": "" "a" "\n" "\u00e9" "\ud83d\ude00" "\ud83d" "\q" "\u1" " \ 0 1 -1 2.5 1e9 01 - . true false null nul x é`, " ")
	words = append(words, " ", "\n", "\t", "\r", "\x00", "\v", "\xff", "\u00a0", "\ufeff")
	random := rand.New(rand.NewSource(1))
	valid := 0
	for range 30_000 {
		raw := randomValue(random, 4, nil)
		for n := random.Intn(3); n > 0; n-- { // put something in, or take something out
			at := random.Intn(len(raw) + 1)
			to := min(at+random.Intn(3), len(raw))
			raw = slices.Replace(raw, at, to, []byte(words[random.Intn(len(words))])...)
		}
		if json.Valid(raw) {
			valid++
		}
		checkValid(t, raw)
		checkObject(t, raw)
		checkArray(t, raw, 1+random.Intn(4))
		checkCursor(t, raw, 1+random.Intn(6), uint(random.Intn(8)))
	}
	t.Logf("%d texts are valid", valid)
}

func randomValue(random *rand.Rand, depth int, out []byte) []byte {
	scalars := [...]string{`0`, `-1.5e+3`, `true`, `false`, `null`, `""`, `"a b"`, `"\"\\\u00e9\ud83d\ude00"`, `"12345678é"`, "[ ]", "{\n}"}
	kind := random.Intn(4)
	if depth == 0 || kind < 2 && depth < 4 {
		return append(out, scalars[random.Intn(len(scalars))]...)
	}
	brackets, comma := [...]string{"{}", "[]"}[kind&1], [...]string{",", " , ", ",\n"}[random.Intn(3)]
	out = append(out, brackets[0])
	for n := 1 + random.Intn(3); n > 0; n-- {
		if brackets[0] == '{' {
			out = append(out, [...]string{`"a":`, `"model" : `, `"mod\u0065l":`, `"":`}[random.Intn(4)]...)
		}
		out = randomValue(random, depth-1, out)
		if n > 1 {
			out = append(out, comma...)
		}
	}
	return append(out, brackets[1])
}
