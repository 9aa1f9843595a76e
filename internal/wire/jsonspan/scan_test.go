package jsonspan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestValid(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `""`, `0`, `-0`, `-0.0`, `10`, `1e5`, `1E+5`, `1.25e-3`, `true`, `false`, `null`,
		" \t\r\n{ } \n", `[[],{},[{}]]`, `{"a":[1,2,{"b":null}],"c":"d"}`, `{"":""}`,
		`"\"\\\/\b\f\n\r\t\u00e9\uD834\uDD1E"`, `"\ud800"`, `"\udc00\ud800"`, "\"\x7f\xff\xc3\"", `{"a":1,"a":2}`,
	} {
		if err := Valid([]byte(text), 0); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if !json.Valid([]byte(text)) {
			t.Errorf("%q: encoding/json does not agree", text)
		}
	}
}

// Each text with the offset where it goes wrong.
func TestInvalid(t *testing.T) {
	for _, c := range []struct {
		text string
		at   int
		msg  string
	}{
		{``, 0, "expected a value, found the end of the text"},
		{`  `, 2, "expected a value, found the end"},
		{`{`, 1, "expected a member name in quotes, found the end"},
		{`{"a"`, 4, "expected ':' after the member name, found the end"},
		{`{"a" 1}`, 5, "expected ':' after the member name, found '1'"},
		{`{"a":}`, 5, "expected a value, found '}'"},
		{`{"a":1`, 6, "expected ',' or '}' after the member, found the end"},
		{`{"a":1]`, 6, "expected ',' or '}' after the member, found ']'"},
		{`{"a":1,}`, 7, "expected a member name in quotes, found '}'"},
		{`{,}`, 1, "expected a member name"},
		{`{a:1}`, 1, "expected a member name"},
		{`{'a':1}`, 1, `expected a member name in quotes, found '\''`},
		{`{"a":1 "b":2}`, 7, "expected ',' or '}'"},
		{`[1,]`, 3, "expected a value, found ']'"},
		{`[,1]`, 1, "expected a value, found ','"},
		{`[1}`, 2, "expected ',' or ']' after the element, found '}'"},
		{`[1 2]`, 3, "expected ',' or ']'"},
		{`[[1]`, 4, "expected ',' or ']'"},
		{`{"a":[1}`, 7, "expected ',' or ']'"},
		{`[{"a":1]`, 7, "expected ',' or '}'"},
		{`]`, 0, "expected a value"},
		{`{}x`, 2, "expected nothing after the value, found 'x'"},
		{`{} {}`, 3, "expected nothing"},
		{`01`, 1, "expected nothing after the value, found '1'"},
		{`[01]`, 2, "expected ',' or ']'"},
		{`-`, 1, "expected a digit"},
		{`-a`, 1, "expected a digit"},
		{`+1`, 0, "expected a value"},
		{`.5`, 0, "expected a value"},
		{`1.`, 2, "expected a digit"},
		{`1.e5`, 2, "expected a digit"},
		{`1e`, 2, "expected a digit"},
		{`1e+`, 3, "expected a digit"},
		{`0x10`, 1, "expected nothing"},
		{`NaN`, 0, "expected a value, found 'N'"},
		{`Infinity`, 0, "expected a value"},
		{`-Infinity`, 1, "expected a digit"},
		{`nul`, 3, "expected true, false or null, found the end"},
		{`nulL`, 3, "expected true, false or null, found 'L'"},
		{`truely`, 4, "expected nothing"},
		{`True`, 0, "expected a value"},
		{`"a`, 2, "expected the closing quote"},
		{`"\`, 2, "expected the closing quote"},
		{`"\"`, 3, "expected the closing quote"},
		{`"\q"`, 2, "after a backslash, found 'q'"},
		{`"\x41"`, 2, "after a backslash"},
		{`"\u12"`, 5, "expected four hexadecimal digits"},
		{`"\u00g0"`, 5, "expected four hexadecimal digits"},
		{`"\u`, 3, "expected the closing quote"},
		{`"\U0041"`, 2, "after a backslash"},
		{"\"a\nb\"", 2, `a control character in a string must be escaped, found '\n'`},
		{"\"12345678\x1f\"", 9, `found '\x1f'`},
		{"\"\x00\"", 1, `found '\x00'`},
		{"\xef\xbb\xbf{}", 0, `found '\ufeff'`},
		{"\xff", 0, "found the byte 0xff"},
		{"[1\xc2\xa0]", 2, `found '\u00a0'`},
		{"\v1", 0, `found '\v'`},
		{`// hi`, 0, "expected a value"},
		{`[1/**/]`, 2, "expected ',' or ']'"},
	} {
		err := Valid([]byte(c.text), 0)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if syntax.Offset != c.at || !strings.Contains(syntax.Msg, c.msg) {
			t.Errorf("%q: at %d %q, want at %d %q", c.text, syntax.Offset, syntax.Msg, c.at, c.msg)
		}
		if json.Valid([]byte(c.text)) {
			t.Errorf("%q: encoding/json does not agree", c.text)
		}
		// In an object the same text is wrong at the same place.
		m := Object([]byte(`{"k":`+c.text), 0)
		for m.Next() {
		}
		if m.Err() == nil {
			t.Errorf("%q in an object: no error", c.text)
		}
	}
}

func TestErrorSaysWhere(t *testing.T) {
	err := Valid([]byte("{\r\n  \"a\": 1,\n  \"b\": \"\xe4\u201c\n\"}"), 0)
	const want = `invalid JSON at line 3, column 13 (byte 25): a control character in a string must be escaped, found '\n'`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestControlCharactersEverywhere(t *testing.T) {
	// At each place in and after the blocks of 32 and the words of eight bytes,
	// and every byte.
	for at := range 110 {
		for c := range 256 {
			text := []byte(`"` + strings.Repeat("x", 110) + `"`)
			text[1+at] = byte(c)
			if got, want := Valid(text, 0) == nil, json.Valid(text); got != want {
				t.Fatalf("%q: got %v, want %v", text, got, want)
			}
		}
	}
}

func TestPlainFindsTheFirst(t *testing.T) {
	// A byte that is one off a special one, or has its highest bit set, must
	// not be taken for one, even behind a true one that lent it a bit.
	near := []byte{'"', '\\', 0, 0x1f, 0x20, 0x21, 0x23, 0x5b, 0x5d, 0x7f, 0x80, 0xa2, 0xdc, 0xff, 'x'}
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		b := bytes.Repeat([]byte("x"), r.IntN(120))
		for range r.IntN(4) {
			if len(b) > 0 {
				b[r.IntN(len(b))] = near[r.IntN(len(near))]
			}
		}
		start := r.IntN(len(b) + 1)
		want := start
		for want < len(b) && b[want] != '"' && b[want] != '\\' && b[want] >= 0x20 {
			want++
		}
		if got := plain(b, start); got != want {
			t.Fatalf("%q from %d: %d, want %d", b, start, got, want)
		}
	}
}

func TestDepth(t *testing.T) {
	nest := func(n int) []byte {
		return []byte(strings.Repeat(`[{"a":`, n/2) + "1" + strings.Repeat("}]", n/2))
	}
	for _, c := range []struct {
		depth, max int
		ok         bool
	}{
		{0, 1, true}, {2, 1, false}, {2, 2, true}, {DefaultDepth, 0, true}, {DefaultDepth, -5, true}, {DefaultDepth + 2, 0, false},
		{MaxDepth, MaxDepth, true}, {MaxDepth, 1 << 40, true}, {MaxDepth + 2, 1 << 40, false}, {2_000_000, MaxDepth, false},
	} {
		err := Valid(nest(c.depth), c.max)
		if (err == nil) != c.ok {
			t.Errorf("depth %d of %d: %v", c.depth, c.max, err)
		}
		e := Array(nest(c.depth), c.max)
		for e.Next() {
		}
		if c.depth > 0 && (e.Err() == nil) != c.ok {
			t.Errorf("as array, depth %d of %d: %v", c.depth, c.max, e.Err())
		}
	}
	m := Object([]byte(`{"a":{}}`), 1)
	if m.Next() || m.Err() == nil || m.Err().Error() != "invalid JSON at line 1, column 6 (byte 5): nested too deeply" {
		t.Error(m.Err())
	}
	// Wide is not deep.
	if err := Valid([]byte(`[`+strings.Repeat(`[[]],`, 1000)+`{"a":{}}]`), 3); err != nil {
		t.Error(err)
	}
}

func TestObject(t *testing.T) {
	raw := []byte(` { "model" : "gpt" , "n":-1.5,"o":{"x":[1]},"a":[ ],"t":true,"f":false,"z":null , "` + `\u006dodel":"b" } `)
	var got []string
	m := Object(raw, 0)
	for m.Next() {
		got = append(got, fmt.Sprintf("%s %v %s %s", m.Key(), m.KeyEscaped(), m.Value().Kind, m.Value().Of(raw)))
	}
	want := []string{
		`model false a string "gpt"`, `n false a number -1.5`, `o false an object {"x":[1]}`, `a false an array [ ]`,
		`t false true or false true`, `f false true or false false`, `z false null null`, `model true a string "b"`,
	}
	if m.Err() != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%v\n%s", m.Err(), strings.Join(got, "\n"))
	}
	if m.Span() != (Span{1, len(raw) - 1}) || m.Next() || m.Value() != (Value{}) || len(m.Key()) != 0 {
		t.Error("after the end", m.Span(), m.Value(), m.Key())
	}
}

