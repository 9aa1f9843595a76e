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
func (c *counter) chatMember(key []byte) {
	switch string(key) {
	case "messages":
		if !c.at.Open(jsonspan.KindArray) {
			c.here()
			return
		}
		for c.at.Element() {
			c.message()
		}
	case "tools", "functions":
		c.tools(c.at.Value())
	case "response_format":
		c.schemaOf(c.at.Value())
	}
}

// message counts one message of a conversation. Fields that have text, known
// or not, count; ids do not, the model does not see them.
func (c *counter) message() {
	if !c.at.Open(jsonspan.KindObject) {
		c.here()
		return
	}
	c.tokens += messageTokens
	for c.at.Member() {
		switch string(c.at.Key()) {
		case "id", "tool_call_id", "type", "status", "audio", "annotations", "cache_control", "phase":
		case "name":
			c.tokens += nameTokens
			c.here()
		case "content":
			c.content()
		case "tool_calls":
			c.exact = false
			for e := c.elements(c.at.Value()); e.Next(); {
				c.call(e.Value())
			}
		case "function_call":
			c.exact = false
			c.call(c.at.Value())
		default:
			if c.at.Kind() == jsonspan.KindString {
				c.here()
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
func (c *counter) responsesMember(key []byte) {
	switch string(key) {
	case "instructions":
		if c.at.Kind() != jsonspan.KindNull {
			c.tokens += messageTokens + roleTokens
			c.content()
		}
	case "input":
		if !c.at.Open(jsonspan.KindArray) {
			c.tokens += messageTokens + roleTokens
			c.here()
			return
		}
		for c.at.Element() {
			c.item()
		}
	case "tools":
		c.tools(c.at.Value())
	case "text":
		c.schemaOf(c.at.Value())
	case "previous_response_id", "conversation", "prompt":
		if c.at.Kind() != jsonspan.KindNull {
			c.exact = false // there is text that only the provider has
		}
	}
}

// roleTokens is the role of a message that the body does not write: every role
// is one token.
const roleTokens = 1

// item counts one item of a responses input: a message, or a call or what came
// of it.
func (c *counter) item() {
	start, message := c.at, false // gone through twice
	if !c.at.Open(jsonspan.KindObject) {
		c.here()
		return
	}
	for c.at.Member() {
		if string(c.at.Key()) == "role" {
			message = true
		}
	}
	if c.at = start; message {
		c.message()
		return
	}
	c.exact = false
	c.tokens += messageTokens
	c.at.Open(jsonspan.KindObject)
	for c.at.Member() {
		switch string(c.at.Key()) {
		case "name", "arguments", "input", "output", "summary", "action":
			c.content()
		}
	}
}

// inputMember counts a field of a body whose text stands alone: completions,
// embeddings, moderations, images, speech.
func (c *counter) inputMember(key []byte) {
	switch string(key) {
	case "prompt", "input", "suffix", "instructions":
		c.input()
	}
}

// input counts a text, a list of texts, a list of tokens, which is as long as
// it is, or a list of such lists.
func (c *counter) input() {
	if !c.at.Open(jsonspan.KindArray) {
		c.here()
		return
	}
	for c.at.Element() {
		switch c.at.Kind() {
		case jsonspan.KindNumber:
			c.tokens++
		case jsonspan.KindArray:
			for c.at.Open(jsonspan.KindArray); c.at.Element(); {
				c.tokens++
			}
		default:
			c.part()
		}
	}
}
