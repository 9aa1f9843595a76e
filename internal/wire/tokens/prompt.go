package tokens

import (
	"bytes"
	"math"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// Count is how many input tokens a request has.
type Count struct {
	// Tokens is all of them, images included.
	Tokens int
	// Exact is whether every part was counted by an exact encoding and
	// published rules: no sampling, no estimate, no approximate rule (tools,
	// audio, files), no image of unknown size, nothing that only the provider
	// has.
	Exact bool
	// Images is the number of images, ImageTokens what they are part of Tokens.
	Images      int
	ImageTokens int
	// Text is the estimate of everything but the images, before calibration.
	// What the provider reports less ImageTokens is what Calibration.Learn
	// compares it with. It is zero where the model's encoding is known.
	Text Estimate
}

// Prompt is how many input tokens the model will see for a request body, by the
// rules of its dialect and operation. See Scratch.Prompt.
func Prompt(raw []byte, dialect llm.Dialect, op llm.Operation, model string, cal Calibration, budget int) Count {
	var s Scratch
	return s.Prompt(raw, dialect, op, model, cal, budget)
}

// Prompt is how many input tokens the model will see for the JSON body raw.
//
// Where the model's encoding is known its text is counted exactly up to budget
// bytes, and beyond that by samples and estimates (see CountWithin); for all
// other models it is estimated and multiplied by cal. Around the text, the
// vendors' rules count: for OpenAI's chat 3 tokens a message, 1 a name and 3 for
// the answer's beginning, images by tiles or patches, tools by the formula of
// OpenAI's cookbook; for Anthropic the tools' system prompt, images by area.
//
// It never fails. A body that is not a JSON object counts as text, and so does
// a value where the dialect has another type.
func (s *Scratch) Prompt(raw []byte, dialect llm.Dialect, op llm.Operation, model string, cal Calibration, budget int) Count {
	c := counter{scratch: s, raw: raw, dialect: dialect, model: model, family: FamilyOf(model), watched: len(raw) > budget}
	c.encoding = c.family.Encoding()
	c.begin(budget)
	if !c.request(op) {
		c.begin(budget)
		c.exact = false
		c.text(raw)
	}
	s.trim()
	return c.result(cal)
}

// counter is one walk over a request.
type counter struct {
	scratch  *Scratch
	raw      []byte
	at       jsonspan.Cursor // over raw
	dialect  llm.Dialect
	model    string
	family   Family
	encoding *Encoding // nil where it is not known
	watched  bool      // the budget may not do, so learn from what is counted
	depth    int       // of schemas and of blocks in blocks
	tally
}

// tally is what a counter has found.
type tally struct {
	left  int // bytes that may still be counted exactly
	exact bool

	tokens int   // counted, and of the rules
	meter  meter // of what is estimated
	// What was counted and estimated both.
	actual, estimated float64

	images, imageTokens int
}

// begin forgets what has been found.
func (c *counter) begin(budget int) {
	whole := math.MaxInt
	switch {
	case !c.scratch.Parts:
	case c.encoding != nil:
		whole = wholeCorrected
	default:
		whole = wholeMeasured
	}
	c.tally = tally{left: budget, exact: true, meter: meter{weights: weightsOf(c.family), whole: whole}}
}

// result puts together what the walk has found.
func (c *counter) result(cal Calibration) Count {
	out := Count{Exact: c.exact, Images: c.images, ImageTokens: c.imageTokens}
	estimated, counts := c.meter.result()
	rest := Estimate{Tokens: estimated * factorOf(c.family, &counts), Class: counts.dominant()}
	if c.encoding != nil {
		out.Tokens = c.tokens + rounded(rest.Tokens*ratio(c.actual, c.estimated)) + c.imageTokens
		return out
	}
	rest.Tokens += float64(c.tokens)
	out.Exact, out.Text = false, rest
	out.Tokens = rounded(cal.Apply(rest)) + c.imageTokens
	return out
}

// request walks the body; false means that it is not what the operation's
// bodies are.
func (c *counter) request(op llm.Operation) bool {
	kind := c.bodyOf(op)
	switch kind {
	case noBody:
		return true
	case openAIChat, openAIResponses:
		c.tokens += replyTokens
	}
	c.at = jsonspan.Walk(c.raw, jsonspan.DefaultDepth)
	c.at.By(&c.scratch.long)
	if !c.at.Open(jsonspan.KindObject) {
		return false
	}
	for c.at.Member() {
		c.member(kind, c.at.Key())
	}
	return c.at.End() == nil
}

// body is whose fields a request's body has.
type body uint8

const (
	openAIChat body = iota
	openAIResponses
	anthropicMessages
	geminiContents
	bareInput // a text by itself
	noBody    // no text
)

func (c *counter) bodyOf(op llm.Operation) body {
	switch op {
	case llm.Transcriptions, llm.ListModels, llm.GetModel:
		return noBody
	case llm.Completion, llm.Embeddings, llm.Moderations, llm.Images, llm.Speech:
		return bareInput
	case llm.Responses:
		return openAIResponses
	}
	switch c.dialect {
	case llm.Anthropic:
		return anthropicMessages
	case llm.Gemini:
		return geminiContents
	}
	return openAIChat
}

// member counts one field of the body.
func (c *counter) member(of body, key []byte) {
	switch of {
	case openAIChat:
		c.chatMember(key)
	case openAIResponses:
		c.responsesMember(key)
	case anthropicMessages:
		c.anthropicMember(key)
	case geminiContents:
		c.geminiMember(key)
	case bareInput:
		c.inputMember(key)
	}
}

// text counts a text.
func (c *counter) text(b []byte) {
	switch {
	case len(b) == 0:
	case c.encoding == nil:
		c.meter.add(b)
	case len(b) <= c.left:
		n := c.encoding.count(b, c.scratch)
		c.tokens += n
		c.left -= len(b)
		if c.watched {
			c.learn(float64(n), EstimateOf(c.family, b).Tokens)
		}
	default:
		c.exact = false
		share := c.left / 2 // the other half is for what follows
		actual, estimated := c.encoding.sample(b, share, c.scratch)
		if estimated > 0 {
			c.left -= share
			c.learn(actual, estimated)
		}
		c.meter.add(b)
	}
}

func (c *counter) learn(actual, estimated float64) {
	c.actual += actual
	c.estimated += estimated
}

// in and elements look into a value that has been read.
func (c *counter) in(v jsonspan.Value) jsonspan.Members {
	m := jsonspan.In(c.raw, v)
	m.By(&c.scratch.long)
	return m
}

func (c *counter) elements(v jsonspan.Value) jsonspan.Elems {
	e := jsonspan.Elements(c.raw, v)
	e.By(&c.scratch.long)
	return e
}

// here counts the value at hand as text.
func (c *counter) here() { c.value(c.at.Value()) }

// value counts a value as text: a string without its quotes and escapes, null
// as nothing, anything else as it is written.
func (c *counter) value(v jsonspan.Value) {
	switch v.Kind {
	case jsonspan.KindString:
		if inside := c.raw[v.Start+1 : v.End-1]; c.encoding == nil && c.meter.beyond(len(inside)) {
			c.meter.addChunks(inside, true)
			return
		}
		c.text(c.str(v))
	case jsonspan.KindNull, 0:
	default:
		c.text(v.Of(c.raw))
	}
}

// str is the text of a string: a part of the body, or, if it has escapes, of
// the scratch until the next call. Of other values it is empty.
func (c *counter) str(v jsonspan.Value) []byte {
	if v.Kind != jsonspan.KindString {
		return nil
	}
	body := c.raw[v.Start+1 : v.End-1]
	if bytes.IndexByte(body, '\\') < 0 {
		return body
	}
	c.scratch.text, _ = jsonspan.Unquote(c.scratch.text[:0], c.raw, v)
	return c.scratch.text
}

// is is whether v is the given string, written without escapes.
func (c *counter) is(v jsonspan.Value, s string) bool {
	return v.Kind == jsonspan.KindString && string(c.raw[v.Start+1:v.End-1]) == s
}
