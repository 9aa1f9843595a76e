package tokens

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// errorsOf are the relative errors of a count on texts, sorted.
func errorsOf(texts []sample, count func(text []byte) float64) (all []float64) {
	for _, s := range texts {
		want := float64(O200k().Count(s.text))
		all = append(all, math.Abs(count(s.text)-want)/want)
	}
	slices.Sort(all)
	return all
}

func percentile(sorted []float64, p int) float64 { return sorted[(len(sorted)-1)*p/100] }

// The estimate is learnt on one corpus and measured on another.
func TestEstimateError(t *testing.T) {
	const most = 0.08
	var cal Calibration
	for _, s := range corpus(2, 480) {
		cal = cal.Learn(float64(O200k().Count(s.text)), EstimateOf(FamilyO200k, s.text))
	}
	texts := corpus(1, 480)
	rows := []struct {
		name  string
		count func(text []byte) float64
	}{
		{"bytes/4", func(text []byte) float64 { return float64(len(text)) / 4 }},
		{"not calibrated", func(text []byte) float64 { return EstimateOf(FamilyO200k, text).Tokens }},
		{"calibrated", func(text []byte) float64 { return cal.Apply(EstimateOf(FamilyO200k, text)) }},
	}
	for _, row := range rows {
		errs := errorsOf(texts, row.count)
		t.Logf("%-15s median |error| %5.1f %%, p95 %5.1f %%", row.name, 100*percentile(errs, 50), 100*percentile(errs, 95))
		if row.name == "calibrated" && percentile(errs, 50) > most {
			t.Errorf("the median error is above %v", most)
		}
	}
	for i := range classes {
		t.Logf("%s: factor %.3f from %d texts", i, cal.Factor(i), cal.Seen(i))
	}
	if testing.Verbose() {
		logByKind(t, texts, cal)
	}
}

func logByKind(t *testing.T, texts []sample, cal Calibration) {
	t.Helper()
	byKind := map[string][]sample{}
	for _, s := range texts {
		byKind[s.kind] = append(byKind[s.kind], s)
	}
	for kind, some := range byKind {
		errs := errorsOf(some, func(text []byte) float64 { return cal.Apply(EstimateOf(FamilyO200k, text)) })
		t.Logf("%-20s median %5.1f %%, p95 %5.1f %%", kind, 100*percentile(errs, 50), 100*percentile(errs, 95))
	}
}

// A calibration finds a tokenizer that makes other tokens than ours: here
// cl100k_base, estimated as if it were o200k_base.
func TestCalibrationFindsTheTokenizer(t *testing.T) {
	var cal Calibration
	for _, s := range corpus(2, 480) {
		cal = cal.Learn(float64(CL100k().Count(s.text)), EstimateOf(FamilyO200k, s.text))
	}
	var before, after []float64
	for _, s := range corpus(1, 480) {
		want, e := float64(CL100k().Count(s.text)), EstimateOf(FamilyO200k, s.text)
		before = append(before, math.Abs(e.Tokens-want)/want)
		after = append(after, math.Abs(cal.Apply(e)-want)/want)
	}
	slices.Sort(before)
	slices.Sort(after)
	t.Logf("median |error| %.1f %% before, %.1f %% after", 100*percentile(before, 50), 100*percentile(after, 50))
	if b, a := percentile(before, 50), percentile(after, 50); a > 0.10 || a > b {
		t.Errorf("the median error went from %.3f to %.3f", b, a)
	}
}

func TestClasses(t *testing.T) {
	for text, want := range map[string]Class{
		"A plain sentence, with a comma.":  ClassLatin,
		"Pouvez-vous expliquer la théorie": ClassLatin,
		"请用简单的语言解释一下":                      ClassCJK,
		"日本語の文章です。":                        ClassCJK,
		"설명해 주세요":                          ClassCJK,
		"Объясните простыми словами":       ClassScript,
		"اشرح بعبارات بسيطة":               ClassScript,
		"सरल शब्दों में":                   ClassScript,
		"3.14159 26535 89793":              ClassDigit,
		`{"a":[1,2,{"b":"c"}],"d":true}`:   ClassCode,
		"if (x != y) { return f(&x); }":    ClassCode,
		" \n\t ":                           ClassBlank,
		"":                                 ClassBlank,
	} {
		if got := EstimateOf(FamilyO200k, []byte(text)).Class; got != want {
			t.Errorf("%q is of the class %s, want %s", text, got, want)
		}
	}
}

