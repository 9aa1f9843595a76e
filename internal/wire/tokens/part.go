package tokens

import "github.com/headgate-ai/headgate/internal/wire/jsonspan"

// maxDepth is how many blocks in blocks, or schemas in schemas, are looked
// into. What is deeper counts as it is written.
const maxDepth = 8

// content counts what a message says: a text, or a list of parts.
func (c *counter) content() {
	if !c.at.Open(jsonspan.KindArray) {
		c.part()
		return
	}
	for c.at.Element() {
		c.part()
	}
}

// part counts one part of a content, of whatever dialect: their names for the
// same things do not collide.
func (c *counter) part() {
	if c.depth >= maxDepth || !c.at.Open(jsonspan.KindObject) {
		c.here()
		return
	}
	c.depth++
	defer func() { c.depth-- }()
	var at picture
	for c.at.Member() {
		switch string(c.at.Key()) {
		case "text", "refusal", "thinking", "name", "title", "context", "query", "output":
			c.here()
		case "content", "summary": // of a tool's result, a reasoning item
			c.content()
		case "input", "functionCall", "functionResponse", "action": // of a tool's use
			c.here()
		case "image_url", "source", "inlineData", "inline_data", "fileData", "file_data", "file", "input_audio":
			at.add(c)
		case "detail":
			at.low = c.is(c.at.Value(), "low")
		case "type":
			at.kind = c.at.Value()
		case "file_id", "file_url":
			at.remote = true
		}
	}
	c.attachment(&at)
}

// picture is what a part says of its attachment, an image or another file.
type picture struct {
	kind   jsonspan.Value // the part's type
	media  jsonspan.Value // the media type where it stands alone
	data   jsonspan.Value // base64, or a data: or other URL
	text   jsonspan.Value // a document as text
	low    bool           // an image whose details do not matter
	remote bool           // there is something, and it is not here
}

// add reads the field that has the data, or has the fields that have it.
func (p *picture) add(c *counter) {
	if c.at.Kind() == jsonspan.KindString {
		p.data = c.at.Value()
		return
	}
	if !c.at.Open(jsonspan.KindObject) {
		return
	}
	textual := false
	for c.at.Member() {
		switch string(c.at.Key()) {
		case "url", "data", "file_data", "fileUri":
			p.data = c.at.Value()
		case "media_type", "mimeType", "mime_type", "format":
			p.media = c.at.Value()
		case "detail":
			p.low = c.is(c.at.Value(), "low")
		case "type":
			textual = c.is(c.at.Value(), "text")
		case "file_id":
			p.remote = true
		case "content": // an Anthropic document made of blocks
			c.content()
		}
	}
	if textual {
		p.text, p.data = p.data, jsonspan.Value{}
	}
}
