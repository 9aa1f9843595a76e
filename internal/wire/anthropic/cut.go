package anthropic

import (
	"strconv"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// Cutter makes what can end a messages stream before its time.
func (Dialect) Cutter(llm.Operation) wire.Cutter { return &cutter{} }

// cutter ends a messages stream; of its events it need only know which content
// block is open.
type cutter struct {
	index int64
	open  bool
}

// Reason is the stop reason of a message that was cut.
func (*cutter) Reason() string { return "max_tokens" }

func (c *cutter) Event(_, data []byte) {
	var kind string
	index := int64(0)
	for m := jsonspan.Object(data, jsonspan.DefaultDepth); m.Next(); {
		switch string(m.Key()) {
		case "type":
			kind = jsonspan.Text(data, m.Value())
		case "index":
			index, _ = jsonspan.Int(data, m.Value())
		}
	}
	switch kind {
	case "content_block_start":
		c.index, c.open = index, true
	case "content_block_stop":
		c.open = false
	}
}

// End closes the open block and the message. The usage is part of the dialect
// and always told.
func (c *cutter) End(dst []byte, u llm.Usage, _ bool) []byte {
	if c.open {
		dst = append(dst, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)
		dst = append(strconv.AppendInt(dst, c.index, 10), "}\n\n"...)
	}
	dst = append(dst, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"max_tokens\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":"...)
	dst = append(strconv.AppendInt(dst, u.Output, 10), "}}\n\n"...)
	return append(dst, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
}
