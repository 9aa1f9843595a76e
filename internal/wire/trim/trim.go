// Package trim shortens a conversation that is too long for its model, by a
// fixed decision tree, so that a call is answered with what matters most of it
// and not refused:
//
//  1. system and developer messages are never touched;
//  2. turns older than the latest three are dropped, the oldest first, and no
//     more than needed;
//  3. long documents lose their tail, the longest document first;
//  4. at last, all other texts lose their tail, the oldest first and the latest
//     user message last.
//
// A turn is a user message with all that follows it until the next one; a tool
// call and its results are never parted. Texts are cut where a sentence ends,
// else at white space, and never within a character. What is not understood is
// left alone, and every byte outside of the edits stays as it came.
//
// It is a pure decision over the bytes of one request body. The hallway uses
// it, between counting a prompt and sending it.
package trim

import (
	"strconv"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/tokens"
)

// ExactBytes is how many bytes of a prompt are counted exactly, where the
// model's encoding is known; what is longer is counted by samples. It is the
// budget that tokens.Prompt has to be given for the counts of a Report.
const ExactBytes = 256 << 10

// mostRounds bounds how often the edits are made anew because the shorter body
// turned out to be still too long. Counts of known encodings add up, so that
// the first round does; estimates of parts do not add up to that of the whole.
const mostRounds = 3

// Report is what the edits do.
type Report struct {
	From, To int  // the prompt's tokens before and after, as tokens.Prompt counts
	Turns    int  // turns dropped; what stands before the first user message is one, too
	Cut      int  // messages of which a text was cut
	Fits     bool // whether To is within the budget
}

// Header is the report as the value of a response's header field:
// "from=8192;to=4096", in tokens.
func (r Report) Header() string {
	return "from=" + strconv.Itoa(r.From) + ";to=" + strconv.Itoa(r.To)
}

// Edits finds what to take out of the JSON body raw so that its prompt has at
// most budget tokens, or comes as near to that as the rules allow. The edits are
// deletions, in order, do not overlap and leave valid JSON; there are none
// if the prompt fits as it is, if the operation has no conversation or the
// dialect is another than OpenAI's or Anthropic's, or if the body is not what
// it should be. cal is what has been learnt of the model's tokenizer, and s may
// be used again afterwards; the calibration and the scratch are those of
// tokens.Prompt. raw is not kept.
//
// Beside the edits, it takes memory for the list of messages and one copy of
// the shortened body, and time in proportion to the body's length: that of a
// few counts of it.
func Edits(raw []byte, dialect llm.Dialect, op llm.Operation, model string, cal tokens.Calibration, budget int, s *tokens.Scratch) ([]llm.Edit, Report) {
	count := func(body []byte, exact int) tokens.Count { return s.Prompt(body, dialect, op, model, cal, exact) }
	whole := count(raw, ExactBytes)
	report := Report{From: whole.Tokens, To: whole.Tokens, Fits: whole.Tokens <= budget}
	if report.Fits {
		return nil, report
	}
	talk, ok := read(raw, dialect, op)
	if !ok {
		return nil, report
	}
	p := planner{conversation: talk, gauge: newGauge(model, cal, whole.Text.Class, count)}
	var edits []llm.Edit
	var body []byte
	target := float64(budget)
	for range mostRounds {
		left := p.plan(float64(whole.Tokens) - target)
		if edits = p.edits(); len(edits) == 0 {
			break
		}
		body = wire.Apply(body[:0], raw, edits)
		report.To = count(body, ExactBytes).Tokens
		report.Turns, report.Cut = p.dropped(), p.cuts()
		report.Fits = report.To <= budget
		if report.Fits || left > 0 {
			break
		}
		// What was planned is target+left. The next plan has to go below that by
		// what is missing, and a little more, for it will be off as well.
		missing := float64(report.To - budget)
		target += left - missing - max(1, missing/8)
	}
	return edits, report
}
