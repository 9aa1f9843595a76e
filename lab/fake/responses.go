package fake

import (
	"encoding/json"
	"strconv"
)

// responses is POST /v1/responses.
func (c *call) responses() {
	c.require("model", "input")
	f := &c.form
	a := c.askOpenAI()
	a.choices, a.limit = 1, f.whole("max_output_tokens", 1)
	c.toolsOpenAI(a, "")
	var format map[string]json.RawMessage
	json.Unmarshal(f.object("text")["format"], &format)
	a.schema = schemaOf(format, "")
	if c.rejected() {
		return
	}
	ans := c.plan(a, "resp_")
	if a.stream {
		c.stream(ans, &responseStream{c: c, ans: ans})
		return
	}
	items := []json.RawMessage{}
	for i := range ans.blocks {
		b := &ans.blocks[i]
		items = append(items, ans.item(b, i, []byte(b.text(c.cfg.BytesPerToken)), ans.ending()))
	}
	c.replyJSON(c.response(ans, ans.ending(), items), ans.usage.output)
}

type responseUsage struct {
	InputTokens  int `json:"input_tokens"`
	InputDetails struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens  int `json:"output_tokens"`
	OutputDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int `json:"total_tokens"`
}

type responseBody struct {
	ID                 string            `json:"id"`
	Object             string            `json:"object"`
	CreatedAt          int64             `json:"created_at"`
	Status             string            `json:"status"`
	Background         bool              `json:"background"`
	Error              *struct{}         `json:"error"`
	IncompleteDetails  map[string]string `json:"incomplete_details"`
	Instructions       json.RawMessage   `json:"instructions"`
	MaxOutputTokens    json.RawMessage   `json:"max_output_tokens"`
	Model              string            `json:"model"`
	Output             []json.RawMessage `json:"output"`
	ParallelToolCalls  bool              `json:"parallel_tool_calls"`
	PreviousResponseID json.RawMessage   `json:"previous_response_id"`
	Reasoning          json.RawMessage   `json:"reasoning"`
	ServiceTier        string            `json:"service_tier"`
	Store              json.RawMessage   `json:"store"`
	Temperature        json.RawMessage   `json:"temperature"`
	Text               json.RawMessage   `json:"text"`
	ToolChoice         json.RawMessage   `json:"tool_choice"`
	Tools              json.RawMessage   `json:"tools"`
	TopP               json.RawMessage   `json:"top_p"`
	Truncation         string            `json:"truncation"`
	Usage              *responseUsage    `json:"usage"`
	User               *string           `json:"user"`
	Metadata           json.RawMessage   `json:"metadata"`
}

// ending is the status that the response ends with.
func (ans *answer) ending() string {
	if ans.cut {
		return "incomplete"
	}
	return "completed"
}

// response is the response object at some status; only an ended one reports
// usage.
func (c *call) response(ans *answer, status string, items []json.RawMessage) responseBody {
	field := func(name, other string) json.RawMessage {
		if c.form.has(name) {
			return c.form.fields[name]
		}
		return json.RawMessage(other)
	}
	r := responseBody{
		ID: ans.id, Object: "response", CreatedAt: ans.created, Status: status, Model: ans.model, Output: items,
		Instructions: field("instructions", "null"), MaxOutputTokens: field("max_output_tokens", "null"),
		ParallelToolCalls: true, PreviousResponseID: field("previous_response_id", "null"),
		Reasoning: field("reasoning", `{"effort":null,"summary":null}`), ServiceTier: "default", Store: field("store", "true"),
		Temperature: field("temperature", "1.0"), Text: field("text", `{"format":{"type":"text"},"verbosity":"medium"}`),
		ToolChoice: field("tool_choice", `"auto"`), Tools: field("tools", "[]"), TopP: field("top_p", "1.0"),
		Truncation: "disabled", Metadata: field("metadata", "{}"),
	}
	if status == "in_progress" {
		return r
	}
	if ans.cut {
		r.IncompleteDetails = map[string]string{"reason": "max_output_tokens"}
	}
	if u := ans.usage; !u.missing {
		r.Usage = &responseUsage{InputTokens: u.prompt, OutputTokens: u.output, TotalTokens: u.prompt + u.output}
		r.Usage.InputDetails.CachedTokens = u.cached
		r.Usage.OutputDetails.ReasoningTokens = u.reasoning
	}
	return r
}

// itemID is the id of the answer's item number i.
func (ans *answer) itemID(b *block, i int) string {
	kind := "msg_"
	if b.kind == toolCall {
		kind = "fc_"
	}
	return kind + ans.id[len("resp_"):] + strconv.Itoa(i)
}

