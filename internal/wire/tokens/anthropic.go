package tokens

import "github.com/headgate-ai/headgate/internal/wire/jsonspan"

// What Anthropic adds to a request with tools: a system prompt of this many
// tokens with Claude 4 and tool_choice auto or none, its documentation says.
const anthropicToolsTokens = 346

// anthropicMember counts a field of a messages body. The frame of a message is
// not published; OpenAI's is taken.
func (c *counter) anthropicMember(key []byte) {
	c.exact = false
	switch string(key) {
	case "system":
		c.content()
	case "messages":
		c.chatMember(key)
	case "tools":
		if !c.at.Open(jsonspan.KindArray) {
			c.here()
			return
		}
		c.tokens += anthropicToolsTokens
		for c.at.Element() {
			c.here()
		}
	}
}

// geminiMember counts a field of a generateContent body.
func (c *counter) geminiMember(key []byte) {
	c.exact = false // no frame is published
	switch string(key) {
	case "contents", "systemInstruction", "system_instruction":
		if !c.at.Open(jsonspan.KindArray) {
			c.turn()
			return
		}
		for c.at.Element() {
			c.turn()
		}
	case "tools":
		c.here()
	}
}

// turn counts one content of a Gemini conversation.
func (c *counter) turn() {
	if !c.at.Open(jsonspan.KindObject) {
		c.here()
		return
	}
	for c.at.Member() {
		if string(c.at.Key()) == "parts" {
			c.content()
		}
	}
}
