package fault

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLegible(t *testing.T) {
	long := strings.Repeat("a", 127)
	for s, want := range map[string]string{
		"":                  "",
		"gpt-4 ü":           "gpt-4 ü",
		"a\nb\x00c\x7f\x1b": "a?b?c??",
		long + "b":          long + "b",
		long + "bc":         long + "b…",
		long + "üü":         long + "…", // the ü does not fit
	} {
		if got := Legible(s); got != want || !utf8.ValidString(got) {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { Legible("OpenAI/Go 3.0 ü") }); n != 0 {
		t.Errorf("%v allocations for text that is as it should be", n)
	}
}