// item is a block as an output item; without a text it has just begun.
func (ans *answer) item(blk *block, i int, text []byte, status string) json.RawMessage {
	b := append([]byte(`{"id":"`), ans.itemID(blk, i)...)
	if blk.kind == toolCall {
		b = append(append(b, `","type":"function_call","status":"`...), status...)
		b = appendQuoted(append(b, `","arguments":`...), text)
		b = append(append(b, `,"call_id":"call_`...), blk.id...)
		return append(appendQuoted(append(b, `","name":`...), blk.name), '}')
	}
	b = append(append(b, `","type":"message","status":"`...), status...)
	b = append(b, `","role":"assistant","content":[`...)
	if text != nil {
		b = appendPart(b, text)
	}
	return append(b, "]}"...)
}

func appendPart(b, text []byte) []byte {
	b = append(b, `{"type":"output_text","annotations":[],"logprobs":[],"text":`...)
	return append(appendQuoted(b, text), '}')
}

// responseStream encodes the typed events of a response.
type responseStream struct {
	c     *call
	ans   *answer
	seq   int // sequence_number of the next event
	index int // output_index of the block
	where string
	text  []byte // of the block so far
	items []json.RawMessage
}

// event begins an event of a type; the members that follow close with send.
func (s *responseStream) event(e *events, name string) []byte {
	b := append(e.begin(name), `{"type":"`...)
	b = strconv.AppendInt(append(append(b, name...), `","sequence_number":`...), int64(s.seq), 10)
	s.seq++
	return append(b, ',')
}

func (s *responseStream) send(e *events, b []byte) { e.end(append(b, '}')) }

// whole sends an event that carries the response object.
func (s *responseStream) whole(e *events, name, status string) {
	items := s.items
	if items == nil {
		items = []json.RawMessage{}
	}
	r, _ := json.Marshal(s.c.response(s.ans, status, items))
	s.send(e, append(append(s.event(e, name), `"response":`...), r...))
}

func (s *responseStream) start(e *events) {
	s.whole(e, "response.created", "in_progress")
	s.whole(e, "response.in_progress", "in_progress")
}

// itemEvent sends an event that carries the item itself.
func (s *responseStream) itemEvent(e *events, name string, item json.RawMessage) {
	b := strconv.AppendInt(append(s.event(e, name), `"output_index":`...), int64(s.index), 10)
	s.send(e, append(append(b, `,"item":`...), item...))
}

// partEvent begins an event about a place within the item.
func (s *responseStream) partEvent(e *events, name string) []byte {
	return append(s.event(e, name), s.where...)
}

func (s *responseStream) open(e *events, blk *block) {
	s.text = s.text[:0]
	s.where = `"item_id":"` + s.ans.itemID(blk, s.index) + `","output_index":` + strconv.Itoa(s.index)
	s.itemEvent(e, "response.output_item.added", s.ans.item(blk, s.index, nil, "in_progress"))
	if blk.kind != toolCall {
		s.where += `,"content_index":0`
		b := append(s.partEvent(e, "response.content_part.added"), `,"part":`...)
		s.send(e, appendPart(b, nil))
	}
}

func (s *responseStream) token(e *events, blk *block, tok []byte) {
	s.text = append(s.text, tok...)
	name, more := "response.output_text.delta", `,"logprobs":[]`
	if blk.kind == toolCall {
		name, more = "response.function_call_arguments.delta", ""
	}
	b := appendQuoted(append(s.partEvent(e, name), `,"delta":`...), tok)
	s.send(e, append(b, more...))
}

func (s *responseStream) close(e *events, blk *block) {
	if blk.kind == toolCall {
		b := appendQuoted(append(s.partEvent(e, "response.function_call_arguments.done"), `,"arguments":`...), s.text)
		s.send(e, b)
	} else {
		b := appendQuoted(append(s.partEvent(e, "response.output_text.done"), `,"text":`...), s.text)
		s.send(e, append(b, `,"logprobs":[]`...))
		s.send(e, appendPart(append(s.partEvent(e, "response.content_part.done"), `,"part":`...), s.text))
	}
	if s.text == nil {
		s.text = []byte{}
	}
	item := s.ans.item(blk, s.index, s.text, s.ans.ending())
	s.items = append(s.items, item)
	s.itemEvent(e, "response.output_item.done", item)
	s.index++
}

// finish says nothing: the last event tells the ending and the usage.
func (s *responseStream) finish(*events) {}

func (s *responseStream) done(e *events) {
	s.whole(e, "response."+s.ans.ending(), s.ans.ending())
}

func (s *responseStream) fail(e *events) {
	b := appendQuoted(append(s.event(e, "error"), `"code":"server_error","message":`...), failures[500].message)
	s.send(e, append(b, `,"param":null`...))
}
