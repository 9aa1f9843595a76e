package openai

import (
	"bytes"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// chatTap watches a stream of chat or text completion chunks.
type chatTap struct {
	wire.Meter
	finish string
	err    *fault.Error
	seen   choices
}

func (t *chatTap) FinishReason() string { return t.finish }
func (t *chatTap) Fault() *fault.Error  { return t.err }

// Event reads each byte once: most of a stream's events pass here, and most of
// what they cost beside their way through the kernel is this.
func (t *chatTap) Event(_, data []byte) (s wire.Signal) {
	if isDone(data) {
		return wire.Last | wire.Finished
	}
	before := *t
	choices, usage := -1, false
	c := jsonspan.Walk(data, jsonspan.DefaultDepth)
	if !c.Open(jsonspan.KindObject) {
		return wire.Malformed
	}
	for c.Member() {
		switch string(c.Key()) {
		case "choices":
			if c.Open(jsonspan.KindArray) {
				for choices = 0; c.Element(); choices++ {
					s |= t.choice(&c, data)
				}
			}
		case "usage":
			if c.Kind() == jsonspan.KindObject {
				usage = true
				t.Report(readUsage(data, c.Value()))
			}
		case "error":
			if k := c.Kind(); k == jsonspan.KindObject || k == jsonspan.KindString {
				s |= wire.Failed
			}
		}
	}
	if c.End() != nil {
		*t = before // what was seen of it counts for nothing
		return wire.Malformed
	}
	if s.Has(wire.Failed) {
		t.err = wire.InAnswer(readError(data))
	}
	if usage && choices == 0 {
		s |= wire.UsageOnly
	}
	if t.finish != "" && t.seen.allDone() {
		s |= wire.Finished
	}
	return s
}

func (t *chatTap) choice(c *jsonspan.Cursor, data []byte) (s wire.Signal) {
	index, finished := int64(0), false
	if c.Open(jsonspan.KindObject) {
		for c.Member() {
			switch string(c.Key()) {
			case "delta":
				s |= t.delta(c, data)
			case "text":
				s |= t.produced(data, c.Value())
			case "finish_reason":
				if v := c.Value(); v.Kind == jsonspan.KindString {
					t.finish, finished = jsonspan.Text(data, v), true
				}
			case "index":
				index, _ = jsonspan.Int(data, c.Value())
			}
		}
	}
	if t.seen.note(index, finished) {
		s |= wire.Structural
	}
	return s
}

// delta looks for anything that the user gets to see or a tool gets to run.
func (t *chatTap) delta(c *jsonspan.Cursor, data []byte) (s wire.Signal) {
	if !c.Open(jsonspan.KindObject) {
		return 0
	}
	for c.Member() {
		switch string(c.Key()) {
		case "content", "reasoning_content", "reasoning", "refusal":
			s |= t.produced(data, c.Value())
		case "tool_calls", "function_call", "audio":
			if v := c.Value(); v.Kind == jsonspan.KindArray || v.Kind == jsonspan.KindObject {
				t.Produced(toolBytes(data, v))
				s |= wire.Content
			}
		}
	}
	return s
}

func (t *chatTap) produced(data []byte, v jsonspan.Value) wire.Signal {
	if v.Kind != jsonspan.KindString || v.End-v.Start <= 2 {
		return 0
	}
	t.Produced(jsonspan.StringLen(data, v))
	return wire.Content
}

// toolBytes estimates what a tool call fragment carries beside its framing.
func toolBytes(data []byte, v jsonspan.Value) int {
	if i := bytes.LastIndex(v.Of(data), []byte(`"arguments":`)); i >= 0 {
		return max(0, v.End-v.Start-i-len(`"arguments":""}}]`))
	}
	return 0
}

// readUsage reads a usage object of the chat, completion, embedding or
// responses API; the field names of the four do not collide.
func readUsage(data []byte, v jsonspan.Value) (u llm.Usage) {
	for m := jsonspan.In(data, v); m.Next(); {
		n, _ := jsonspan.Int(data, m.Value())
		switch string(m.Key()) {
		case "prompt_tokens", "input_tokens":
			u.Input = max(0, n)
		case "completion_tokens", "output_tokens":
			u.Output = max(0, n)
		case "prompt_tokens_details", "input_tokens_details":
			u.Cached = member(data, m.Value(), "cached_tokens")
		case "completion_tokens_details", "output_tokens_details":
			u.Reasoning = member(data, m.Value(), "reasoning_tokens")
		}
	}
	return u
}

func member(data []byte, v jsonspan.Value, name string) int64 {
	if v.Kind != jsonspan.KindObject {
		return 0
	}
	for m := jsonspan.In(data, v); m.Next(); {
		if string(m.Key()) == name {
			n, _ := jsonspan.Int(data, m.Value())
			return max(0, n)
		}
	}
	return 0
}

// responsesTap watches the typed events of the Responses API. The type is read
// from the data, because some servers leave the event field out.
type responsesTap struct {
	wire.Meter
	finish string
	err    *fault.Error
}

func (t *responsesTap) FinishReason() string { return t.finish }
func (t *responsesTap) Fault() *fault.Error  { return t.err }

func (t *responsesTap) Event(_, data []byte) (s wire.Signal) {
	if isDone(data) {
		return wire.Last | wire.Finished
	}
	var kind []byte
	var delta, response jsonspan.Value
	m := jsonspan.Object(data, jsonspan.DefaultDepth)
	for m.Next() {
		switch string(m.Key()) {
		case "type":
			kind = word(data, m.Value())
		case "delta":
			delta = m.Value()
		case "response":
			response = m.Value()
		}
	}
	if m.Err() != nil {
		return wire.Malformed
	}
	s = wire.Structural // an early end repeats all that passed
	switch string(kind) {
	case "response.completed", "response.incomplete", "response.failed":
		t.finish = string(kind[len("response."):])
		t.response(data, response)
		return s | wire.Finished | wire.Last
	case "error":
		t.err = wire.InAnswer(readError(data))
		return wire.Failed
	}
	if delta.Kind == jsonspan.KindString && delta.End-delta.Start > 2 {
		t.Produced(jsonspan.StringLen(data, delta))
		s |= wire.Content
	}
	return s
}

// word is a string's text without a copy, where it holds no escape.
func word(data []byte, v jsonspan.Value) []byte {
	if raw := v.Of(data); v.Kind == jsonspan.KindString && bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	return []byte(jsonspan.Text(data, v))
}

func (t *responsesTap) response(data []byte, v jsonspan.Value) {
	if v.Kind != jsonspan.KindObject {
		return
	}
	for m := jsonspan.In(data, v); m.Next(); {
		if string(m.Key()) == "usage" && m.Value().Kind == jsonspan.KindObject {
			t.Report(readUsage(data, m.Value()))
		}
	}
}

// looseTap watches the streams of operations whose events are not tokens, such
// as speech and image generation: anything may be content, any clean end is an
// end, and usage is taken where it is found.
type looseTap struct{ wire.Meter }

func (*looseTap) FinishReason() string { return "" }
func (*looseTap) Fault() *fault.Error  { return nil }

func (t *looseTap) Event(_, data []byte) wire.Signal {
	if isDone(data) {
		return wire.Last | wire.Finished
	}
	for m := jsonspan.Object(data, jsonspan.DefaultDepth); m.Next(); {
		if string(m.Key()) == "usage" && m.Value().Kind == jsonspan.KindObject {
			t.Report(readUsage(data, m.Value()))
		}
	}
	return wire.Content | wire.Finished
}
