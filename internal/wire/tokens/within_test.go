package tokens

import (
	"math"
	"testing"
	"unicode/utf8"
)

func TestCountWithinIsExactForShortTexts(t *testing.T) {
	for _, o := range oracles() {
		for _, s := range corpus(3, 32) {
			want := o.ours.Count(s.text)
			if n, exact := CountWithin(o.ours, s.text, len(s.text)); n != want || !exact {
				t.Errorf("%s: %d, exact %v, want %d", o.ours.Name(), n, exact, want)
			}
			if _, exact := CountWithin(o.ours, s.text, len(s.text)-1); exact {
				t.Errorf("%s: a text over the budget is said to be exact", o.ours.Name())
			}
		}
	}
}

func TestCountWithinError(t *testing.T) {
	const most = 0.03
	for seed := range uint64(max(3/slower, 1)) {
		text := joined(100*seed+5, 1<<20)
		for _, o := range oracles() {
			want := float64(o.ours.Count(text))
			for _, budget := range []int{64 << 10, 256 << 10} {
				n, exact := CountWithin(o.ours, text, budget)
				off := float64(n)/want - 1
				t.Logf("%s, %d KiB of %d: %d, %+.2f %%", o.ours.Name(), budget>>10, len(text)>>10, n, 100*off)
				if exact || math.Abs(off) > most {
					t.Errorf("the error is above %v", most)
				}
			}
		}
	}
}

// Texts in one language, where nothing evens out, and strange budgets.
func TestCountWithinOfOneKind(t *testing.T) {
	for kind, sentences := range seeds() {
		text := filled(max(300/slower, 100)<<10, sentences...)
		want := float64(O200k().Count(text))
		for _, budget := range []int{-1, 0, 1, 1000, 5000, 64 << 10} {
			most := 0.03
			if budget < leastSamples*sampleSize {
				most = 0.30
			} else if budget < 64<<10 {
				most = 0.10
			}
			if n, _ := CountWithin(O200k(), text, budget); math.Abs(float64(n)/want-1) > most {
				t.Errorf("%s with a budget of %d: %d tokens, and there are %.0f", kind, budget, n, want)
			}
		}
	}
}

func TestCutIsBetweenCharacters(t *testing.T) {
	for _, s := range corpus(4, 64) {
		for i := range s.text {
			if k := cut(s.text, i); k < i || k < len(s.text) && !utf8.RuneStart(s.text[k]) {
				t.Fatalf("%q is cut at %d for %d", s.text, k, i)
			}
		}
	}
}
