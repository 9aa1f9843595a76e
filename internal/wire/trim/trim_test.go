package trim

import (
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/tokens"
	"github.com/headgate-ai/headgate/lab/race"
)

func promptOf(raw []byte, d llm.Dialect, op llm.Operation, model string, cal tokens.Calibration) int {
	return tokens.Prompt(raw, d, op, model, cal, ExactBytes).Tokens
}

// checkEdits makes the edits, and holds what is true of all of them.
func checkEdits(t *testing.T, raw []byte, d llm.Dialect, op llm.Operation, model string, cal tokens.Calibration, budget int) ([]byte, Report) {
	t.Helper()
	var s tokens.Scratch
	edits, report := Edits(raw, d, op, model, cal, budget, &s)
	at := 0
	for _, e := range edits {
		if e.Start < at || e.Len() <= 0 || e.End > len(raw) || len(e.New) > 0 {
			t.Fatalf("the edits are %v", edits)
		}
		at = e.End
	}
	out := wire.Apply(nil, raw, edits)
	want := Report{
		From: promptOf(raw, d, op, model, cal), To: promptOf(out, d, op, model, cal),
		Turns: report.Turns, Cut: report.Cut,
	}
	want.Fits = want.To <= budget
	if report != want || want.From <= budget && len(edits) > 0 || (len(edits) > 0) != (report.Turns+report.Cut > 0) {
		t.Fatalf("budget %d: %+v, want %+v, with %d edits of\n%s", budget, report, want, len(edits), raw)
	}
	return out, report
}

func TestRandomConversations(t *testing.T) {
	var fits, dropped, cut, short int
	for seed := range int64(600 / race.Slower) {
		r := &talk{Rand: rand.New(rand.NewSource(seed)), dialect: llm.OpenAI, op: llm.Chat}
		switch seed % 3 {
		case 1:
			r.dialect = llm.Anthropic
		case 2:
			r.op = llm.Responses
		}
		model, cal := "gpt-4o", tokens.Calibration{}
		if seed%5 == 0 {
			model = "claude-sonnet-4-5"
			cal = cal.Learn(150, tokens.Estimate{Tokens: 100}).Learn(80, tokens.Estimate{Tokens: 100, Class: tokens.ClassCode})
		}
		raw := r.body()
		budget := promptOf(raw, r.dialect, r.op, model, cal) * (1 + r.Intn(11)) / 10
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			out, report := checkEdits(t, raw, r.dialect, r.op, model, cal, budget)
			checkRules(t, raw, out, r.op, report)
			count := func(list []any) int {
				return promptOf(withList(t, raw, r.op, list), r.dialect, r.op, model, cal)
			}
			checkNeed(t, decode(t, raw)[keyOf(r.op)].([]any), report, budget, model == "gpt-4o", count)
			if report.Fits {
				fits++
			} else {
				short++
			}
			dropped += min(report.Turns, 1)
			cut += min(report.Cut, 1)
		})
	}
	t.Logf("%d fit, %d do not; in %d turns are dropped, in %d texts cut", fits, short, dropped, cut)
	if fits < 200/race.Slower || short < 20/race.Slower || dropped < 100/race.Slower || cut < 100/race.Slower {
		t.Error("the conversations are too much of one kind")
	}
}

