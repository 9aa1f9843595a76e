package wire

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"
)

func TestValues(t *testing.T) {
	var v Values
	v.Int("A", -12)
	v.Duration("B", 6*time.Minute)
	v.Buf = append(v.Buf, "text"...)
	v.End("C")
	v.Time("D", time.Date(2026, 11, 30, 1, 2, 3, 1, time.FixedZone("x", 3600)))
	h := http.Header{}
	v.PutInto(Header(h))
	for name, want := range map[string]string{"A": "-12", "B": "6m0s", "C": "text", "D": "2026-11-30T00:02:04Z"} {
		if got := h[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// Lengths are spelled as package time spells them, in whole milliseconds.
func TestDurations(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		d := time.Duration(r.Int64N(1 << (1 + r.IntN(52))))
		var v Values
		v.Duration("A", d)
		want := ((d + time.Millisecond - 1) / time.Millisecond * time.Millisecond).String()
		if string(v.Buf) != want {
			t.Fatalf("%d ns: %s, want %s", d, v.Buf, want)
		}
	}
}
