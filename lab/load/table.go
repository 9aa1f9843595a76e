package load

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	r.head(&b)
	r.times(&b)
	r.rest(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) head(b *strings.Builder) {
	how := fmt.Sprintf("closed loop, %d connections", r.Connections)
	if r.Loop == "open" {
		how = fmt.Sprintf("open loop, %g/s, %s", r.Rate, r.Pattern)
	}
	if r.Sessions > 0 {
		how += fmt.Sprintf(", %d sessions", r.Sessions)
	}
	kind := "answers in one piece"
	if r.Stream {
		kind = "streams"
	}
	fmt.Fprintf(b, "%s\n%s, %s, model %s: %s, seed %d\n\n", r.Target, r.Dialect, kind, r.Model, how, r.Seed)
	fmt.Fprintf(b, "%d requests in %.1f s: %d ok, %d failed", r.Requests, r.Elapsed, r.OK, r.Failed)
	if r.Aborted > 0 {
		fmt.Fprintf(b, ", %d broken off", r.Aborted)
	}
	fmt.Fprintf(b, "\n%.1f requests/s, %.0f tokens/s, %s/s, %.0f %% of requests on a connection in use before\n\n",
		r.RequestsPerSecond, r.TokensPerSecond, sizeText(r.BytesPerSecond), 100*r.Reused)
}

// times is the table of all that was timed.
func (r *Report) times(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "milliseconds\tcount\tmean\tp50\tp90\tp95\tp99\tp99.9\tmax\t")
	line := func(name string, p *Percentiles) {
		if p != nil && p.Count > 0 {
			fmt.Fprintf(t, "%s\t%d\t%.3g\t%.3g\t%.3g\t%.3g\t%.3g\t%.3g\t%.3g\t\n", name, p.Count, p.Mean, p.P50, p.P90, p.P95, p.P99, p.P999, p.Max)
		}
	}
	line("latency, from when due", &r.Latency)
	if r.Loop == "open" {
		line("from when sent", &r.Service)
		line("sent late by", &r.Lag)
	}
	line("first token", r.TTFT)
	line("gap between tokens", r.Gap)
	line("added to a token", r.Added)
	line("phase dns", &r.Phases.DNS)
	line("phase connect", &r.Phases.Connect)
	line("phase tls", &r.Phases.TLS)
	line("phase first byte", &r.Phases.FirstByte)
	line("phase transfer", &r.Phases.Transfer)
	line("total", &r.Phases.Total)
	_ = t.Flush() // into memory
}

func (r *Report) rest(b *strings.Builder) {
	if r.Stream {
		fmt.Fprintf(b, "\ntokens: %d received, %d lost, %d twice, %d out of order\n", r.Tokens.Received, r.Tokens.Lost, r.Tokens.Duplicate, r.Tokens.OutOfOrder)
		if r.Added == nil && r.Tokens.Received > 0 {
			b.WriteString("(no stamps: lost tokens and added delay cannot be seen; the simulator stamps with the model NAME+stamp=true)\n")
		}
	}
	if p := r.Process; p != nil {
		fmt.Fprintf(b, "\nprocess %d: %.2f s of CPU, %.3f ms a request, at most %s of memory\n", p.PID, p.CPU, p.CPUPerRequest, sizeText(float64(p.PeakRSS)))
	}
	if r.Failed == 0 {
		return
	}
	b.WriteString("\nerrors:\n")
	for _, k := range Kinds {
		if n := r.Errors[k]; n > 0 {
			fmt.Fprintf(b, "%8d  %s, such as: %s\n", n, k, strings.Join(strings.Fields(r.Examples[k]), " "))
		}
	}
}

func sizeText(bytes float64) string {
	for _, unit := range []string{"B", "KiB", "MiB"} {
		if bytes < 1024 {
			return fmt.Sprintf("%.1f %s", bytes, unit)
		}
		bytes /= 1024
	}
	return fmt.Sprintf("%.1f GiB", bytes)
}