// checkRules compares the messages before and after.
func checkRules(t *testing.T, raw, out []byte, op llm.Operation, report Report) {
	t.Helper()
	before, after := decode(t, raw), decode(t, out)
	old, kept := before[keyOf(op)].([]any), after[keyOf(op)].([]any)
	delete(before, keyOf(op))
	delete(after, keyOf(op))
	if !reflect.DeepEqual(before, after) {
		t.Fatal("something beside the messages has changed")
	}
	begins := starts(old)
	latest := begins[max(0, len(begins)-3)]
	next, cut, first := 0, 0, true
	open := map[string]bool{}
	for i, v := range old {
		was := v.(object)
		if next >= len(kept) || kept[next].(object)["x-number"] != was["x-number"] {
			if isSystem(was) || i >= latest {
				t.Fatalf("message %d is gone: %v", i, was)
			}
			continue
		}
		is := kept[next].(object)
		next++
		n := checkSame(t, fmt.Sprint("message ", i), was, is)
		cut += min(n, 1)
		if isSystem(is) {
			if n > 0 {
				t.Fatalf("message %d, a system message, was cut", i)
			}
			continue
		}
		if first && report.Turns > 0 && is["role"] != "user" {
			t.Fatalf("the first message is now %v", is)
		}
		first = false
		for _, id := range ids(is, true) {
			if !open[id] {
				t.Fatalf("message %d has the result of a call that is gone", i)
			}
		}
		for _, id := range ids(is, false) {
			open[id] = true
		}
	}
	if next != len(kept) || cut != report.Cut {
		t.Fatalf("%d of %d messages found, %d cut; %+v", next, len(kept), cut, report)
	}
}

// checkNeed holds that no more was done than needed, in the order of the
// rules, and that nothing was left undone. exact is whether counts add up.
func checkNeed(t *testing.T, list []any, report Report, budget int, exact bool, count func([]any) int) {
	t.Helper()
	begins := starts(list)
	latest := begins[max(0, len(begins)-3)]
	older := append([]int{0}, begins...) // where what is dropped may end
	for len(without(list, older[0])) > 0 && len(older) > 1 && len(without(list, older[0])) == len(without(list, older[1])) {
		older = older[1:] // nothing but system messages
	}
	most := 0
	for most+1 < len(older) && older[most+1] <= latest {
		most++
	}
	floor := count(shortest(without(list, older[most])).([]any))
	if !exact {
		floor += floor/10 + 20
	}
	if floor <= budget && !report.Fits {
		t.Fatalf("%+v, and %d are possible where %d are asked for", report, floor, budget)
	}
	if !exact {
		return
	}
	if report.Cut > 0 && report.Turns != most {
		t.Fatalf("%+v: texts were cut, and %d turns could be dropped", report, most)
	}
	if report.Cut > 0 && count(without(list, older[most])) <= budget {
		t.Fatalf("%+v: to drop turns would have done", report)
	}
	if report.Turns > 0 && count(without(list, older[report.Turns-1])) <= budget {
		t.Fatalf("%+v: one turn less would have done", report)
	}
}

// Where a prompt is too long to be counted exactly, and where calibrations of
// the classes differ as much as they can, it fits all the same.
func TestEstimatesFit(t *testing.T) {
	far := tokens.Calibration{}.Learn(400, tokens.Estimate{Tokens: 100}).Learn(25, tokens.Estimate{Tokens: 100, Class: tokens.ClassCode})
	for _, c := range []struct {
		model string
		cal   tokens.Calibration
		sizes []int // of the texts, in sentences
	}{
		{"gpt-4o", tokens.Calibration{}, []int{30_000}},
		{"gpt-4", tokens.Calibration{}, []int{9000, 10, 9000, 10, 9000, 10}},
		{"claude-sonnet-4-5", far, []int{2000}},
		{"gemini-2.5-pro", far, []int{300, 20, 300, 20, 300, 20, 300, 20, 300}},
	} {
		r := &talk{Rand: rand.New(rand.NewSource(3)), dialect: llm.OpenAI, op: llm.Chat}
		for i, n := range c.sizes {
			var text strings.Builder
			for k := range n {
				text.WriteString(sentences[(k*7+k/100)%len(sentences)])
			}
			r.add(object{"role": []string{"user", "assistant"}[i%2], "content": text.String()})
		}
		raw := encode(t, object{"messages": r.list})
		whole := promptOf(raw, r.dialect, r.op, c.model, c.cal)
		for _, part := range []int{50, 2, 95, 10}[:max(2, 4/race.Slower)] {
			_, report := checkEdits(t, raw, r.dialect, r.op, c.model, c.cal, whole*part/100)
			if !report.Fits || part > 2 && report.To < whole*part/100*7/10 {
				t.Errorf("%s, %d %% of %v: %+v", c.model, part, c.sizes, report)
			}
		}
	}
}
