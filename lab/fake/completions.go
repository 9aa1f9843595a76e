package fake

import (
	"encoding/json"
	"strconv"
)

// completions is POST /v1/completions.
func (c *call) completions() {
	c.require("model", "prompt")
	a := c.askOpenAI()
	a.limit = c.form.whole("max_tokens", 0)
	if a.limit == 0 {
		a.limit = 16 // the vendor's default
	}
	if c.rejected() {
		return
	}
	ans := c.plan(a, "cmpl-")
	if a.stream {
		c.stream(ans, newTextStream(c, ans, a))
		return
	}
	type choice struct {
		Text         string    `json:"text"`
		Index        int       `json:"index"`
		Logprobs     *struct{} `json:"logprobs"`
		FinishReason string    `json:"finish_reason"`
	}
	body := struct {
		ID                string     `json:"id"`
		Object            string     `json:"object"`
		Created           int64      `json:"created"`
		Model             string     `json:"model"`
		Choices           []choice   `json:"choices"`
		Usage             *chatUsage `json:"usage,omitempty"`
		SystemFingerprint string     `json:"system_fingerprint"`
	}{ans.id, "text_completion", ans.created, ans.model, nil, ans.usage.openai(), c.fingerprint()}
	for i := range ans.blocks {
		body.Choices = append(body.Choices, choice{ans.blocks[i].text(c.cfg.BytesPerToken), i, nil, ans.finishReason()})
	}
	c.replyJSON(body, ans.usage.output)
}

// textStream encodes text_completion events.
type textStream struct {
	c          *call
	ans        *answer
	ask        *ask
	head, tail string
}

func newTextStream(c *call, ans *answer, a *ask) *textStream {
	s := &textStream{c: c, ans: ans, ask: a, tail: "]}"}
	s.head = `{"id":"` + ans.id + `","object":"text_completion","created":` + strconv.FormatInt(ans.created, 10) + `,"model":` +
		string(appendQuoted(nil, ans.model)) + `,"system_fingerprint":"` + c.fingerprint() + `","choices":[`
	if a.usage {
		s.tail = `],"usage":null}`
	}
	return s
}

func (s *textStream) piece(e *events, choice int, text []byte, finish string) {
	b := append(e.begin(""), s.head...)
	b = appendQuoted(append(b, `{"text":`...), text)
	b = strconv.AppendInt(append(b, `,"index":`...), int64(choice), 10)
	b = appendNullable(append(b, `,"logprobs":null,"finish_reason":`...), finish)
	e.end(append(append(b, '}'), s.tail...))
}

func (s *textStream) start(*events) {}

func (s *textStream) open(*events, *block) {}

func (s *textStream) token(e *events, b *block, text []byte) { s.piece(e, b.choice, text, "") }

func (s *textStream) close(e *events, b *block) { s.piece(e, b.choice, nil, s.ans.finishReason()) }

func (s *textStream) finish(e *events) {
	if u := s.ans.usage.openai(); s.ask.usage && u != nil {
		usage, _ := json.Marshal(u)
		b := append(e.begin(""), s.head...)
		e.end(append(append(append(b, `],"usage":`...), usage...), '}'))
	}
}

func (s *textStream) done(e *events) { e.end(append(e.begin(""), "[DONE]"...)) }

func (s *textStream) fail(e *events) { e.end(append(e.begin(""), s.c.errorBody(500, "", "", "")...)) }
