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

func (t *chatTap) Event(_, data []byte) (s wire.Signal) {
	if isDone(data) {
		return wire.Last | wire.Finished
	}
	choices, usage := -1, false
	m := jsonspan.Object(data, jsonspan.DefaultDepth)
	for m.Next() {
		v := m.Value()
		switch string(m.Key()) {
		case "choices":
			if v.Kind == jsonspan.KindArray {
				n, signal := t.choices(data, v)
				choices, s = n, s|signal
			}
		case "usage":
			if v.Kind == jsonspan.KindObject {
				usage = true
				t.Report(readUsage(data, v))
			}
		case "error":
			if v.Kind == jsonspan.KindObject || v.Kind == jsonspan.KindString {
				t.err = wire.InAnswer(readError(data))
				s |= wire.Failed
			}
		}
	}
	if m.Err() != nil {
		return wire.Malformed
	}
	if usage && choices == 0 {
		s |= wire.UsageOnly
	}
	if t.finish != "" && t.seen.allDone() {
		s |= wire.Finished
	}
	return s
}

func (t *chatTap) choices(data []byte, v jsonspan.Value) (n int, s wire.Signal) {
	for e := jsonspan.Elements(data, v); e.Next(); n++ {
		index, finished := int64(0), false
		for m := jsonspan.In(data, e.Value()); m.Next(); {
			v := m.Value()
			switch string(m.Key()) {
			case "delta":
				s |= t.delta(data, v)
			case "text":
				s |= t.produced(data, v)
			case "finish_reason":
				if v.Kind == jsonspan.KindString {
					t.finish, finished = jsonspan.Text(data, v), true
				}
			case "index":
				index, _ = jsonspan.Int(data, v)
			}
		}
		t.seen.note(index, finished)
	}
	return n, s
}

// delta looks for anything that the user gets to see or a tool gets to run.
func (t *chatTap) delta(data []byte, v jsonspan.Value) (s wire.Signal) {
	if v.Kind != jsonspan.KindObject {
		return 0
	}
	for m := jsonspan.In(data, v); m.Next(); {
		switch string(m.Key()) {
		case "content", "reasoning_content", "reasoning", "refusal":
			s |= t.produced(data, m.Value())
		case "tool_calls", "function_call", "audio":
			if v := m.Value(); v.Kind == jsonspan.KindArray || v.Kind == jsonspan.KindObject {
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
	switch string(kind) {
	case "response.completed", "response.incomplete", "response.failed":
		t.finish = string(kind[len("response."):])
		t.response(data, response)
		return wire.Finished | wire.Last
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
