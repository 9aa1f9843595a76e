package compare

import (
	"math"
	"slices"
	"strconv"
)

// spread is what the rounds agree on, and how far they do.
type spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Rounds int     `json:"rounds"`
}

// spreadOf leaves out rounds that have no such figure (NaN, or infinite).
func spreadOf(values []float64) spread {
	known := slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	slices.Sort(known)
	n := len(known)
	if n == 0 {
		return spread{}
	}
	return spread{(known[(n-1)/2] + known[n/2]) / 2, known[0], known[n-1], n}
}

// ratio is a to b. Where b is nothing there is none.
func ratio(a, b float64) float64 {
	if b <= 0 {
		return math.NaN()
	}
	return a / b
}

// number has three digits that count.
func number(v float64) string {
	switch a := math.Abs(v); {
	case v == math.Trunc(v) || a >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// text is the median and, where they differ, the lowest and the highest.
func (s spread) text(unit string) string {
	if s.Rounds == 0 {
		return "–"
	}
	t := number(s.Median) + unit
	if low, high := number(s.Low), number(s.High); low != high {
		t += " (" + low + "–" + high + ")"
	}
	return t
}
