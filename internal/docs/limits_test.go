package docs

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/app"
	"github.com/headgate-ai/headgate/internal/config/source/static"
	"github.com/headgate-ai/headgate/internal/quota/bucket"
	"github.com/headgate-ai/headgate/internal/quota/fixed"
	"github.com/headgate-ai/headgate/internal/quota/gcra"
	"github.com/headgate-ai/headgate/internal/quota/window"
)

const limitsPage = "docs/limits-and-budgets.md"

// take takes one at a time, if there is one.
type take func(now int64) bool

// The algorithms as the page compares them: 60 a minute, and a burst where the
// algorithm has one.
var compared = []struct {
	algorithm, burst string
	fresh            func() take
}{
	{"fixed", "–", func() take {
		l, s := fixed.Limit{Max: 60, Length: int64(time.Minute)}, fixed.State{}
		return func(now int64) bool {
			if l.Wait(s, 1, now) > 0 {
				return false
			}
			s = l.Take(s, 1, now)
			return true
		}
	}},
	{"window", "–", func() take { return sliding(window.Limit{Max: 60, Length: int64(time.Minute)}) }},
	{"window", "2", func() take { return sliding(window.Limit{Max: 60, Length: int64(time.Minute), Slot: 2}) }},
	{"gcra, bucket", "60", func() take { return both(60) }},
	{"gcra, bucket", "10", func() take { return both(10) }},
	{"gcra, bucket", "1", func() take { return both(1) }},
}

func sliding(l window.Limit) take {
	s := new(window.State)
	return func(now int64) bool {
		if l.Wait(s, 1, now) > 0 {
			return false
		}
		l.Take(s, 1, now)
		return true
	}
}

// both runs gcra and bucket side by side: they are one algorithm, kept as a time
// and as a count, and a difference is a mistake in one of them.
func both(burst int64) take {
	g, gs := gcra.Limit{Count: 60, Period: int64(time.Minute), Burst: burst}, gcra.State{}
	b, bs := bucket.Limit{Count: 60, Period: int64(time.Minute), Burst: burst}, bucket.State{}
	return func(now int64) bool {
		ok := g.Wait(gs, 1, now) == 0
		if ok != (b.Wait(bs, 1, now) == 0) {
			panic(fmt.Sprintf("at %d gcra and bucket differ", now))
		}
		if ok {
			gs, bs = g.Take(gs, 1, now), b.Take(bs, 1, now)
		}
		return ok
	}
}

// most is the most that a client gets within any span of a length, if it asks a
// hundred times a second for ten minutes from some time of the minute on.
func most(fresh func() take, spans ...time.Duration) []int {
	best := make([]int, len(spans))
	for _, phase := range []time.Duration{0, 17 * time.Second, 59 * time.Second, 59900 * time.Millisecond} {
		next := fresh()
		begin := int64(time.Hour + phase)
		var at []int64
		for now := begin; now < begin+int64(10*time.Minute); now += int64(10 * time.Millisecond) {
			for next(now) {
				at = append(at, now)
			}
		}
		for i, span := range spans {
			first := 0
			for last := range at {
				for at[last]-at[first] >= int64(span) {
					first++
				}
				best[i] = max(best[i], last-first+1)
			}
		}
	}
	return best
}

// What each algorithm lets through, and what it promises.
func TestAlgorithms(t *testing.T) {
	var b strings.Builder
	b.WriteString("| algorithm | `burst` | in a second | in a minute | in ten minutes |\n|---|---|---|---|---|\n")
	for _, c := range compared {
		got := most(c.fresh, time.Second, time.Minute, 10*time.Minute)
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d |\n", c.algorithm, c.burst, got[0], got[1], got[2])
		switch burst := 0; {
		case c.algorithm == "fixed" && got[1] != 120:
			t.Errorf("across a boundary fixed lets %d through in a minute, want twice the limit", got[1])
		case c.algorithm == "window" && got[1] > 60:
			t.Errorf("window lets %d through in a minute", got[1])
		case c.algorithm == "gcra, bucket":
			_, _ = fmt.Sscan(c.burst, &burst)
			for i, seconds := range []float64{1, 60, 600} {
				if want := burst + int(math.Ceil(seconds)); got[i] > want || got[i] < want-1 {
					t.Errorf("%s with a burst of %d lets %d through in %v s, want burst + rate·t", c.algorithm, burst, got[i], seconds)
				}
			}
		}
	}
	generated(t, limitsPage, "algorithms", []byte(b.String()))
}

var exampleBlock = regexp.MustCompile("(?ms)^```(yaml|sh|http)\n(.*?)^```$")

// The examples of the page: a whole configuration is served, the calls below it
// are made as they stand there, and what comes back has the status, the headers
// and the words that the page shows. … stands for anything.
func TestLimitExamples(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("the examples call with curl, which is not installed")
	}
	page := read(t, limitsPage)
	t.Chdir(t.TempDir())
	calls, answer, api, admin := 0, "", "", ""
	for _, m := range exampleBlock.FindAllSubmatch(page, -1) {
		kind, text := string(m[1]), string(m[2])
		switch {
		case kind == "yaml" && strings.HasPrefix(text, "providers:"):
			api, admin = serve(t, text)
		case kind == "sh" && strings.Contains(text, "curl"):
			answer = call(t, strings.NewReplacer("127.0.0.1:8080", api, "127.0.0.1:8081", admin).Replace(text))
		case kind == "http":
			calls++
			for line := range strings.Lines(text) {
				line = strings.TrimSpace(line)
				want := strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*")
				if line != "" && !regexp.MustCompile(`(?mi)^`+want+`\s*$`).MatchString(answer) {
					t.Errorf("the answer has no line %q:\n%s", line, answer)
				}
			}
		}
	}
	if calls < 6 {
		t.Errorf("%d answers are shown", calls)
	}
}

// serve runs a configuration until the test ends, and says where.
func serve(t *testing.T, yaml string) (api, admin string) {
	t.Helper()
	yaml = "server: {api: {listen: \"127.0.0.1:0\", shutdown_grace: 1s}, admin: {listen: \"127.0.0.1:0\"}}\njournal: {log: {enabled: false}}\nledger: {path: " + t.TempDir() + "/l.db}\n" + yaml
	log, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), app.Options{Source: static.New(limitsPage, []byte(yaml)), Version: "test", Commit: "0000000", LogOutput: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = log.Close()
	})
	return a.API(), a.Admin()
}

// call runs one curl command.
func call(t *testing.T, command string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "sh", "-ec", command).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, command)
	}
	return string(out)
}
