package fake

import (
	"encoding/json"
	"strconv"
)

// messages is POST /v1/messages.
func (c *call) messages() {
	f := &c.form
	c.require("model", "max_tokens", "messages")
	if f.has("messages") && len(f.list("messages")) == 0 {
		f.reject("messages", "", "at least one message is required")
	}
	a := &ask{choices: 1, stream: f.flag("stream") && c.cfg.Fault != faultUnary, limit: f.whole("max_tokens", 1)}
	c.toolsAnthropic(a)
	if t := f.object("thinking"); string(t["type"]) == `"enabled"` || string(t["type"]) == `"adaptive"` {
		a.think = 8
	}
	var format map[string]json.RawMessage
	json.Unmarshal(f.object("output_config")["format"], &format)
	a.schema = schemaOf(format, "")
	if c.rejected() {
		return
	}
	ans := c.plan(a, "msg_01")
	if a.stream {
		c.stream(ans, &messageStream{c: c, ans: ans})
		return
	}
	blocks := []json.RawMessage{}
	for i := range ans.blocks {
		blocks = append(blocks, c.contentBlock(&ans.blocks[i]))
	}
	body := struct {
		ID           string            `json:"id"`
		Type         string            `json:"type"`
		Role         string            `json:"role"`
		Model        string            `json:"model"`
		Content      []json.RawMessage `json:"content"`
		StopReason   string            `json:"stop_reason"`
		StopSequence *string           `json:"stop_sequence"`
		Usage        *messageUsage     `json:"usage,omitempty"`
	}{ans.id, "message", "assistant", ans.model, blocks, ans.stopReason(), nil, ans.usage.anthropic()}
	c.replyJSON(body, ans.usage.output)
}

// toolsAnthropic reads tools and tool_choice.
func (c *call) toolsAnthropic(a *ask) {
	for _, raw := range c.form.list("tools") {
		if t, ok := readTool(raw, "", "input_schema"); ok {
			a.tools = append(a.tools, t)
		}
	}
	var choice struct{ Type, Name string }
	c.form.get("tool_choice", &choice, "an object")
	switch choice.Type {
	case "any":
		a.insist = "*"
	case "tool":
		a.insist = choice.Name
	case "none":
		a.forbid = true
	}
	c.checkChoice(a)
}

// countTokens is POST /v1/messages/count_tokens.
func (c *call) countTokens() {
	c.require("model", "messages")
	if c.rejected() {
		return
	}
	c.schedule(0, 0)
	c.replyJSON(map[string]int{"input_tokens": c.form.promptTokens()}, 0)
}

// stopReason is Anthropic's word for the end of a message.
func (ans *answer) stopReason() string {
	switch {
	case ans.cut:
		return "max_tokens"
	case ans.called:
		return "tool_use"
	}
	return "end_turn"
}

type messageUsage struct {
	InputTokens         int    `json:"input_tokens"` // without the cached ones
	CacheCreationTokens int    `json:"cache_creation_input_tokens"`
	CacheReadTokens     int    `json:"cache_read_input_tokens"`
	OutputTokens        int    `json:"output_tokens"`
	ServiceTier         string `json:"service_tier,omitempty"`
}

// anthropic is the usage as messages report it, nil if it is missing.
func (t tally) anthropic() *messageUsage {
	if t.missing {
		return nil
	}
	return &messageUsage{InputTokens: t.prompt - t.cached, CacheReadTokens: t.cached, OutputTokens: t.output, ServiceTier: "standard"}
}

// contentBlock is a block of a message in one piece.
func (c *call) contentBlock(blk *block) json.RawMessage {
	content := blk.text(c.cfg.BytesPerToken)
	switch blk.kind {
	case thinking:
		b := appendQuoted([]byte(`{"type":"thinking","thinking":`), content)
		return append(appendQuoted(append(b, `,"signature":`...), signature(blk)), '}')
	case toolCall:
		if !json.Valid([]byte(content)) {
			content = "{}" // the limit cut it, and here input is an object
		}
		b := append([]byte(`{"type":"tool_use","id":"toolu_01`), blk.id...)
		b = appendQuoted(append(b, `","name":`...), blk.name)
		return append(append(append(b, `,"input":`...), content...), '}')
	}
	return append(appendQuoted([]byte(`{"type":"text","text":`), content), '}')
}

