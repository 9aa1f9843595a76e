package compare

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// grid is a table to be written one way or the other.
type grid struct {
	title string
	head  []string
	rows  [][]string
	left  int // columns that hold words
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

// text writes the grid for a terminal.
func (g *grid) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", g.title)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{g.head}, g.rows...) {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush() // into memory
	return b.String()
}

// markdown writes it for a page.
func (g *grid) markdown() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(g.head)
	rule := make([]string, len(g.head))
	for i := range rule {
		if rule[i] = "---"; i >= g.left {
			rule[i] = "---:"
		}
	}
	b.WriteString("|" + strings.Join(rule, "|") + "|\n")
	for _, row := range g.rows {
		line(row)
	}
	return b.String()
}

// judged are the targets that have to keep the promises.
var judged = []string{headgate, admission}

// promises is the table of what is promised. missing counts the musts that those
// who are judged do not meet.
func (r *report) promises() (g *grid, missing int) {
	g = &grid{title: "Promises: ratios are to the bare reverse proxy of the same round; median (lowest–highest)", left: 1,
		head: []string{"figure", "must", "aim", headgate, "meets", admission, "meets", ownClient, standard, baseline}}
	for _, f := range figures(r.Streams) {
		row := []string{f.name, f.bound(f.must), f.bound(f.aim)}
		for _, name := range judged {
			own, verdict := r.judge(f, name)
			row = append(row, own.text(f.unit), verdict)
			if verdict == missed || verdict == unknown {
				missing++
			}
		}
		for _, name := range []string{ownClient, standard} {
			row = append(row, r.of(f, name).text(f.unit))
		}
		g.add(append(row, r.Results.over(f.scenarios, baseline, plain(f.absolute)).text(f.absoluteUnit))...)
	}
	return g, missing
}

// of is a figure of a target, nothing where the figure is about another one.
func (r *report) of(f figure, target string) spread {
	if f.only != "" && f.only != target {
		return spread{}
	}
	return r.Results.over(f.scenarios, target, f.value)
}

// judge is how a target does; there is no verdict on what it was not to show.
func (r *report) judge(f figure, target string) (own spread, verdict string) {
	if own = r.of(f, target); f.only != "" && f.only != target || !r.Results.ran(f.scenarios, target) {
		return own, ""
	}
	return own, f.verdict(own)
}

// added is what admission adds to what a gateway uses without it.
func (r *report) added() *grid {
	g := &grid{title: "What admission adds: admission less headgate of the same round", left: 1, head: []string{"scenario", "CPU", "median latency", "resident"}}
	difference := func(scenario string, of func(*Result) float64, unit string) string {
		return r.Results.over([]string{scenario}, admission, toPlain(of)).text(unit)
	}
	p50 := func(r *Result) float64 { return r.P50 }
	for _, s := range []string{unary, big, closed} {
		g.add(s, difference(s, cpuRequest, " µs a request"), difference(s, p50, " µs"), difference(s, resident, " MiB"))
	}
	token := func(r *Result) float64 { return r.TokenP50 }
	g.add(stream, difference(stream, cpuToken, " µs a token"), difference(stream, token, " µs a token"), difference(stream, resident, " MiB"))
	g.add(idle, "–", "–", difference(idle, resident, " MiB"))
	return g
}

// bound is a promise in words.
func (f figure) bound(v float64) string {
	switch {
	case f.more:
		return "≥ " + number(v) + f.unit
	case v == 0:
		return "0"
	}
	return "≤ " + number(v) + f.unit
}

// savings is what each half saves.
func (r *report) savings() *grid {
	g := &grid{title: "CPU saved by our own halves, in percent of the time without them", left: 1,
		head: []string{"half", "instead of", "a request, unary", "a request, big", "a request, closed", "a token, stream", "needed", "earned"}}
	for _, h := range halves {
		first := r.Results.saved(h, unary, cpuRequest)
		row := []string{h.name, h.without, first.text(" %"), r.Results.saved(h, big, cpuRequest).text(" %"),
			r.Results.saved(h, closed, cpuRequest).text(" %"), r.Results.saved(h, stream, cpuToken).text(" %"), "", ""}
		if h.needs > 0 && first.Rounds > 0 {
			row[6], row[7] = "≥ "+number(100*h.needs)+" %, unary", "no"
			if first.Median >= 100*h.needs {
				row[7] = "yes"
			}
		}
		g.add(row...)
	}
	return g
}

// details is everything that was measured, a grid for each scenario.
func (r *report) details() (all []*grid) {
	for _, s := range r.scenarios {
		g := &grid{title: s.name + ": " + s.title, left: 1, head: []string{"target"}}
		columns := columnsOf(s.name)
		for _, c := range columns {
			g.head = append(g.head, c.name)
		}
		for _, t := range r.targets {
			if r.Results.find(1, s.name, t.name) == nil {
				continue
			}
			row := []string{t.name}
			for _, c := range columns {
				row = append(row, r.Results.over([]string{s.name}, t.name, plain(c.of)).text(""))
			}
			g.add(row...)
		}
		if len(g.rows) > 0 {
			all = append(all, g)
		}
	}
	return all
}

type column struct {
	name string
	of   func(*Result) float64
}

// columnsOf are the columns of a scenario's own grid.
func columnsOf(scenario string) []column {
	rss := column{"RSS MiB", resident}
	if scenario == idle {
		return []column{{"ready ms", readiness}, rss}
	}
	errors := column{"errors", failures}
	machine := []column{
		{"cores", func(r *Result) float64 { return r.Cores }},
		rss,
		{"mock cores", func(r *Result) float64 { return r.MockCores }},
		{"generator cores", func(r *Result) float64 { return r.GeneratorCores }},
		{"other cores", func(r *Result) float64 { return r.OtherCores }},
		{"tries", func(r *Result) float64 { return float64(r.Tries) }},
	}
	tokens := []column{
		errors,
		{"tokens/s", func(r *Result) float64 { return r.TokensPerSecond }},
		{"token p50 µs", func(r *Result) float64 { return r.TokenP50 }},
		{"token p99 µs", func(r *Result) float64 { return r.TokenP99 }},
		{"CPU µs/token", cpuToken},
	}
	switch scenario {
	case stream:
		return append(tokens, machine...)
	case hold:
		return append(append(tokens, column{"open", func(r *Result) float64 { return float64(r.Open) }}, column{"private KiB/stream", perStream}), machine...)
	}
	return append([]column{
		errors,
		{"requests/s", throughput},
		{"p50 µs", func(r *Result) float64 { return r.P50 }},
		{"p99 µs", func(r *Result) float64 { return r.P99 }},
		{"CPU µs/request", cpuRequest},
	}, machine...)
}
