package tokens

import "github.com/headgate-ai/headgate/internal/wire/jsonspan"

// The constants of OpenAI's cookbook, "How to count tokens with tiktoken", for
// gpt-3.5-turbo-0613 and every chat model since.
const (
	messageTokens = 3 // a message's frame
	nameTokens    = 1 // a message's name, beside the name itself
	replyTokens   = 3 // the beginning of the answer
	// callTokens is a tool call's frame. It is not published; this is what the
	// usage of the chat API shows.
	callTokens = 3
)

// chatMember counts a field of a chat completion's body.
func (c *counter) chatMember(key []byte, v jsonspan.Value) {
	switch string(key) {
	case "messages":
		if v.Kind != jsonspan.KindArray {
			c.value(v)
			return
		}
		for e := c.elements(v); e.Next(); {
			c.message(e.Value())
		}
	case "tools", "functions":
		c.tools(v)
	case "response_format":
		c.schemaOf(v)
	}
}

// message counts one message of a conversation. Fields that have text, known
// or not, count; ids do not, the model does not see them.
func (c *counter) message(v jsonspan.Value) {
	if v.Kind != jsonspan.KindObject {
		c.value(v)
		return
	}
	c.tokens += messageTokens
	for m := c.in(v); m.Next(); {
		v := m.Value()
		switch string(m.Key()) {
		case "id", "tool_call_id", "type", "status", "audio", "annotations", "cache_control", "phase":
		case "name":
			c.tokens += nameTokens
			c.value(v)
		case "content":
			c.content(v)
		case "tool_calls":
			c.exact = false
			for e := c.elements(v); e.Next(); {
				c.call(e.Value())
			}
		case "function_call":
			c.exact = false
			c.call(v)
		default:
			if v.Kind == jsonspan.KindString {
				c.value(v)
			}
		}
	}
}

// call counts a tool call: the function's name and arguments, which stand in
// it or in its field "function" or "custom".
func (c *counter) call(v jsonspan.Value) {
	for m := c.in(v); m.Next(); {
		switch string(m.Key()) {
		case "function", "custom":
			if m.Value().Kind == jsonspan.KindObject {
				c.call(m.Value())
			}
		case "name":
			c.tokens += callTokens
			c.value(m.Value())
		case "arguments", "input":
			c.value(m.Value())
		}
	}
}

// responsesMember counts a field of a responses body. Its instructions are the
// first message.
func (c *counter) responsesMember(key []byte, v jsonspan.Value) {
	switch string(key) {
	case "instructions":
		if v.Kind != jsonspan.KindNull {
			c.tokens += messageTokens + roleTokens
			c.content(v)
		}
	case "input":
		if v.Kind != jsonspan.KindArray {
			c.tokens += messageTokens + roleTokens
			c.value(v)
			return
		}
		for e := c.elements(v); e.Next(); {
			c.item(e.Value())
		}
	case "tools":
		c.tools(v)
	case "text":
		c.schemaOf(v)
	case "previous_response_id", "conversation", "prompt":
		if v.Kind != jsonspan.KindNull {
			c.exact = false // there is text that only the provider has
		}
	}
}

// roleTokens is the role of a message that the body does not write: every role
// is one token.
const roleTokens = 1

// item counts one item of a responses input: a message, or a call or what came
// of it.
func (c *counter) item(v jsonspan.Value) {
	if v.Kind != jsonspan.KindObject {
		c.value(v)
		return
	}
	message := false
	for m := c.in(v); m.Next(); {
		if string(m.Key()) == "role" {
			message = true
		}
	}
	if message {
		c.message(v)
		return
	}
	c.exact = false
	c.tokens += messageTokens
	for m := c.in(v); m.Next(); {
		switch string(m.Key()) {
		case "name", "arguments", "input", "output", "summary", "action":
			c.content(m.Value())
		}
	}
}

// inputMember counts a field of a body whose text stands alone: completions,
// embeddings, moderations, images, speech.
func (c *counter) inputMember(key []byte, v jsonspan.Value) {
	switch string(key) {
	case "prompt", "input", "suffix", "instructions":
		c.input(v)
	}
}

// input counts a text, a list of texts, a list of tokens, which is as long as
// it is, or a list of such lists.
func (c *counter) input(v jsonspan.Value) {
	if v.Kind != jsonspan.KindArray {
		c.value(v)
		return
	}
	e := c.elements(v)
	for e.Next() {
		switch v := e.Value(); v.Kind {
		case jsonspan.KindNumber:
			c.tokens++
		case jsonspan.KindArray:
			c.tokens += e.Count()
		case jsonspan.KindObject:
			c.part(v)
		default:
			c.value(v)
		}
	}
}