// signature vouches for a thought; clients must send it back as it is.
func signature(b *block) string { return "Eq" + strconv.FormatUint(b.seed, 36) + "==" }

// messageStream encodes a message's events.
type messageStream struct {
	c     *call
	ans   *answer
	index int
}

func (s *messageStream) start(e *events) {
	b := append(e.begin("message_start"), `{"type":"message_start","message":{"id":"`...)
	b = appendQuoted(append(append(b, s.ans.id...), `","type":"message","role":"assistant","model":`...), s.ans.model)
	b = append(b, `,"content":[],"stop_reason":null,"stop_sequence":null`...)
	if u := s.ans.usage.anthropic(); u != nil {
		u.OutputTokens = 1
		usage, _ := json.Marshal(u)
		b = append(append(b, `,"usage":`...), usage...)
	}
	e.end(append(b, "}}"...))
}

func (s *messageStream) open(e *events, blk *block) {
	b := append(e.begin("content_block_start"), `{"type":"content_block_start","index":`...)
	b = append(strconv.AppendInt(b, int64(s.index), 10), `,"content_block":`...)
	switch blk.kind {
	case text:
		b = append(b, `{"type":"text","text":""}`...)
	case thinking:
		b = append(b, `{"type":"thinking","thinking":"","signature":""}`...)
	case toolCall:
		b = append(append(b, `{"type":"tool_use","id":"toolu_01`...), blk.id...)
		b = append(appendQuoted(append(b, `","name":`...), blk.name), `,"input":{}}`...)
	}
	e.end(append(b, '}'))
	if s.index == 0 {
		e.end(append(e.begin("ping"), `{"type": "ping"}`...))
	}
	if blk.kind == toolCall {
		s.delta(e, "input_json_delta", "partial_json", nil) // the vendor sends an empty one first
	}
}

func (s *messageStream) token(e *events, blk *block, tok []byte) {
	switch blk.kind {
	case text:
		s.delta(e, "text_delta", "text", tok)
	case thinking:
		s.delta(e, "thinking_delta", "thinking", tok)
	case toolCall:
		s.delta(e, "input_json_delta", "partial_json", tok)
	}
}

func (s *messageStream) delta(e *events, kind, member string, text []byte) {
	b := append(e.begin("content_block_delta"), `{"type":"content_block_delta","index":`...)
	b = strconv.AppendInt(b, int64(s.index), 10)
	b = append(append(append(b, `,"delta":{"type":"`...), kind...), `","`...)
	b = appendQuoted(append(append(b, member...), `":`...), text)
	e.end(append(b, "}}"...))
}

func (s *messageStream) close(e *events, blk *block) {
	if blk.kind == thinking {
		s.delta(e, "signature_delta", "signature", []byte(signature(blk)))
	}
	b := append(e.begin("content_block_stop"), `{"type":"content_block_stop","index":`...)
	e.end(append(strconv.AppendInt(b, int64(s.index), 10), '}'))
	s.index++
}

func (s *messageStream) finish(e *events) {
	b := append(e.begin("message_delta"), `{"type":"message_delta","delta":{"stop_reason":"`...)
	b = append(append(b, s.ans.stopReason()...), `","stop_sequence":null}`...)
	if u := s.ans.usage.anthropic(); u != nil {
		u.ServiceTier = ""
		usage, _ := json.Marshal(u)
		b = append(append(b, `,"usage":`...), usage...)
	}
	e.end(append(b, '}'))
}

func (s *messageStream) done(e *events) {
	e.end(append(e.begin("message_stop"), `{"type":"message_stop"}`...))
}

func (s *messageStream) fail(e *events) {
	e.end(append(e.begin("error"), s.c.errorBody(529, "", "", "")...))
}