func TestObjectIsOneObject(t *testing.T) {
	for _, text := range []string{``, ` `, `[]`, `"a"`, `1`, `{} {}`, `{}]`, `{"a":1}}`, `{"a":1},`, `x{}`} {
		m := Object([]byte(text), 0)
		for m.Next() {
		}
		if m.Err() == nil || m.Span() != (Span{}) {
			t.Errorf("%q: no error", text)
		}
		e := Array([]byte(strings.NewReplacer("{", "[", "}", "]", "[", "{", "]", "}", `"a":`, "").Replace(text)), 0)
		for e.Next() {
		}
		if e.Err() == nil {
			t.Errorf("%q as array: no error", text)
		}
	}
}

func TestKeys(t *testing.T) {
	long := strings.Repeat("k", 200)
	for _, c := range []struct{ written, key string }{
		{``, ``}, {`a`, `a`}, {`a\nb`, "a\nb"}, {`mod\u0065l`, "model"}, {`\ud83d\ude00`, "😀"}, {`\ud83d`, "\ufffd"},
		{long, long}, {long + `\t`, long + "\t"}, {`\u0061` + long, "a" + long}, {strings.Repeat(`\u00e9`, 32), strings.Repeat("é", 32)},
	} {
		m := Object([]byte(`{"`+c.written+`":1,"next":2}`), 0)
		if !m.Next() || string(m.Key()) != c.key || string(m.Key()) != c.key || m.KeyEscaped() != (c.written != c.key) {
			t.Errorf("%q: %q", c.written, m.Key())
		}
		if !m.Next() || string(m.Key()) != "next" || m.Next() || m.Err() != nil {
			t.Errorf("%q: the next key is %q, %v", c.written, m.Key(), m.Err())
		}
	}
}

