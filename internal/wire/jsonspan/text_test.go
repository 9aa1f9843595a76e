package jsonspan

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

func textValue(text string, k Kind) ([]byte, Value) {
	return []byte(text), Value{Span{0, len(text)}, k}
}

func TestUnquote(t *testing.T) {
	for text, want := range map[string]string{
		`""`: "", `"a"`: "a", `"\"\\\/\b\f\n\r\t"`: "\"\\/\b\f\n\r\t", `"\u0041\u00e9\u20AC"`: "Aé€",
		`"\ud83d\ude00"`: "😀", `"\ud83d"`: "\ufffd", `"\ude00\ud83d"`: "\ufffd\ufffd", `"\ud83d\ud83d\ude00"`: "\ufffd😀",
		`"\ud83dx"`: "\ufffdx", `"\ud83d\n"`: "\ufffd\n", `"\ud83d\u0041"`: "\ufffdA", `"\u0000"`: "\x00",
		"\"\xff\\n\"": "\xff\n",
	} {
		raw, v := textValue(text, KindString)
		got, ok := Unquote([]byte(">"), raw, v)
		if !ok || string(got) != ">"+want || StringLen(raw, v) != len(want) || Text(raw, v) != want {
			t.Errorf("%s: %q %v, length %d, text %q", text, got, ok, StringLen(raw, v), Text(raw, v))
		}
	}
	for _, text := range []string{``, `"`, `"a`, `a"`, `"\"`, `"a"b"`, "\"\n\"", `"\q"`, `"\u12"`, `"a" `} {
		raw, v := textValue(text, KindString)
		if got, ok := Unquote([]byte(">"), raw, v); ok || string(got) != ">" || StringLen(raw, v) != 0 || Text(raw, v) != "" {
			t.Errorf("%s: %q", text, got)
		}
	}
}

func TestInt(t *testing.T) {
	for text, want := range map[string]int64{
		`0`: 0, `-0`: 0, `0.000`: 0, `0e99999999999999999999`: 0, `-0.0e-99999999999`: 0, `7`: 7, `-7`: -7, `100`: 100,
		`5.0`: 5, `1e3`: 1000, `1E+3`: 1000, `1.5e1`: 15, `1200e-2`: 12, `0.001e3`: 1, `1.0000000000000000000000000`: 1,
		`9223372036854775807`: math.MaxInt64, `-9223372036854775808`: math.MinInt64, `9007199254740993`: 9007199254740993,
		`922337203685477580700e-2`: math.MaxInt64, `1e18`: 1e18,
		`1` + strings.Repeat("0", 500) + `e-500`: 1, `0.` + strings.Repeat("0", 499) + `1e500`: 1,
	} {
		raw, v := textValue(text, KindNumber)
		if got, ok := Int(raw, v); !ok || got != want {
			t.Errorf("%s: %d %v", text, got, ok)
		}
	}
	for _, text := range []string{
		`9223372036854775808`, `-9223372036854775809`, `18446744073709551615`, `18446744073709551616`, `1e19`, `1e99999999999999999999`,
		`1e-1`, `5.5`, `0.1`, `1e-99999999999999999999`, strings.Repeat("9", 400), `100000000000000000001e-1`,
		``, `-`, `01`, `1x`, `+1`, ` 1`, `"1"`, `1.`, `e1`,
	} {
		raw, v := textValue(text, KindNumber)
		if got, ok := Int(raw, v); ok || got != 0 {
			t.Errorf("%s: %d", text, got)
		}
	}
	raw, v := textValue(`1`, KindString)
	if _, ok := Int(raw, v); ok {
		t.Error("a string is no number")
	}
}

func TestTrue(t *testing.T) {
	for text, want := range map[string]bool{`true`: true, `false`: false, `tru`: false, ``: false} {
		if raw, v := textValue(text, KindBool); True(raw, v) != want {
			t.Error(text)
		}
	}
	if raw, v := textValue(`true`, KindNull); True(raw, v) {
		t.Error("the kind is wrong")
	}
}

func TestAppendQuote(t *testing.T) {
	for s, want := range map[string]string{
		"": `""`, "a": `"a"`, "\"\\/": `"\"\\/"`, "\b\f\n\r\t\x00\x1f\x7f": `"\b\f\n\r\t\u0000\u001f` + "\x7f\"",
		"<é€😀>&\u2028": "\"<é€😀>&\u2028\"", "a\xffb": `"a\ufffdb"`, "\xed\xa0\x80": `"\ufffd\ufffd\ufffd"`, "\ufffd": "\"\ufffd\"",
	} {
		if got := string(AppendQuote([]byte(">"), s)); got != ">"+want {
			t.Errorf("%q: %s", s, got)
		}
	}
}

func TestSplice(t *testing.T) {
	raw := []byte(`{"model":"a","n":1}`)
	edit := func(start, end int, s string) Edit { return Edit{Span{start, end}, []byte(s)} }
	for _, c := range []struct {
		edits []Edit
		want  string
	}{
		{nil, `{"model":"a","n":1}`},
		{[]Edit{edit(9, 12, `"bb"`)}, `{"model":"bb","n":1}`},
		{[]Edit{edit(0, 0, "<"), edit(1, 13, ""), edit(17, 18, "22"), edit(19, 19, ">"), edit(19, 19, ">")}, `<{"n":22}>>`},
		{[]Edit{edit(0, 19, "")}, ``},
	} {
		if got := Splice([]byte("dst"), raw, c.edits); string(got) != "dst"+c.want {
			t.Errorf("%v: %s", c.edits, got)
		}
	}
	for _, edits := range [][]Edit{
		{edit(-1, 2, "")}, {edit(3, 2, "")}, {edit(0, 20, "")}, {edit(20, 20, "")}, {edit(5, 6, ""), edit(1, 2, "")}, {edit(5, 7, ""), edit(6, 8, "")},
	} {
		if got := Splice([]byte("dst"), raw, edits); got != nil {
			t.Errorf("%v: %s", edits, got)
		}
	}
}

func FuzzUnquote(f *testing.F) {
	for _, s := range []string{`""`, `"a\n"`, `"\ud83d\ude00"`, `"\ud83d\ud83d\u0041\\"`, `"é"`, "\"\xff\"", `"\u00`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v := Value{Span{0, len(raw)}, KindString}
		got, ok := Unquote(nil, raw, v)
		if StringLen(raw, v) != len(got) {
			t.Fatalf("length %d of %q", StringLen(raw, v), got)
		}
		var want string
		isString := len(raw) > 1 && raw[0] == '"' && raw[len(raw)-1] == '"' && json.Unmarshal(raw, &want) == nil
		if ok != isString {
			t.Fatalf("%q: got %v, want %v", raw, ok, isString)
		}
		if ok && utf8.Valid(raw) && string(got) != want {
			t.Fatalf("%q: got %q, want %q", raw, got, want)
		}
	})
}

func FuzzAppendQuote(f *testing.F) {
	for _, s := range []string{"", "a", "\"\\\n\x00é😀\u2028<", "\xff\xed\xa0\x80\xf0\x9f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw := AppendQuote(nil, s)
		var std string
		if err := json.Unmarshal(raw, &std); err != nil || !utf8.Valid(raw) {
			t.Fatalf("%q: %v", raw, err)
		}
		own, ok := Unquote(nil, raw, Value{Span{0, len(raw)}, KindString})
		want := string([]rune(s)) // each byte that is not UTF-8 becomes U+FFFD
		if !ok || string(own) != want || std != want {
			t.Fatalf("%q: own %q, std %q, want %q", s, own, std, want)
		}
	})
}
