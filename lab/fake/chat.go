package fake

import (
	"encoding/json"
	"strconv"
)

// chat is POST /v1/chat/completions.
func (c *call) chat() {
	c.require("model", "messages")
	f := &c.form
	if messages := f.list("messages"); f.has("messages") && len(messages) == 0 {
		f.reject("messages", "empty_array", "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	a := c.askOpenAI()
	a.limit = max(f.whole("max_tokens", 1), f.whole("max_completion_tokens", 1))
	c.toolsOpenAI(a, "function")
	a.schema = schemaOf(f.object("response_format"), "json_schema")
	if c.rejected() {
		return
	}
	ans := c.plan(a, "chatcmpl-")
	if a.stream {
		c.stream(ans, newChatStream(c, ans, a))
		return
	}
	c.replyJSON(c.chatCompletion(ans, a), ans.usage.output)
}

// askOpenAI reads what OpenAI's endpoints for text have in common.
func (c *call) askOpenAI() *ask {
	f := &c.form
	a := &ask{stream: f.flag("stream") && c.cfg.Fault != faultUnary, choices: max(1, f.whole("n", 1))}
	if a.choices > 128 {
		f.reject("n", "integer_above_max_value", "Invalid 'n': integer above maximum value. Expected a value <= 128, but got "+strconv.Itoa(a.choices)+" instead.")
	}
	a.usage = string(f.object("stream_options")["include_usage"]) == "true"
	return a
}

// toolsOpenAI reads tools and tool_choice, whose members lie in inside, or
// flat if that is "".
func (c *call) toolsOpenAI(a *ask, inside string) {
	for _, raw := range c.form.list("tools") {
		if t, ok := readTool(raw, inside, "parameters"); ok {
			a.tools = append(a.tools, t)
		}
	}
	if !c.form.has("tool_choice") {
		return
	}
	raw := c.form.fields["tool_choice"]
	var word string
	if json.Unmarshal(raw, &word) != nil {
		t, _ := readTool(raw, inside, "")
		a.insist = t.name
	}
	switch word {
	case "required":
		a.insist = "*"
	case "none":
		a.forbid = true
	}
	c.checkChoice(a)
}

// checkChoice notes a choice of a tool that is not offered.
func (c *call) checkChoice(a *ask) {
	if !a.hasTool() {
		c.form.reject("tool_choice", "", "Invalid value for 'tool_choice': no function named '"+a.insist+"' was specified in the 'tools' parameter.")
	}
}

// readTool reads a tool's name and schema.
func readTool(raw json.RawMessage, inside, schema string) (t tool, ok bool) {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return t, false
	}
	if inside != "" {
		if json.Unmarshal(m[inside], &m) != nil {
			return t, false
		}
	}
	t.schema = m[schema]
	return t, json.Unmarshal(m["name"], &t.name) == nil && t.name != ""
}

// schemaOf is the JSON Schema of a response format, nil for plain text.
func schemaOf(format map[string]json.RawMessage, inside string) json.RawMessage {
	switch string(format["type"]) {
	case `"json_object"`:
		return json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string"}}}`)
	case `"json_schema"`:
		if inside == "" {
			return format["schema"]
		}
		var m map[string]json.RawMessage
		json.Unmarshal(format[inside], &m)
		return m["schema"]
	}
	return nil
}

// finishReason is OpenAI's word for the end of a choice.
func (ans *answer) finishReason() string {
	switch {
	case ans.cut:
		return "length"
	case ans.called:
		return "tool_calls"
	}
	return "stop"
}

type chatUsage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
	PromptDetails    struct {
		CachedTokens int `json:"cached_tokens"`
		AudioTokens  int `json:"audio_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		ReasoningTokens          int `json:"reasoning_tokens"`
		AudioTokens              int `json:"audio_tokens"`
		AcceptedPredictionTokens int `json:"accepted_prediction_tokens"`
		RejectedPredictionTokens int `json:"rejected_prediction_tokens"`
	} `json:"completion_tokens_details"`
}

// openai is the usage as chat reports it, nil if it is missing.
func (t tally) openai() *chatUsage {
	if t.missing {
		return nil
	}
	u := &chatUsage{PromptTokens: t.prompt, CompletionTokens: t.output, TotalTokens: t.prompt + t.output}
	u.PromptDetails.CachedTokens = t.cached
	u.CompletionDetails.ReasoningTokens = t.reasoning
	return u
}

type chatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type chatMessage struct {
	Role        string     `json:"role"`
	Content     *string    `json:"content"`
	ToolCalls   []chatCall `json:"tool_calls,omitempty"`
	Refusal     *string    `json:"refusal"`
	Annotations []struct{} `json:"annotations"`
}

type chatChoice struct {
	Index        int         `json:"index"`
	Message      chatMessage `json:"message"`
	Logprobs     *struct{}   `json:"logprobs"`
	FinishReason string      `json:"finish_reason"`
}

type chatBody struct {
	ID                string       `json:"id"`
	Object            string       `json:"object"`
	Created           int64        `json:"created"`
	Model             string       `json:"model"`
	Choices           []chatChoice `json:"choices"`
	Usage             *chatUsage   `json:"usage,omitempty"`
	ServiceTier       string       `json:"service_tier"`
	SystemFingerprint string       `json:"system_fingerprint"`
}

// chatCompletion is the answer in one piece.
func (c *call) chatCompletion(ans *answer, a *ask) chatBody {
	body := chatBody{
		ID: ans.id, Object: "chat.completion", Created: ans.created, Model: ans.model, Usage: ans.usage.openai(),
		ServiceTier: "default", SystemFingerprint: c.fingerprint(), Choices: make([]chatChoice, a.choices),
	}
	for i := range body.Choices {
		body.Choices[i] = chatChoice{
			Index: i, Message: chatMessage{Role: "assistant", Annotations: []struct{}{}}, FinishReason: ans.finishReason(),
		}
	}
	for i := range ans.blocks {
		b := &ans.blocks[i]
		m := &body.Choices[b.choice].Message
		content := b.text(c.cfg.BytesPerToken)
		if b.kind == text {
			m.Content = &content
			continue
		}
		call := chatCall{ID: "call_" + b.id, Type: "function"}
		call.Function.Name, call.Function.Arguments = b.name, content
		m.ToolCalls = append(m.ToolCalls, call)
	}
	return body
}

// fingerprint stands for the version of the model, so it follows the seed
// alone.
func (c *call) fingerprint() string {
	const digits = "0123456789abcdef"
	b := []byte("fp_")
	for x, i := c.cfg.Seed*0x9e3779b97f4a7c15+0x5bd1e995, 0; i < 10; i++ {
		b = append(b, digits[x>>60])
		x = x*6364136223846793005 + 1442695040888963407
	}
	return string(b)
}

// chatStream encodes chat.completion.chunk events. The parts that all chunks
// share are made once.
type chatStream struct {
	c          *call
	ans        *answer
	ask        *ask
	head, tail string
}

func newChatStream(c *call, ans *answer, a *ask) *chatStream {
	head := `{"id":"` + ans.id + `","object":"chat.completion.chunk","created":` + strconv.FormatInt(ans.created, 10) + `,"model":` +
		string(appendQuoted(nil, ans.model)) + `,"service_tier":"default","system_fingerprint":"` + c.fingerprint() + `","choices":[`
	s := &chatStream{c: c, ans: ans, ask: a, head: head, tail: "]}"}
	if a.usage {
		s.tail = `],"usage":null}`
	}
	return s
}

// delta begins a chunk of one choice; end closes it.
func (s *chatStream) delta(e *events, choice int) []byte {
	b := append(e.begin(""), s.head...)
	b = strconv.AppendInt(append(b, `{"index":`...), int64(choice), 10)
	return append(b, `,"delta":{`...)
}

func (s *chatStream) end(e *events, b []byte, finish string) {
	b = appendNullable(append(b, `},"logprobs":null,"finish_reason":`...), finish)
	e.end(append(append(b, '}'), s.tail...))
}

func (s *chatStream) start(e *events) {
	for choice := range s.ask.choices {
		role := `"role":"assistant","content":"","refusal":null`
		if s.ans.called {
			role = `"role":"assistant","content":null,"refusal":null`
		}
		s.end(e, append(s.delta(e, choice), role...), "")
	}
}

func (s *chatStream) open(e *events, blk *block) {
	if blk.kind != toolCall {
		return
	}
	b := s.delta(e, blk.choice)
	b = strconv.AppendInt(append(b, `"tool_calls":[{"index":`...), int64(blk.call), 10)
	b = append(append(append(b, `,"id":"call_`...), blk.id...), `","type":"function","function":{"name":`...)
	b = appendQuoted(b, blk.name)
	s.end(e, append(b, `,"arguments":""}}]`...), "")
}

func (s *chatStream) token(e *events, blk *block, text []byte) {
	b := s.delta(e, blk.choice)
	if blk.kind == toolCall {
		b = strconv.AppendInt(append(b, `"tool_calls":[{"index":`...), int64(blk.call), 10)
		b = appendQuoted(append(b, `,"function":{"arguments":`...), text)
		b = append(b, `}}]`...)
	} else {
		b = appendQuoted(append(b, `"content":`...), text)
	}
	s.end(e, b, "")
}

func (s *chatStream) close(*events, *block) {}

func (s *chatStream) finish(e *events) {
	for choice := range s.ask.choices {
		s.end(e, s.delta(e, choice), s.ans.finishReason())
	}
	if u := s.ans.usage.openai(); s.ask.usage && u != nil {
		usage, _ := json.Marshal(u)
		b := append(e.begin(""), s.head...)
		b = append(append(b, `],"usage":`...), usage...)
		e.end(append(b, '}'))
	}
}

func (s *chatStream) done(e *events) { e.end(append(e.begin(""), "[DONE]"...)) }

func (s *chatStream) fail(e *events) { e.end(append(e.begin(""), s.c.errorBody(500, "", "", "")...)) }
