package tokens

import "github.com/headgate-ai/headgate/internal/wire/jsonspan"

// maxDepth is how many blocks in blocks, or schemas in schemas, are looked
// into. What is deeper counts as it is written.
const maxDepth = 8

// content counts what a message says: a text, or a list of parts.
func (c *counter) content(v jsonspan.Value) {
	if v.Kind != jsonspan.KindArray {
		if v.Kind == jsonspan.KindObject {
			c.part(v)
			return
		}
		c.value(v)
		return
	}
	for e := c.elements(v); e.Next(); {
		c.part(e.Value())
	}
}

// part counts one part of a content, of whatever dialect: their names for the
// same things do not collide.
func (c *counter) part(v jsonspan.Value) {
	if v.Kind != jsonspan.KindObject || c.depth >= maxDepth {
		c.value(v)
		return
	}
	c.depth++
	defer func() { c.depth-- }()
	var at picture
	for m := c.in(v); m.Next(); {
		v := m.Value()
		switch string(m.Key()) {
		case "text", "refusal", "thinking", "name", "title", "context", "query", "output":
			c.value(v)
		case "content", "summary": // of a tool's result, a reasoning item
			c.content(v)
		case "input", "functionCall", "functionResponse", "action": // of a tool's use
			c.value(v)
		case "image_url", "source", "inlineData", "inline_data", "fileData", "file_data", "file", "input_audio":
			at.add(c, v)
		case "detail":
			at.low = c.is(v, "low")
		case "type":
			at.kind = v
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
func (p *picture) add(c *counter, v jsonspan.Value) {
	if v.Kind == jsonspan.KindString {
		p.data = v
		return
	}
	if v.Kind != jsonspan.KindObject {
		return
	}
	textual := false
	for m := c.in(v); m.Next(); {
		v := m.Value()
		switch string(m.Key()) {
		case "url", "data", "file_data", "fileUri":
			p.data = v
		case "media_type", "mimeType", "mime_type", "format":
			p.media = v
		case "detail":
			p.low = c.is(v, "low")
		case "type":
			textual = c.is(v, "text")
		case "file_id":
			p.remote = true
		case "content": // an Anthropic document made of blocks
			c.content(v)
		}
	}
	if textual {
		p.text, p.data = p.data, jsonspan.Value{}
	}
}
