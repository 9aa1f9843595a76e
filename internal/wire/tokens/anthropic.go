package tokens

import "github.com/headgate-ai/headgate/internal/wire/jsonspan"

// What Anthropic adds to a request with tools: a system prompt of this many
// tokens with Claude 4 and tool_choice auto or none, its documentation says.
const anthropicToolsTokens = 346

// anthropicMember counts a field of a messages body. The frame of a message is
// not published; OpenAI's is taken.
func (c *counter) anthropicMember(key []byte, v jsonspan.Value) {
	c.exact = false
	switch string(key) {
	case "system":
		c.content(v)
	case "messages":
		c.chatMember(key, v)
	case "tools":
		if v.Kind != jsonspan.KindArray {
			c.value(v)
			return
		}
		c.tokens += anthropicToolsTokens
		for e := c.elements(v); e.Next(); {
			c.value(e.Value())
		}
	}
}

// geminiMember counts a field of a generateContent body.
func (c *counter) geminiMember(key []byte, v jsonspan.Value) {
	c.exact = false // no frame is published
	switch string(key) {
	case "contents", "systemInstruction", "system_instruction":
		if v.Kind != jsonspan.KindArray {
			c.turn(v)
			return
		}
		for e := c.elements(v); e.Next(); {
			c.turn(e.Value())
		}
	case "tools":
		c.value(v)
	}
}

// turn counts one content of a Gemini conversation.
func (c *counter) turn(v jsonspan.Value) {
	if v.Kind != jsonspan.KindObject {
		c.value(v)
		return
	}
	for m := c.in(v); m.Next(); {
		if string(m.Key()) == "parts" {
			c.content(m.Value())
		}
	}
}
