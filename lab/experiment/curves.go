package experiment

import (
	"encoding/csv"
	"io"
	"math"
)

// Curves are what an experiment shows beyond single figures.
type Curves struct {
	// Header and Rows are the table of all points.
	Header []string
	Rows   [][]string
	// The chart has Lines over X, which rises.
	Title string
	X     []float64
	Lines []Line
}

// Line is one curve of a chart.
type Line struct {
	Name string
	Y    []float64
	// Mark is the index of a point to be marked, or -1.
	Mark   int
	Dashed bool
}

// WriteCSV writes the table.
func (c *Curves) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write(c.Header); err != nil {
		return err
	}
	return out.WriteAll(c.Rows)
}

// bend is the index of the point at which a curve bends upwards most: where,
// with both axes scaled to 1, the circle through it and its neighbours is
// smallest (Menger's curvature). It is -1 where the curve bends nowhere.
func bend(x, y []float64) int {
	scale := func(v []float64) (low, length float64) {
		low, high := math.Inf(1), math.Inf(-1)
		for _, a := range v {
			low, high = min(low, a), max(high, a)
		}
		return low, high - low
	}
	x0, width := scale(x)
	y0, height := scale(y)
	at, most := -1, 0.0
	for i := 1; i < len(x)-1 && width > 0 && height > 0; i++ {
		point := func(j int) (float64, float64) { return (x[j] - x0) / width, (y[j] - y0) / height }
		ax, ay := point(i - 1)
		bx, by := point(i)
		cx, cy := point(i + 1)
		twiceArea := (bx-ax)*(cy-ay) - (by-ay)*(cx-ax) // above 0 where it turns upwards
		curvature := 2 * twiceArea / (math.Hypot(bx-ax, by-ay) * math.Hypot(cx-bx, cy-by) * math.Hypot(cx-ax, cy-ay))
		if curvature > most {
			at, most = i, curvature
		}
	}
	return at
}

func floats(n []int) []float64 {
	all := make([]float64, len(n))
	for i, v := range n {
		all[i] = float64(v)
	}
	return all
}
