package openai

import (
	"strconv"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// responsesCutter ends a stream of the Responses API. Its last event repeats
// the whole response, so the cutter keeps what has passed: the items that are
// whole as they came, and the text of the one that is not.
type responsesCutter struct {
	seq      int64
	response []byte // the response object as the stream began with it
	items    []byte // whole items, each followed by a comma
	item     []byte // the open item, nil if there is none
	itemID   []byte // its id, quoted
	index    int64  // its output_index
	parts    []byte // its whole content parts, each followed by a comma
	part     []byte // the open content part, nil if there is none
	partAt   int64  // its content_index
	text     []byte // the text or the arguments so far, JSON escaped, without quotes
}

// Reason is the status of a response that was cut.
func (*responsesCutter) Reason() string { return "incomplete" }

// responseEvent is what the cutter reads of an event.
type responseEvent struct {
	kind                        []byte
	response, item, part, delta jsonspan.Value
	index, content              int64
}

func (c *responsesCutter) Event(_, data []byte) {
	var e responseEvent
	for m := jsonspan.Object(data, jsonspan.DefaultDepth); m.Next(); {
		v := m.Value()
		switch string(m.Key()) {
		case "type":
			e.kind = word(data, v)
		case "sequence_number":
			if n, ok := jsonspan.Int(data, v); ok {
				c.seq = n + 1
			}
		case "response":
			e.response = v
		case "item":
			e.item = v
		case "part":
			e.part = v
		case "delta":
			e.delta = v
		case "output_index":
			e.index, _ = jsonspan.Int(data, v)
		case "content_index":
			e.content, _ = jsonspan.Int(data, v)
		}
	}
	c.typed(&e, data)
}

func (c *responsesCutter) typed(e *responseEvent, data []byte) {
	switch string(e.kind) {
	case "response.created", "response.in_progress":
		c.response = append(c.response[:0], e.response.Of(data)...)
	case "response.output_item.added":
		c.item = append(c.item[:0], e.item.Of(data)...)
		c.itemID = append(c.itemID[:0], memberOf(c.item, "id").Of(c.item)...)
		c.index, c.parts, c.part, c.text = e.index, c.parts[:0], nil, c.text[:0]
	case "response.content_part.added":
		c.part, c.partAt, c.text = append([]byte(nil), e.part.Of(data)...), e.content, c.text[:0]
	case "response.output_text.delta", "response.refusal.delta", "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		if e.delta.Kind == jsonspan.KindString {
			c.text = append(c.text, data[e.delta.Start+1:e.delta.End-1]...)
		}
	case "response.content_part.done":
		c.parts = append(append(c.parts, e.part.Of(data)...), ',')
		c.part = nil
	case "response.output_item.done":
		c.items = append(append(c.items, e.item.Of(data)...), ',')
		c.item, c.part = nil, nil
	}
}

// End closes the open part and item and repeats the response as incomplete.
func (c *responsesCutter) End(dst []byte, u llm.Usage, _ bool) []byte {
	if c.part != nil {
		dst = c.endPart(dst)
	}
	if c.item != nil {
		dst = c.endItem(dst)
	}
	dst = c.event(dst, "response.incomplete")
	dst = append(dst, `,"response":`...)
	dst = replace(dst, c.response,
		"status", `"incomplete"`,
		"incomplete_details", `{"reason":"max_output_tokens"}`,
		"output", string(list(c.items)),
		"usage", string(responsesUsage(u)))
	return append(dst, "}\n\n"...)
}

func (c *responsesCutter) endPart(dst []byte) []byte {
	quoted := `"` + string(c.text) + `"`
	member, event := "text", "response.output_text.done"
	if kind := memberOf(c.part, "type"); jsonspan.Text(c.part, kind) == "refusal" {
		member, event = "refusal", "response.refusal.done"
	}
	c.part = replace(nil, c.part, member, quoted)
	dst = c.where(c.event(dst, event))
	dst = append(append(dst, `,"`+member+`":`...), quoted...)
	if member == "text" {
		dst = append(dst, `,"logprobs":[]`...)
	}
	dst = append(dst, "}\n\n"...)
	dst = c.where(c.event(dst, "response.content_part.done"))
	dst = append(append(dst, `,"part":`...), c.part...)
	c.parts = append(append(c.parts, c.part...), ',')
	return append(dst, "}\n\n"...)
}

