package experiment

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteTable writes the result for people.
func (r *Result) WriteTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s): %s\n", r.Experiment, r.Row, r.Title)
	order := "in turns"
	if r.SideBySide {
		order = "side by side"
	}
	fmt.Fprintf(&b, "%d rounds, arms %s, %.1f s, %s, %s, %s CPUs; medians [95 %% bootstrap interval], × is the ratio to the first arm\n\n",
		r.Rounds, order, r.Elapsed, r.Environment["go"], r.Environment["os"], r.Environment["cpus"])
	r.figures(&b)
	b.WriteString("\n")
	for _, a := range r.Arms {
		fmt.Fprintf(&b, "%s: %s\n", a.Name, a.Title)
	}
	b.WriteString("\n")
	for _, part := range [][2]string{{"Measured", r.Note}, {"Claimed", r.Claim}, {"Wrong in the claim", r.Wrong}} {
		if part[1] != "" {
			fmt.Fprintf(&b, "%s: %s\n", part[0], part[1])
		}
	}
	b.WriteString("\nShape:\n")
	for _, s := range r.Shape {
		verdict := "holds"
		if !s.Holds {
			verdict = "DOES NOT HOLD"
		}
		fmt.Fprintf(&b, "  %s: %s\n", s.Text, verdict)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// figures has a line for each metric and a column for each arm.
func (r *Result) figures(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 3, ' ', 0)
	for _, a := range r.Arms {
		fmt.Fprintf(t, "\t%s", a.Name)
	}
	fmt.Fprintln(t)
	for _, m := range r.Metrics {
		fmt.Fprint(t, m.Title)
		if m.Unit != "" {
			fmt.Fprintf(t, ", %s", m.Unit)
		}
		for _, a := range r.Arms {
			v, ok := a.Values[m.Name]
			if !ok {
				fmt.Fprint(t, "\t–")
				continue
			}
			fmt.Fprintf(t, "\t%s [%s–%s]", figure(v.Median), figure(v.Low), figure(v.High))
			if ratio, ok := a.Ratios[m.Name]; ok {
				fmt.Fprintf(t, " ×%s", figure(ratio.Median))
			}
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush() // into memory
}

// figure has three digits, and no exponent where a reader can do without.
func figure(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 100 || v <= -100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
