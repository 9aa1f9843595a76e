package jsonspan

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// cursorTokens writes the value at hand as a list of tokens, as tokens does. Now and
// then a value is read as a whole, as skip has it.
func cursorTokens(t *testing.T, raw []byte, c *Cursor, skip uint, out []string) []string {
	ahead, kind := *c, c.Kind()
	switch {
	case uint(len(out))%8 == skip%8:
		if v := c.Value(); v.Kind != 0 {
			return tokens(t, raw, v, out)
		}
		return out
	case c.Open(KindObject):
		out = append(out, "{")
		for c.Member() {
			out = append(out, strconv.Quote(string(c.Key())))
			out = cursorTokens(t, raw, c, skip, out)
		}
		out = append(out, "}")
	case c.Open(KindArray):
		out = append(out, "[")
		for c.Element() {
			out = cursorTokens(t, raw, c, skip, out)
		}
		out = append(out, "]")
	default:
		v := c.Value()
		if v.Kind == 0 {
			return out
		}
		return tokens(t, raw, v, out)
	}
	if v := ahead.Value(); v.Kind != kind && v.Kind != 0 || v.End != c.pos && v.End != 0 {
		t.Fatalf("in %q: read as %v, gone through up to %d", raw, v, c.pos)
	}
	return out
}

// checkCursor holds a walk against Valid and encoding/json.
func checkCursor(t *testing.T, raw []byte, depth int, skip uint) {
	c := Walk(raw, depth)
	got := cursorTokens(t, raw, &c, skip, nil)
	err, want := c.End(), Valid(raw, depth)
	if !reflect.DeepEqual(err, want) {
		t.Fatalf("%q: %v, want %v", raw, err, want)
	}
	if c.Member() || c.Element() || c.Kind() != 0 || c.Value() != (Value{}) {
		t.Fatalf("%q: the walk goes on behind its end", raw)
	}
	if err != nil {
		return
	}
	if want, _ := stdTokens(raw); utf8.Valid(raw) && !slices.Equal(got, want) {
		t.Fatalf("%q\ngot  %q\nwant %q", raw, got, want)
	}
	var known Long
	known.Trust()
	again := Walk(raw, depth)
	again.By(&known)
	if trusting := cursorTokens(t, raw, &again, skip, nil); !slices.Equal(trusting, got) || again.End() != nil {
		t.Fatalf("%q\nfound  %q\nbefore %q", raw, trusting, got)
	}
}

func FuzzCursor(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s), 0, uint(5))
	}
	f.Fuzz(checkCursor)
}

func TestCursor(t *testing.T) {
	raw := []byte(` {"a":[1,{"b":"x\"y"}],"mod\u0065l":"m" , "c":null} `)
	c := Walk(raw, 0)
	if c.Kind() != KindObject || c.Open(KindArray) || c.Open(KindString) || !c.Open(KindObject) {
		t.Fatal("the object can not be opened")
	}
	var keys []string
	for c.Member() {
		keys = append(keys, string(c.Key()))
		if string(c.Key()) == "model" {
			if v := c.Value(); string(v.Of(raw)) != `"m"` || c.Value() != (Value{}) || c.Kind() != 0 {
				t.Errorf("the model is %s", v.Of(raw))
			}
		}
	}
	if want := []string{"a", "model", "c"}; !slices.Equal(keys, want) || c.End() != nil {
		t.Errorf("%q %v, want %q", keys, c.End(), want)
	}
}

// What is not stepped through to its end is an error, not a wrong answer.
func TestCursorLeftInside(t *testing.T) {
	c := Walk([]byte(`{"a":[1,2],"b":3}`), 0)
	c.Open(KindObject)
	for c.Member() {
		if c.Open(KindArray) {
			c.Element()
		}
	}
	if c.End() == nil {
		t.Error("no error")
	}
}

func TestCursorAllocates(t *testing.T) {
	raw := []byte(strings.Replace(chat(4096), `"model"`, `"mod\u0065l"`, 1))
	n := testing.AllocsPerRun(100, func() {
		c := Walk(raw, 0)
		found := 0
		for c.Open(KindObject); c.Member(); {
			if string(c.Key()) == "model" || string(c.Key()) == "messages" && c.Kind() == KindArray {
				found++
			}
		}
		if c.End() != nil || found != 2 {
			t.Fatal(found)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Excerpts of a string, one behind the other, are the string, wherever it is cut.
func TestExcerpt(t *testing.T) {
	for _, inside := range []string{
		"", "plain", `a\nb\tc`, `\u00e9\u4e16\u754c\u044f`, `\"quoted\"`, "é世😀", `\u005c\u0022`,
		strings.Repeat(`\tif x == \"y\" {\n\t\treturn\n\t}\n`, 5),
	} {
		raw := []byte(`"` + inside + `"`)
		want, ok := Unquote(nil, raw, Value{Span{0, len(raw)}, KindString})
		if !ok {
			t.Fatalf("%s is no string", raw)
		}
		for size := 1; size <= len(inside)+1; size++ {
			var got []byte
			for from := 0; from < len(inside); from += size {
				part, last := Excerpt(nil, []byte(inside), from, min(from+size, len(inside)))
				if len(got) > 0 && last != got[len(got)-1] {
					t.Errorf("%s from %d: %q stands before it, want %q", inside, from, last, got[len(got)-1])
				}
				got = append(got, part...)
			}
			if string(got) != string(want) {
				t.Errorf("%s in excerpts of %d bytes is %q, want %q", inside, size, got, want)
			}
		}
	}
	if part, last := Excerpt(nil, []byte(`\ud83d\ude00x`), 3, 13); string(part) != "x" || last != "😀"[3] {
		t.Errorf("%q behind %x", part, last)
	}
	// Whatever the offsets and the text, there is an excerpt.
	for _, inside := range []string{`\\\\\\u1`, `\\\\q\\`, `\ud83d\u`, `\`, `\u12`} {
		for from := range len(inside) + 1 {
			for to := from; to <= len(inside); to++ {
				if part, _ := Excerpt(nil, []byte(inside), from, to); len(part) > 3*(to-from) {
					t.Errorf("%s[%d:%d] is %q", inside, from, to, part)
				}
			}
		}
	}
}
