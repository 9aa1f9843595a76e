package wire

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"
)

// lines is a head that takes lines.
type lines string

func (*lines) Put(string, string)      { panic("a field by itself") }
func (*lines) PutBytes(string, []byte) { panic("a field by itself") }
func (l *lines) PutLines(b []byte, n int) {
	if *l += lines(b); strings.Count(string(b), "\r\n") != n {
		panic("another number of lines")
	}
}

func TestValues(t *testing.T) {
	var v Values
	v.Int("A", -12)
	v.Duration("B", 6*time.Minute)
	v.begin("C")
	v.lines = append(v.lines, "text"...)
	v.end()
	v.Time("D", time.Date(2026, 11, 30, 1, 2, 3, 1, time.FixedZone("x", 3600)))
	var head lines
	if v.PutInto(&head); head != "A: -12\r\nB: 6m0s\r\nC: text\r\nD: 2026-11-30T00:02:04Z\r\n" {
		t.Errorf("%q", head)
	}
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
		if got := string(v.lines); got != "A: "+want+"\r\n" {
			t.Fatalf("%d ns: %s, want %s", d, got, want)
		}
	}
}

// Whatever was told before, the same is told of the same limits.
func TestLimitsAreUsedAgain(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	some := func() Limit {
		return Limit{
			Name: []string{"", "a", "ab"}[r.IntN(3)], Limit: r.Int64N(3), Remaining: r.Int64N(3),
			Reset: time.Duration(r.IntN(3)) * time.Second, Window: time.Duration(r.IntN(3)) * time.Minute,
		}
	}
	var used Limits
	for range 10_000 {
		used.Requests, used.Tokens = some(), some()
		fresh := Limits{Requests: used.Requests, Tokens: used.Tokens}
		var got, want Values
		GenericLimits(&got, &used)
		GenericLimits(&want, &fresh)
		if string(got.lines) != string(want.lines) {
			t.Fatalf("%+v: %q, want %q", fresh, got.lines, want.lines)
		}
	}
	limits := Limits{
		Requests: Limit{Name: "r", Limit: 60, Remaining: 7, Reset: 1500 * time.Millisecond, Window: time.Minute},
		Tokens:   Limit{Name: "r", Limit: 1000, Remaining: 900, Reset: time.Second}, Now: time.Unix(1000, 1),
	}
	var v Values
	GenericLimits(&v, &limits)
	if want := "X-Ratelimit-Limit: 60\r\nX-Ratelimit-Remaining: 7\r\nX-Ratelimit-Reset: 1002\r\n" +
		"Ratelimit: \"r\";r=7;t=2, \"r/tokens\";r=900;t=1\r\nRatelimit-Policy: \"r\";q=60;w=60, \"r/tokens\";q=1000;qu=\"tokens\"\r\n"; string(v.lines) != want {
		t.Errorf("%q, want %q", v.lines, want)
	}
}