func TestIn(t *testing.T) {
	raw := []byte("{\"a\":[10, {\"b\":\n 20}]}")
	m := Object(raw, 0)
	m.Next()
	e := Elements(raw, m.Value())
	var got []string
	for e.Next() {
		got = append(got, string(e.Value().Of(raw)))
		if e.Value().Kind != KindObject {
			continue
		}
		in := In(raw, e.Value())
		for in.Next() {
			got = append(got, string(in.Key()), string(in.Value().Of(raw)))
		}
		if in.Err() != nil || in.Span() != e.Value().Span {
			t.Error(in.Err(), in.Span())
		}
	}
	if s := strings.Join(got, "|"); s != "10|{\"b\":\n 20}|b|20" || e.Err() != nil || e.Span() != m.Value().Span {
		t.Error(s, e.Err())
	}
}

// Values that do not come from the text at hand must do no harm.
func TestForeignValues(t *testing.T) {
	raw := []byte(`{"a":[1,"x",true]}`)
	for kind := range Kind(8) {
		for start := -2; start < len(raw)+3; start++ {
			for end := start - 2; end < len(raw)+3; end++ {
				v := Value{Span{start, end}, kind}
				m, e := In(raw, v), Elements(raw, v)
				for m.Next() {
				}
				for e.Next() {
				}
				if m.Err() == nil && (kind != KindObject || start != 0 || end != len(raw)) {
					t.Fatalf("%v is an object", v)
				}
				if e.Err() == nil && (kind != KindArray || start != 5 || end != len(raw)-1) {
					t.Fatalf("%v is an array", v)
				}
				v.Of(raw)
				Int(raw, v)
				True(raw, v)
				StringLen(raw, v)
				dst, ok := Unquote([]byte("dst"), raw, v)
				if want := len("dst") + StringLen(raw, v); len(dst) != want || ok && (kind != KindString || end-start < 2) {
					t.Fatalf("%v is the string %q", v, dst)
				}
				Splice(nil, raw, []Edit{{Span: v.Span}})
			}
		}
	}
	var m Members
	var e Elems
	if m.Next() || m.Err() == nil || e.Next() || e.Err() == nil || m.Key() != nil {
		t.Error("the zero values")
	}
}
