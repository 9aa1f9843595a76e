// Package openai speaks the OpenAI wire dialect: chat completions, completions,
// embeddings, responses, moderations, images and audio, as the OpenAI API
// reference describes them and as the many compatible servers speak them.
// The room edge and the hallway use it.
package openai

import (
	"bytes"
	"strings"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/peek"
)

// Dialect is both halves of the OpenAI dialect.
type Dialect struct{}

var (
	_ wire.Inbound  = Dialect{}
	_ wire.Outbound = Dialect{}
)

// Dialect names the dialect.
func (Dialect) Dialect() llm.Dialect { return llm.OpenAI }

// fields are the request fields of each operation that the gateway reads. The
// default models are those of the API reference.
var fields = map[llm.Operation]peek.Fields{
	llm.Chat:        {MaxTokens: []string{"max_tokens", "max_completion_tokens"}, Choices: "n", Prompt: "messages", StreamOptions: true},
	llm.Completion:  {MaxTokens: []string{"max_tokens"}, Choices: "n", Prompt: "prompt", StreamOptions: true},
	llm.Responses:   {MaxTokens: []string{"max_output_tokens"}, Prompt: "input"},
	llm.Embeddings:  {Prompt: "input"},
	llm.Moderations: {Prompt: "input", DefaultModel: "omni-moderation-latest"},
	llm.Images:      {Prompt: "prompt", DefaultModel: "dall-e-2"},
	llm.Speech:      {Prompt: "input"},
}

// Peek reads the envelope of a JSON request body.
func (Dialect) Peek(op llm.Operation, raw []byte) (llm.Envelope, error) {
	return peek.Body(raw, fields[op])
}

// Edits makes the model name, the stream flag and the request for the usage
// chunk what the provider must see.
func (Dialect) Edits(edits []llm.Edit, call *llm.Call, model string) []llm.Edit {
	edits = wire.EditModel(edits, call, model)
	edits = wire.EditStream(edits, call)
	edits = wire.EditBound(edits, call, boundField(call.Op, model))
	if call.WantsStream && !call.IncludeUsage && (call.Op == llm.Chat || call.Op == llm.Completion) {
		edits = editUsage(edits, call)
	}
	return wire.InOrder(append(edits, call.Edits...))
}

// boundField is the field that bounds the answer. Models that reason take
// max_completion_tokens only, and most other servers know only max_tokens.
func boundField(op llm.Operation, model string) string {
	switch op {
	case llm.Completion:
		return "max_tokens"
	case llm.Responses:
		return "max_output_tokens"
	case llm.Chat:
		for _, prefix := range []string{"o1", "o3", "o4", "gpt-5"} {
			if strings.HasPrefix(model, prefix) {
				return "max_completion_tokens"
			}
		}
		return "max_tokens"
	}
	return ""
}

// editUsage asks for the usage chunk of a stream. Whatever stands beside
// include_usage in stream_options is left as it is.
func editUsage(edits []llm.Edit, call *llm.Call) []llm.Edit {
	at := call.StreamOptionsAt
	switch {
	case call.IncludeUsageAt.Len() > 0:
		return append(edits, llm.Edit{Span: call.IncludeUsageAt, New: []byte("true")})
	case at.Len() == 0:
		return append(edits, wire.InsertMember(call.Raw, 0, `"stream_options":{"include_usage":true}`))
	case call.Raw[at.Start] == '{':
		return append(edits, wire.InsertMember(call.Raw, at.Start, `"include_usage":true`))
	default: // null
		return append(edits, llm.Edit{Span: at, New: []byte(`{"include_usage":true}`)})
	}
}

// StreamEnd is the end mark that raw clients of a chat stream wait for.
func (Dialect) StreamEnd(op llm.Operation) string {
	if op == llm.Chat || op == llm.Completion {
		return "data: [DONE]\n\n"
	}
	return ""
}

// Ping writes a comment, which every parser of event streams ignores.
func (Dialect) Ping(dst []byte, _ llm.Operation) []byte { return append(dst, ": ping\n\n"...) }

// Tap makes the observer of an event stream of op.
func (Dialect) Tap(op llm.Operation) wire.Tap {
	switch op {
	case llm.Chat, llm.Completion:
		return &chatTap{}
	case llm.Responses:
		return &responsesTap{}
	}
	return &looseTap{}
}

func isDone(data []byte) bool { return string(bytes.TrimSpace(data)) == "[DONE]" }
