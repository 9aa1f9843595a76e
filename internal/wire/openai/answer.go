package openai

import (
	"bytes"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// Answer reads a whole JSON answer: its usage, why it ended, and whether it is
// an answer at all.
func (Dialect) Answer(op llm.Operation, body []byte) (a wire.Answer) {
	if len(bytes.TrimSpace(body)) == 0 {
		a.Fault = fault.New(fault.UpstreamMalformed, "openai.Answer", "The model's provider sent an empty answer.")
		return a
	}
	isError := false
	m := jsonspan.Object(body, jsonspan.DefaultDepth)
	for m.Next() {
		v := m.Value()
		switch string(m.Key()) {
		case "usage":
			if v.Kind == jsonspan.KindObject {
				a.Usage = readUsage(body, v)
			}
		case "choices":
			a.FinishReason = finishReason(body, v)
		case "status":
			if op == llm.Responses {
				a.FinishReason = jsonspan.Text(body, v)
			}
		case "error":
			isError = v.Kind == jsonspan.KindObject || v.Kind == jsonspan.KindString
		}
	}
	if err := m.Err(); err != nil {
		a = wire.Answer{Fault: fault.Wrap(fault.UpstreamMalformed, "openai.Answer", err)}
	} else if isError && a.FinishReason == "" {
		a = wire.Answer{Fault: wire.InAnswer(readError(body))}
	}
	return a
}

// finishReason is the first choice's.
func finishReason(body []byte, v jsonspan.Value) string {
	if v.Kind != jsonspan.KindArray {
		return ""
	}
	e := jsonspan.Elements(body, v)
	if !e.Next() || e.Value().Kind != jsonspan.KindObject {
		return ""
	}
	for m := jsonspan.In(body, e.Value()); m.Next(); {
		if string(m.Key()) == "finish_reason" {
			return jsonspan.Text(body, m.Value())
		}
	}
	return ""
}

// UsageTail finds the usage object in the last bytes of an answer; the APIs put
// it at the end.
func (Dialect) UsageTail(_ llm.Operation, tail []byte) (llm.Usage, bool) {
	v, ok := wire.LastMember(tail, `"usage"`)
	if !ok {
		return llm.Usage{}, false
	}
	return readUsage(tail, v), true
}
