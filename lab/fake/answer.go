package fake

import (
	"encoding/json"
	"strings"
)

// tool is a function that a request offers.
type tool struct {
	name   string
	schema json.RawMessage
}

// ask is what a request for text wants, in any dialect.
type ask struct {
	stream  bool
	usage   bool // the stream's last chunk shall report usage
	choices int
	limit   int // of answer tokens, 0 for none
	tools   []tool
	insist  string          // "" if text will do, "*" for any tool, else a tool's name
	forbid  bool            // no tool may be called
	schema  json.RawMessage // the answer is JSON of this schema
	think   int             // tokens of visible reasoning
}

// kind is what a block of an answer is.
type kind uint8

const (
	text kind = iota
	thinking
	toolCall
)

// block is one part of an answer: a text, a thought or a tool call.
type block struct {
	kind      kind
	choice    int
	call      int // number of this tool call within its choice
	id, name  string
	size      int      // in tokens
	fragments []string // of JSON; texts are made while they are sent
	seed      uint64
}

// answer is an answer before it is put into a dialect.
type answer struct {
	id      string
	created int64
	model   string
	blocks  []block
	cut     bool // by the request's limit
	called  bool // ends in tool calls
	usage   tally
}

// tally is token use.
type tally struct {
	prompt, cached, output, reasoning int
	missing                           bool // fault: no usage is reported
}

// epoch is when simulated answers are "created": a fixed day, for determinism.
const epoch = 1767225600

// plan decides the whole answer; only the text of its tokens is made later.
func (c *call) plan(a *ask, idPrefix string) *answer {
	ans := &answer{id: idPrefix + letters(c.rng, 29), created: epoch + int64(c.rng.IntN(86400)), model: c.model}
	size := c.cfg.Tokens.Int(c.rng)
	hidden := c.cfg.Usage.Reasoning.Int(c.rng)
	u := tally{prompt: c.form.promptTokens(), reasoning: hidden + a.think}
	u.cached = int(float64(u.prompt) * c.cfg.Usage.CachedShare)
	for choice := range a.choices {
		left := a.limit
		for _, b := range c.blocks(a, choice, size) {
			if a.limit > 0 && b.kind != thinking {
				if b.size > left {
					b.size, ans.cut = left, true
					b.fragments = b.fragments[:min(left, len(b.fragments))]
				}
				left -= b.size
			}
			ans.called = ans.called || b.kind == toolCall
			ans.blocks = append(ans.blocks, b)
			if b.kind != thinking {
				u.output += b.size
			}
		}
	}
	u.output += u.reasoning
	ans.usage = c.misreport(u)
	c.schedule(u.prompt-u.cached, hidden)
	return ans
}

// blocks are the parts of one choice.
func (c *call) blocks(a *ask, choice, size int) []block {
	var out []block
	if a.think > 0 {
		out = append(out, block{kind: thinking, choice: choice, size: a.think, seed: c.rng.Uint64()})
	}
	if calls := c.callTools(a, choice); len(calls) > 0 {
		return append(out, calls...)
	}
	b := block{kind: text, choice: choice, size: size, seed: c.rng.Uint64()}
	if a.schema != nil {
		b.fragments = pieces(string(example(a.schema, c.rng, 0)))
		b.size = len(b.fragments)
	}
	return append(out, b)
}

// callTools are the tool calls of one choice, if it shall have any.
func (c *call) callTools(a *ask, choice int) (out []block) {
	n := c.cfg.ToolCalls
	if n == 0 && a.insist != "" {
		n = 1
	}
	if len(a.tools) == 0 || a.forbid {
		n = 0
	}
	for i := range n {
		t := a.tools[(i+c.rng.IntN(len(a.tools)))%len(a.tools)]
		for _, named := range a.tools {
			if named.name == a.insist {
				t = named
			}
		}
		args := pieces(string(example(t.schema, c.rng, 0)))
		out = append(out, block{
			kind: toolCall, choice: choice, call: i, id: letters(c.rng, 24), name: t.name, size: len(args), fragments: args,
		})
	}
	return out
}

// misreport applies the faults of usage.
func (c *call) misreport(u tally) tally {
	switch c.cfg.Fault {
	case faultWrongUsage:
		f := c.cfg.Usage.Factor
		u.prompt, u.output = int(float64(u.prompt)*f), int(float64(u.output)*f)
	case faultNoUsage:
		u.missing = true
	}
	return u
}

// text is the whole content of a block.
func (b *block) text(size int) string {
	if b.fragments != nil || b.kind == toolCall {
		return strings.Join(b.fragments, "")
	}
	p := newProse(b.seed, size)
	var out []byte
	for range b.size {
		out = p.token(out)
	}
	return string(out)
}

// hasTool checks that the tool a request insists on is offered.
func (a *ask) hasTool() bool {
	for _, t := range a.tools {
		if t.name == a.insist {
			return true
		}
	}
	return a.insist == "" || a.insist == "*" && len(a.tools) > 0
}