func (c *responsesCutter) endItem(dst []byte) []byte {
	whole := c.item
	switch kind := memberOf(c.item, "type"); jsonspan.Text(c.item, kind) {
	case "message":
		whole = replace(nil, whole, "content", string(list(c.parts)), "status", `"incomplete"`)
	case "function_call":
		whole = replace(nil, whole, "arguments", `"`+string(c.text)+`"`, "status", `"incomplete"`)
	case "custom_tool_call":
		whole = replace(nil, whole, "input", `"`+string(c.text)+`"`, "status", `"incomplete"`)
	default:
		if memberOf(whole, "status").Kind != 0 {
			whole = replace(nil, whole, "status", `"incomplete"`)
		}
	}
	c.items = append(append(c.items, whole...), ',')
	dst = c.event(dst, "response.output_item.done")
	dst = strconv.AppendInt(append(dst, `,"output_index":`...), c.index, 10)
	dst = append(append(dst, `,"item":`...), whole...)
	return append(dst, "}\n\n"...)
}

// event begins an event; the caller goes on with a comma or closes it.
func (c *responsesCutter) event(dst []byte, kind string) []byte {
	dst = append(append(append(dst, "event: "...), kind...), "\ndata: {\"type\":\""...)
	dst = append(append(dst, kind...), `","sequence_number":`...)
	dst = strconv.AppendInt(dst, c.seq, 10)
	c.seq++
	return dst
}

// where says which part of which item is meant.
func (c *responsesCutter) where(dst []byte) []byte {
	if len(c.itemID) > 0 {
		dst = append(append(dst, `,"item_id":`...), c.itemID...)
	}
	dst = strconv.AppendInt(append(dst, `,"output_index":`...), c.index, 10)
	return strconv.AppendInt(append(dst, `,"content_index":`...), c.partAt, 10)
}

func responsesUsage(u llm.Usage) []byte {
	b := strconv.AppendInt([]byte(`{"input_tokens":`), u.Input, 10)
	b = strconv.AppendInt(append(b, `,"input_tokens_details":{"cached_tokens":`...), u.Cached, 10)
	b = strconv.AppendInt(append(b, `},"output_tokens":`...), u.Output, 10)
	b = strconv.AppendInt(append(b, `,"output_tokens_details":{"reasoning_tokens":`...), u.Reasoning, 10)
	b = strconv.AppendInt(append(b, `},"total_tokens":`...), u.Total(), 10)
	return append(b, '}')
}

// list makes an array of elements that are each followed by a comma.
func list(elements []byte) []byte {
	b := append([]byte{'['}, elements...)
	if len(elements) > 0 {
		b = b[:len(b)-1]
	}
	return append(b, ']')
}

// memberOf finds a member of an object.
func memberOf(object []byte, name string) jsonspan.Value {
	for m := jsonspan.Object(object, jsonspan.DefaultDepth); m.Next(); {
		if string(m.Key()) == name {
			return m.Value()
		}
	}
	return jsonspan.Value{}
}

// replace appends an object with members set: pairs of a name and a JSON text.
// Members that it lacks come last. What is no object counts as an empty one.
func replace(dst, object []byte, pairs ...string) []byte {
	start := len(dst)
	dst = append(dst, '{')
	done := make([]bool, len(pairs)/2)
	for m := jsonspan.Object(object, jsonspan.DefaultDepth); m.Next(); {
		value := m.Value().Of(object)
		for i := range done {
			if string(m.Key()) == pairs[2*i] {
				value, done[i] = []byte(pairs[2*i+1]), true
			}
		}
		dst = append(append(dst, m.KeyValue().Of(object)...), ':')
		dst = append(append(dst, value...), ',')
	}
	for i, ok := range done {
		if !ok {
			dst = append(append(append(dst, '"'), pairs[2*i]...), `":`...)
			dst = append(append(dst, pairs[2*i+1]...), ',')
		}
	}
	if len(dst) > start+1 {
		dst = dst[:len(dst)-1]
	}
	return append(dst, '}')
}
