package anthropic

import (
	"bytes"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// Tap makes the observer of a messages stream.
func (Dialect) Tap(llm.Operation) wire.Tap { return &tap{} }

// tap watches a messages stream. Usage comes in parts: the input with
// message_start, the output, cumulative, with message_delta.
type tap struct {
	meter  wire.Meter
	usage  usage
	output bool // message_delta has reported the output
	finish string
	err    *fault.Error
}

func (t *tap) FinishReason() string { return t.finish }
func (t *tap) Fault() *fault.Error  { return t.err }

// Usage is what was reported, or for a stream that broke off before its
// message_delta the reported input and a count of what passed.
func (t *tap) Usage() llm.Usage {
	u := t.usage.llm()
	if !t.output {
		if produced := t.meter.Usage(); produced.Output > 0 {
			u.Output, u.Estimated = produced.Output, true
		}
	}
	return u
}

// parts are the members of an event that the tap reads.
type parts struct{ delta, usage, message jsonspan.Value }

func (t *tap) Event(_, data []byte) wire.Signal {
	var kind []byte
	var p parts
	m := jsonspan.Object(data, jsonspan.DefaultDepth)
	for m.Next() {
		switch string(m.Key()) {
		case "type":
			kind = word(data, m.Value())
		case "delta":
			p.delta = m.Value()
		case "usage":
			p.usage = m.Value()
		case "message":
			p.message = m.Value()
		}
	}
	if m.Err() != nil {
		return wire.Malformed
	}
	return t.typed(kind, data, p)
}

func (t *tap) typed(kind, data []byte, p parts) wire.Signal {
	switch string(kind) {
	case "message_start":
		for m := jsonspan.In(data, p.message); m.Next(); {
			if string(m.Key()) == "usage" {
				t.usage.read(data, m.Value())
			}
		}
	case "content_block_start", "content_block_stop":
		return wire.Structural
	case "content_block_delta":
		return t.delta(data, p.delta)
	case "message_delta":
		if reason := member(data, p.delta, "stop_reason"); reason != "" {
			t.finish = reason
		}
		if p.usage.Kind == jsonspan.KindObject {
			t.usage.read(data, p.usage)
			t.output = true
		}
	case "message_stop":
		return wire.Finished | wire.Last
	case "error":
		t.err = wire.InAnswer(readError(data))
		return wire.Failed
	}
	return 0
}

// word is a string's text without a copy, where it holds no escape.
func word(data []byte, v jsonspan.Value) []byte {
	if raw := v.Of(data); v.Kind == jsonspan.KindString && bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	return []byte(jsonspan.Text(data, v))
}

func (t *tap) delta(data []byte, v jsonspan.Value) (s wire.Signal) {
	for m := jsonspan.In(data, v); m.Next(); {
		switch string(m.Key()) {
		case "text", "thinking", "partial_json":
			if v := m.Value(); v.Kind == jsonspan.KindString && v.End-v.Start > 2 {
				t.meter.Produced(jsonspan.StringLen(data, v))
				s |= wire.Content
			}
		}
	}
	return s
}

// usage is the dialect's usage object. Its input_tokens leave the cached ones
// out.
type usage struct{ input, cacheRead, cacheWrite, output int64 }

// read takes over the fields that are there; message_delta usually repeats
// only the output.
func (u *usage) read(data []byte, v jsonspan.Value) {
	for m := jsonspan.In(data, v); m.Next(); {
		n, ok := jsonspan.Int(data, m.Value())
		if !ok || n < 0 {
			continue
		}
		switch string(m.Key()) {
		case "input_tokens":
			u.input = n
		case "cache_read_input_tokens":
			u.cacheRead = n
		case "cache_creation_input_tokens":
			u.cacheWrite = n
		case "output_tokens":
			u.output = n
		}
	}
}

func (u usage) llm() llm.Usage {
	return llm.Usage{Input: u.input + u.cacheRead + u.cacheWrite, Cached: u.cacheRead, CacheWrite: u.cacheWrite, Output: u.output}
}

// Answer reads a whole JSON answer.
func (Dialect) Answer(op llm.Operation, body []byte) (a wire.Answer) {
	if len(bytes.TrimSpace(body)) == 0 {
		a.Fault = fault.New(fault.UpstreamMalformed, "anthropic.Answer", "The model's provider sent an empty answer.")
		return a
	}
	var u usage
	isError := false
	m := jsonspan.Object(body, jsonspan.DefaultDepth)
	for m.Next() {
		v := m.Value()
		switch string(m.Key()) {
		case "usage":
			u.read(body, v)
		case "stop_reason":
			a.FinishReason = jsonspan.Text(body, v)
		case "error":
			isError = v.Kind == jsonspan.KindObject
		}
	}
	if err := m.Err(); err != nil {
		return wire.Answer{Fault: fault.Wrap(fault.UpstreamMalformed, "anthropic.Answer", err)}
	}
	if isError {
		return wire.Answer{Fault: wire.InAnswer(readError(body))}
	}
	if op != llm.CountTokens { // that one answers with a count, it uses nothing
		a.Usage = u.llm()
	}
	return a
}

// UsageTail finds the usage object in the last bytes of an answer.
func (Dialect) UsageTail(_ llm.Operation, tail []byte) (llm.Usage, bool) {
	v, ok := wire.LastMember(tail, `"usage"`)
	if !ok {
		return llm.Usage{}, false
	}
	var u usage
	u.read(tail, v)
	return u.llm(), true
}
