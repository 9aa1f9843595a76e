package trim

import (
	"cmp"
	"slices"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// documentTokens is how long a text must be to be cut as a document, and what a
// document keeps as long as only documents are cut.
const documentTokens = 512

// planner decides what goes. What it has counted serves every further plan.
type planner struct {
	*conversation
	gauge  gauge
	buffer []byte // an unescaped text
}

// plan decides how the prompt gets shorter by over tokens, and returns what it
// is still over: more than 0 if everything that may go is gone, and less if more
// went than was asked for.
func (p *planner) plan(over float64) float64 {
	for i := range p.turns {
		p.turns[i].dropped = false
	}
	for i := range p.texts {
		p.texts[i].cut = false
	}
	over = p.dropTurns(over)
	if over > 0 {
		over = p.cutDocuments(over)
	}
	if over > 0 {
		over = p.cutTexts(over)
	}
	return over
}

// dropTurns drops the oldest turns, and returns what is still over.
func (p *planner) dropTurns(over float64) float64 {
	for i := range p.older() {
		if over <= 0 {
			break
		}
		t := &p.turns[i]
		if t.pinned {
			continue
		}
		p.countTurn(t)
		if t.tokens > 0 {
			t.dropped = true
			over -= t.tokens
		}
	}
	return over
}

func (p *planner) countTurn(t *turn) {
	if t.counted {
		return
	}
	t.counted = true
	p.runs(t, func(from, to int) {
		t.tokens += p.gauge.messages(p.key, p.raw[p.messages[from].at.Start:p.messages[to-1].at.End])
	})
}

// cutDocuments cuts the long texts of the kept turns, the longest first.
func (p *planner) cutDocuments(over float64) float64 {
	var documents []*text
	for _, t := range p.keptTexts() {
		// A token has at least one byte.
		if t.at.End-t.at.Start-2 <= documentTokens {
			continue
		}
		if p.countText(t); t.tokens > documentTokens {
			documents = append(documents, t)
		}
	}
	slices.SortStableFunc(documents, func(a, b *text) int { return cmp.Compare(b.tokens, a.tokens) })
	for _, t := range documents {
		if over <= 0 {
			break
		}
		over = p.cutText(t, over, documentTokens)
	}
	return over
}

// cutTexts cuts all texts of the kept turns, the oldest first, but those of
// the latest user message last.
func (p *planner) cutTexts(over float64) float64 {
	last := p.lastUser()
	kept := p.keptTexts()
	for _, latest := range [...]bool{false, true} {
		for _, t := range kept {
			if over > 0 && (t.message == last) == latest {
				p.countText(t)
				over = p.cutText(t, over, 0)
			}
		}
	}
	return over
}

func (p *planner) keptTexts() (kept []*text) {
	at := 0
	for i := range p.texts {
		t := &p.texts[i]
		for p.turns[at].to <= t.message {
			at++
		}
		if !p.turns[at].dropped {
			kept = append(kept, t)
		}
	}
	return kept
}

func (p *planner) countText(t *text) {
	if !t.counted {
		t.counted = true
		t.tokens, t.rule = p.gauge.text(p.unquote(t.at))
	}
}

// unquote is the text of a string, valid until the next call.
func (p *planner) unquote(v jsonspan.Value) []byte {
	p.buffer, _ = jsonspan.Unquote(p.buffer[:0], p.raw, v)
	return p.buffer
}

// cutText takes up to over tokens off the tail of a text, of which at least
// so many are kept, and returns what is still over.
func (p *planner) cutText(t *text, over, least float64) float64 {
	has, body := t.tokens, p.unquote(t.at)
	if t.cut {
		has, body = t.kept, body[:t.keep]
	}
	keep, kept := shorten(body, &t.rule, max(least, has-over))
	if keep >= len(body) || kept > has {
		return over
	}
	t.cut, t.keep, t.kept = true, keep, kept
	return over - (has - kept)
}

// edits are the plan as deletions, in order.
func (p *planner) edits() (edits []llm.Edit) {
	for i := range p.turns {
		if t := &p.turns[i]; t.dropped {
			// A dropped turn is never the last, so the comma behind a message and
			// the next message's beginning are there.
			p.runs(t, func(from, to int) {
				edits = join(edits, llm.Span{Start: p.messages[from].at.Start, End: p.messages[to].at.Start})
			})
		}
	}
	for i := range p.texts {
		if t := &p.texts[i]; t.cut {
			inside := p.raw[t.at.Start+1 : t.at.End-1]
			edits = append(edits, llm.Edit{Span: llm.Span{Start: t.at.Start + 1 + written(inside, t.keep), End: t.at.End - 1}})
		}
	}
	return wire.InOrder(edits)
}

// join adds a deletion, to the last one if it goes on there.
func join(edits []llm.Edit, at llm.Span) []llm.Edit {
	if n := len(edits); n > 0 && edits[n-1].End == at.Start {
		edits[n-1].End = at.End
		return edits
	}
	return append(edits, llm.Edit{Span: at})
}

// dropped is how many turns the plan drops.
func (p *planner) dropped() (n int) {
	for i := range p.turns {
		if p.turns[i].dropped {
			n++
		}
	}
	return n
}

// cuts is how many messages have a text that the plan cuts.
func (p *planner) cuts() (n int) {
	last := -1
	for i := range p.texts {
		if t := &p.texts[i]; t.cut && t.message != last {
			n, last = n+1, t.message
		}
	}
	return n
}