func TestEstimateOfEveryFamily(t *testing.T) {
	text := english(5000)
	exact := float64(O200k().Count(text))
	for f := range families + 3 {
		got := EstimateOf(f, text).Tokens
		if got < 0.8*exact || got > 1.5*exact {
			t.Errorf("%s: %.0f tokens where o200k_base has %.0f", f, got, exact)
		}
		if n := EstimateOf(f, nil).Tokens; n != 0 {
			t.Errorf("%s: %v tokens of nothing", f, n)
		}
		if n := EstimateOf(f, []byte("x")).Tokens; n < 1 || n > 2 {
			t.Errorf("%s: %v tokens of one letter", f, n)
		}
	}
}

// No text, however strange, gets an estimate that is far below its tokens'
// number: a quota that reserves by it must not be fooled.
func TestEstimateIsNotFooled(t *testing.T) {
	for name, build := range hostile {
		text := build(20000)
		exact, got := float64(O200k().Count(text)), EstimateOf(FamilyO200k, text).Tokens
		if got < exact/3 {
			t.Errorf("%s: estimated at %.0f, and it has %.0f", name, got, exact)
		}
	}
}

func TestCalibrationLearns(t *testing.T) {
	e := Estimate{Tokens: 100, Class: ClassCJK}
	var c Calibration
	if f := c.Factor(ClassCJK); f != 1 {
		t.Errorf("the zero calibration has the factor %v", f)
	}
	for range 20 {
		c = c.Learn(130, e)
	}
	if f := c.Factor(ClassCJK); math.Abs(f-1.3) > 1e-9 || c.Seen(ClassCJK) != 20 {
		t.Errorf("after 20 texts of 1.3 the factor is %v, seen %d", f, c.Seen(ClassCJK))
	}
	if f := c.Factor(ClassLatin); f != 1 {
		t.Errorf("another class learnt, too: %v", f)
	}
	before := c
	if c = c.Learn(1e9, e); c.Factor(ClassCJK) > 1.34 || math.Abs(before.Factor(ClassCJK)-1.3) > 1e-9 {
		t.Errorf("one wild report moved the factor to %v", c.Factor(ClassCJK))
	}
	for range 400 {
		c = c.Learn(80, e)
	}
	if f := c.Factor(ClassCJK); math.Abs(f-0.8) > 0.01 {
		t.Errorf("after many texts of 0.8 the factor is %v", f)
	}
}

func TestCalibrationIgnoresNonsense(t *testing.T) {
	e := Estimate{Tokens: 100, Class: ClassLatin}
	var c Calibration
	for _, actual := range []float64{0, -5, math.NaN(), math.Inf(-1)} {
		c = c.Learn(actual, e)
	}
	c = c.Learn(5, Estimate{Tokens: 0, Class: ClassLatin})
	c = c.Learn(5, Estimate{Tokens: 5, Class: 99})
	if c != (Calibration{}) {
		t.Errorf("learnt %+v from nonsense", c)
	}
	if f := c.Learn(math.Inf(1), e).Factor(ClassLatin); f != mostFactor {
		t.Errorf("an infinite count gives the factor %v", f)
	}
	if c.Factor(99) != 1 || c.Seen(99) != 0 {
		t.Error("a class that is none has a factor")
	}
}

func TestEstimateAllocates(t *testing.T) {
	text := []byte(strings.Repeat("A sentence. 一句话。", 200))
	if n := testing.AllocsPerRun(100, func() { EstimateOf(FamilyClaude, text) }); n != 0 {
		t.Errorf("an estimate allocates %v times", n)
	}
}
