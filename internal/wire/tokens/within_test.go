package tokens

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
	"github.com/headgate-ai/headgate/lab/race"
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
	for seed := range uint64(max(3/race.Slower, 1)) {
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
		text := filled(max(300/race.Slower, 100)<<10, sentences...)
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

// As the gateway counts a long prompt: 16 KiB of it, the rest by parts.
func TestLongPromptError(t *testing.T) {
	var errs []float64
	texts := map[string][]byte{"all kinds": joined(77, 200<<10)}
	for kind, sentences := range seeds() {
		texts[kind] = filled(60<<10, sentences...)
	}
	for seed := range uint64(max(6/race.Slower, 1)) {
		byKind := map[string][]byte{}
		for _, s := range corpus(seed+40, 480) {
			byKind[s.kind] = append(byKind[s.kind], s.text...)
		}
		for kind, text := range byKind {
			if len(text) > 32<<10 {
				texts[fmt.Sprint(kind, seed)] = text
			}
		}
	}
	for kind, text := range texts {
		want := float64(O200k().Count(text))
		body := jsonspan.AppendQuote([]byte(`{"model":"gpt-4o","messages":[{"role":"user","content":`), string(text))
		s := Scratch{Parts: true}
		n := s.Prompt(append(body, `}]}`...), llm.OpenAI, llm.Chat, "gpt-4o", Calibration{}, 16<<10)
		off := math.Abs(float64(n.Tokens)/want - 1)
		if errs = append(errs, off); n.Exact || off > 0.15 {
			t.Errorf("%s: %d tokens of %.0f", kind, n.Tokens, want)
		}
	}
	slices.Sort(errs)
	t.Logf("%d texts: median |error| %.1f %%, p95 %.1f %%", len(errs), 100*percentile(errs, 50), 100*percentile(errs, 95))
	if percentile(errs, 50) > 0.02 {
		t.Error("the median is above 2 %")
	}
}
