package jsonspan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// walked lists all that a walk finds, deep down.
func walked(raw []byte, v Value, long *Long) string {
	var b strings.Builder
	fmt.Fprint(&b, v)
	switch v.Kind {
	case KindObject:
		m := In(raw, v)
		m.By(long)
		for m.Next() {
			fmt.Fprintf(&b, " %s:%s", m.Key(), walked(raw, m.Value(), long))
		}
		fmt.Fprint(&b, m.Err())
	case KindArray:
		e := Elements(raw, v)
		e.By(long)
		for e.Next() {
			fmt.Fprintf(&b, " %s", walked(raw, e.Value(), long))
		}
		fmt.Fprint(&b, e.Err())
	}
	return b.String()
}

// randomText is a JSON value with strings of all lengths around leastLong.
func randomText(r *rand.Rand, depth int) string {
	switch n := r.IntN(6); {
	case n < 3 || depth == 0:
		s := strings.Repeat(`x\"\u00e9 `, r.IntN(300))
		return `"` + s + `"`
	case n == 3:
		return "12.5"
	case n == 4:
		return fmt.Sprintf(`{"a": %s, "b":%s }`, randomText(r, depth-1), randomText(r, depth-1))
	}
	return fmt.Sprintf(`[%s , %s,%s]`, randomText(r, depth-1), randomText(r, depth-1), randomText(r, depth-1))
}

// Walks that go by what the first one noted find the same as those that look
// for themselves, whether all was noted or not.
func TestLong(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	noted, full := 0, 0
	for i := range 400 {
		raw := []byte(`{"all": ` + randomText(r, 4) + `}`)
		if i%100 == 0 {
			raw = fmt.Appendf(nil, `{"all": ["%s"]}`, strings.Join(slices.Repeat([]string{strings.Repeat("long", 300)}, 40), `", "`))
		}
		var first, known Long
		m := Object(raw, 0)
		m.Note(&first)
		if !m.Next() {
			t.Fatal(m.Err())
		}
		v := m.Value()
		if m.Next() || m.Err() != nil {
			t.Fatal(m.Err())
		}
		for _, s := range first.Spans() {
			if s.End-s.Start < leastLong {
				t.Fatalf("%d bytes are noted", s.End-s.Start)
			}
			if r.IntN(5) > 0 {
				known.Know(s)
			}
		}
		known.Trust()
		noted += len(known.Spans())
		if len(first.Spans()) == mostLong {
			full++
		}
		if got, want := walked(raw, v, &known), walked(raw, v, new(Long)); got != want {
			t.Fatalf("%s\nwant\n%s", got, want)
		}
		known.Forget()
		if len(known.Spans()) != 0 {
			t.Fatal("it does not forget")
		}
	}
	if noted < 300 || full == 0 {
		t.Errorf("%d strings noted, %d times all there is room for", noted, full)
	}
}
