package trim

import (
	"strings"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// mostNested is how many blocks in blocks are looked into: a text in a document
// in a tool's result is the deepest that the vendors describe.
const mostNested = 4

// fields are the values of the members of a message, an item or a part that
// are read. The names of the dialects do not collide.
type fields struct {
	role, kind                       jsonspan.Value
	content, text, output, source    jsonspan.Value
	id, callID, toolCallID           jsonspan.Value // OpenAI
	toolUseID                        jsonspan.Value // Anthropic
	toolCalls, functionCall, request jsonspan.Value
	data                             jsonspan.Value
	repeated                         bool // one of them occurs twice: parsers disagree on which counts
}

func (c *conversation) fields(v jsonspan.Value) (f fields) {
	for m := jsonspan.In(c.raw, v); m.Next(); {
		at := f.named(string(m.Key()))
		if at == nil {
			continue
		}
		f.repeated = f.repeated || at.Kind != 0
		*at = m.Value()
	}
	return f
}

func (f *fields) named(key string) *jsonspan.Value {
	switch key {
	case "role":
		return &f.role
	case "type":
		return &f.kind
	case "content":
		return &f.content
	case "text":
		return &f.text
	case "output":
		return &f.output
	case "source":
		return &f.source
	case "data":
		return &f.data
	case "id":
		return &f.id
	case "call_id":
		return &f.callID
	case "tool_call_id":
		return &f.toolCallID
	case "tool_use_id":
		return &f.toolUseID
	case "tool_calls":
		return &f.toolCalls
	case "function_call":
		return &f.functionCall
	case "approval_request_id":
		return &f.request
	}
	return nil
}

// element reads one element of the conversation into the message at hand.
func (c *conversation) element(v jsonspan.Value, op llm.Operation) {
	m := &c.messages[len(c.messages)-1]
	f := c.fields(v)
	if v.Kind != jsonspan.KindObject || f.repeated {
		m.odd = true
		return
	}
	switch role := c.str(f.role); {
	case role == "system" || role == "developer":
		m.fixed = true
	case role == "user":
		m.user = true
		c.content(f.content, 0)
	case role == "assistant":
		c.calling(&f)
		c.content(f.content, 0)
	case role == "tool" && op == llm.Chat:
		c.result(f.toolCallID)
		c.content(f.content, 0)
	case role == "function" && op == llm.Chat:
		c.resultOf(noID)
		c.content(f.content, 0)
	case f.role.Kind == 0 && op == llm.Responses:
		c.item(&f)
	default:
		m.odd = true
	}
}

// calling reads the tool calls of an OpenAI assistant message. Those of the
// older function_call have no id; the next function message answers them.
func (c *conversation) calling(f *fields) {
	if f.functionCall.Kind == jsonspan.KindObject {
		c.calls[noID] = len(c.messages) - 1
	}
	if f.toolCalls.Kind != jsonspan.KindArray {
		return
	}
	for e := jsonspan.Elements(c.raw, f.toolCalls); e.Next(); {
		if e.Value().Kind == jsonspan.KindObject {
			call := c.fields(e.Value())
			c.call(call.id)
		}
	}
}

// item reads an item of a Responses input that is not a message: a call, what
// came of it, or reasoning.
func (c *conversation) item(f *fields) {
	switch kind := c.str(f.kind); {
	case strings.HasSuffix(kind, "_output"):
		c.result(f.callID)
		c.content(f.output, 0)
	case kind == "mcp_approval_response":
		c.result(f.request)
	case kind == "mcp_approval_request":
		c.call(f.id)
	case strings.HasSuffix(kind, "_call"):
		c.call(f.callID)
	case kind == "reasoning" || kind == "mcp_list_tools":
	default: // a reference to something that the provider has, or unknown
		c.messages[len(c.messages)-1].odd = true
	}
}

// content reads what a message says: a text, or a list of parts.
func (c *conversation) content(v jsonspan.Value, depth int) {
	if v.Kind != jsonspan.KindArray {
		c.add(v)
		return
	}
	if depth >= mostNested {
		return
	}
	for e := jsonspan.Elements(c.raw, v); e.Next(); {
		if e.Value().Kind == jsonspan.KindObject {
			c.part(e.Value(), depth)
		}
	}
}

// part reads one part of a content. Only texts are noted: images, audio, files
// and thinking, which is signed, stay whole.
func (c *conversation) part(v jsonspan.Value, depth int) {
	m := &c.messages[len(c.messages)-1]
	f := c.fields(v)
	if f.repeated {
		m.odd = true
		return
	}
	kind := c.str(f.kind)
	if strings.HasSuffix(kind, "tool_use") {
		c.call(f.id)
	}
	if f.toolUseID.Kind != 0 {
		m.user = false // the tool speaks, and not the user
		c.result(f.toolUseID)
	}
	switch kind {
	case "text", "input_text", "output_text":
		c.add(f.text)
	case "tool_result", "search_result":
		c.content(f.content, depth+1)
	case "document":
		c.document(f.source, depth)
	}
}

// document reads the source of an Anthropic document: plain text, or blocks. A
// PDF stays whole.
func (c *conversation) document(source jsonspan.Value, depth int) {
	if source.Kind != jsonspan.KindObject {
		return
	}
	f := c.fields(source)
	switch kind := c.str(f.kind); {
	case f.repeated:
	case kind == "text":
		c.add(f.data)
	case kind == "content":
		c.content(f.content, depth+1)
	}
}
