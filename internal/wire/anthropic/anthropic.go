// Package anthropic speaks the Anthropic wire dialect: messages and token
// counting, as the Anthropic API reference describes them.
// The room edge and the hallway use it.
package anthropic

import (
	"net/http"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
	"github.com/headgate-ai/headgate/internal/wire/peek"
)

// Dialect is both halves of the Anthropic dialect.
type Dialect struct{}

var (
	_ wire.Inbound  = Dialect{}
	_ wire.Outbound = Dialect{}
)

// Dialect names the dialect.
func (Dialect) Dialect() llm.Dialect { return llm.Anthropic }

// Peek reads the envelope of a JSON request body.
func (Dialect) Peek(_ llm.Operation, raw []byte) (llm.Envelope, error) {
	return peek.Body(raw, peek.Fields{MaxTokens: []string{"max_tokens"}, Prompt: "messages"})
}

// Edits makes the model name and the stream flag what the provider must see.
// Usage is part of every Anthropic stream and need not be asked for.
func (Dialect) Edits(edits []llm.Edit, call *llm.Call, model string) []llm.Edit {
	field := ""
	if call.Op == llm.Chat {
		field = "max_tokens"
	}
	edits = wire.EditStream(wire.EditModel(edits, call, model), call)
	return wire.InOrder(append(wire.EditBound(edits, call, field), call.Edits...))
}

// StreamEnd is empty: a stream without message_stop is not complete.
func (Dialect) StreamEnd(llm.Operation) string { return "" }

// Ping writes the dialect's own keep-alive event.
func (Dialect) Ping(dst []byte, _ llm.Operation) []byte {
	return append(dst, "event: ping\ndata: {\"type\": \"ping\"}\n\n"...)
}

// Fault writes {"type":"error","error":{"type","message"},"request_id"}.
func (Dialect) Fault(dst []byte, e *fault.Error, requestID string) []byte {
	dst = append(dst, `{"type":"error","error":{"type":`...)
	dst = jsonspan.AppendQuote(dst, e.Kind.AnthropicType())
	dst = append(dst, `,"message":`...)
	dst = jsonspan.AppendQuote(dst, e.Sentence())
	dst = append(dst, `},"request_id":`...)
	dst = jsonspan.AppendQuote(dst, requestID)
	return append(dst, '}')
}

// FaultEvent ends a begun stream with the dialect's error event.
func (d Dialect) FaultEvent(dst []byte, _ llm.Operation, e *fault.Error, requestID string) []byte {
	dst = append(dst, "event: error\ndata: "...)
	dst = d.Fault(dst, e, requestID)
	return append(dst, "\n\n"...)
}

// Refusal classifies an error answer; a body of the dialect's shape is kept
// for the caller as it stands.
func (Dialect) Refusal(status int, header http.Header, body []byte) *fault.Error {
	return wire.Refuse(status, header, readError(body))
}

// readError looks for {"type":"error","error":{…}}, or takes the message from
// what compatible servers send instead.
func readError(body []byte) (r wire.Refused) {
	proper := false
	for m := jsonspan.Object(body, jsonspan.DefaultDepth); m.Next(); {
		v := m.Value()
		switch string(m.Key()) {
		case "type":
			proper = jsonspan.Text(body, v) == "error"
		case "error":
			r.Found = v.Kind == jsonspan.KindObject || v.Kind == jsonspan.KindString
			r.Message = jsonspan.Text(body, v)
			if v.Kind == jsonspan.KindObject {
				r.Message, r.Type = member(body, v, "message"), member(body, v, "type")
			}
		case "message", "detail":
			if r.Message == "" {
				r.Message = jsonspan.Text(body, v)
			}
		}
	}
	if jsonspan.Valid(body, jsonspan.DefaultDepth) != nil {
		return wire.Refused{}
	}
	if proper && r.Type != "" {
		r.Body = body
	}
	return r
}

func member(raw []byte, v jsonspan.Value, name string) string {
	for m := jsonspan.In(raw, v); m.Next(); {
		if string(m.Key()) == name {
			return jsonspan.Text(raw, m.Value())
		}
	}
	return ""
}
