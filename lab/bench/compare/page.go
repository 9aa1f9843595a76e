package compare

import (
	"fmt"
	"os"
	"strings"
)

// page is docs/performance.md.
func (r *report) page() string {
	var b strings.Builder
	b.WriteString("# Performance\n\nWritten by `make bench`; do not edit. Everything is switched on: key authentication with 1,000 keys, usage\n" +
		"accounting, metrics, the journal, and the access log in a file. What is called `admission` has more on, as said below.\n\n")
	rounds := fmt.Sprintf("%d rounds", r.Rounds)
	if r.Rounds == 1 {
		rounds = "1 round"
	}
	if r.Short {
		rounds += ", short form: rough figures"
	}
	fmt.Fprintf(&b, "Measured on %s, %s.\n\n", r.Date, rounds)
	for _, m := range r.Machine {
		fmt.Fprintf(&b, "- %s\n", m)
	}
	g, missing := r.promises()
	fmt.Fprintf(&b, "\n## Promises\n\nRatios (×) are to `stdproxy`, a bare `httputil.ReverseProxy` in the same round. Each cell is the median over the\n"+
		"rounds (lowest–highest). `stdproxy` has its own values in the last column.\n\n%s\n", g.markdown())
	if missing > 0 {
		fmt.Fprintf(&b, "**%d of these are missed.**\n\n", missing)
	}
	b.WriteString("- **headgate**: as it is by default: our own server loop for inference calls, and our own HTTP/1.1 client.\n" +
		"- **admission**: the same with five rules, a budget of dollars, prices and a ledger in SQLite, for callers with a signed token\n" +
		"  (HS256) that the gateway has verified before. No limit is ever reached; a refusal would be an error.\n" +
		"- **own client**: `fast_path: off`: Go's server, our own client.\n" +
		"- **net/http**: `fast_path: off` and `transport: std`: Go's server and Go's client.\n\n")
	fmt.Fprintf(&b, "## What admission adds\n\nThe figures of `admission` less those of `headgate` in the same round. The promise is about closed, where a run makes\n"+
		"tens of thousands of requests; in the others two runs of the same gateway differ by more than what is promised.\n\n%s\n", r.added().markdown())
	fmt.Fprintf(&b, "## What our own halves save\n\nPart of the processor's time, in percent of what it is without the half. A half is on by default only if it saves\n"+
		"what the table says it needs.\n\n%s\n## All figures\n\n", r.savings().markdown())
	for _, d := range r.details() {
		fmt.Fprintf(&b, "### %s\n\n%s\n", d.title, d.markdown())
	}
	b.WriteString(method)
	b.WriteString(r.honest())
	return b.String()
}

const method = `## Method

The provider is a mock that speaks HTTP/1.1 straight over TCP and takes a few microseconds a request. A round runs every
scenario against every target, each run with a target and a mock that were started for it; in every second round the
order is reversed. Load, target and mock share one machine, over loopback, without TLS.

| scenario | what |
|---|---|
| idle | start with 1,000 keys until ` + "`/readyz`" + ` says yes, then memory at rest |
| unary | open loop, 500 requests/s, prompts of 1 KiB, answers of 100 tokens in one piece |
| big | open loop, 100 requests/s, prompts of 64 KiB |
| closed | 64 connections that send as fast as they get answers |
| stream | 200 streams at a time, 50 tokens/s each, 100 tokens, one write a token |
| hold | streams kept open at 1 token/s each |

- **CPU** is user and system time of the target's process tree (` + "`/proc/PID/stat`" + `) after a warm-up, divided by the requests
  that ended or the tokens that arrived in the same time.
- **Latency** in the open loop counts from when a request was due, so that a stall is charged for all that it held up.
- **Added p50** is the median latency less that of the load straight to the mock, as a ratio to the same of ` + "`stdproxy`" + `.
- **A token's delay** is the time from the stamp that the mock writes into it to its arrival; **added chunk p99** is the
  99th percentile less the one without anything in between.
- **Private memory** is the target's anonymous memory at its highest while all streams are open, less what it was before
  the first, per stream.
- **Correct** is a stream whose tokens all come, once, in order, with the end mark; and an answer that has the mock's text.
  In closed every answer's text is compared; in unary and big every answer must be whole JSON and all of the right
  length, and the text of 20 is compared before each run.
- **Other cores** is what neither target, mock nor load used. A run waits for a quiet machine, and is repeated up to
  twice if others took too much; the quietest try counts, and errors of all tries do.

Repeat it with ` + "`make bench`" + ` (` + "`ROUNDS=5`" + ` for more rounds, ` + "`SHORT=1`" + ` for a trial of two or three minutes that leaves this page as
it is). ` + "`bin/bench --help`" + ` names the rest.

`

// honest is what a reader should know before believing the figures.
func (r *report) honest() string {
	notes := append([]string{
		"All of this is plain HTTP/1.1 on loopback. Real providers speak TLS and mostly HTTP/2, where our own client does not act by default.",
		"At 500 requests/s much of the time is spent on waking an idle process; a request of a busy one costs less (closed).",
		"In closed the load and the mock share the processors with the target, so that the ratio of throughputs is smaller than that of CPU times.",
		"CPU times have a resolution of 10 ms. The 99th percentiles are worth something only where other cores is near zero, and alike in all rows.",
		"`stdproxy` reads a request's body before it sends it on. The usual proxy does not, and loses some answers (golang/go#40747).",
		"The mock's model has no public vocabulary, so that `admission` estimates prompts. Of OpenAI's models they are encoded, which costs more.",
	}, r.Notes...)
	disturbed := 0
	for _, res := range r.Results {
		if res.OtherCores > r.quiet {
			disturbed++
		}
	}
	if disturbed > 0 {
		notes = append(notes, fmt.Sprintf("In %d of the %d runs other processes took more than %s cores, after all repetitions.", disturbed, len(r.Results), number(r.quiet)))
	}
	return "## Before you believe it\n\n- " + strings.Join(notes, "\n- ") + "\n"
}

func (r *report) writePage(path string) error { return os.WriteFile(path, []byte(r.page()), 0o644) }
