package openai

import (
	"strconv"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// Cutter makes what can end an event stream of op before its time.
func (Dialect) Cutter(op llm.Operation) wire.Cutter {
	switch op {
	case llm.Chat, llm.Completion:
		return &chatCutter{text: op == llm.Completion}
	case llm.Responses:
		return &responsesCutter{}
	}
	return looseCutter{}
}

// looseCutter ends the streams of operations that know no length: they just
// end.
type looseCutter struct{}

func (looseCutter) Event(_, _ []byte)                          {}
func (looseCutter) End(dst []byte, _ llm.Usage, _ bool) []byte { return dst }
func (looseCutter) Reason() string                             { return "length" }

// chatCutter ends a stream of chat or text completion chunks.
type chatCutter struct {
	text    bool   // of the completions API
	head    []byte // the members that every chunk has, as the provider wrote them
	choices choices
}

// Reason is the finish reason of a choice that was cut.
func (*chatCutter) Reason() string { return "length" }

func (c *chatCutter) Event(_, data []byte) {
	head := c.head == nil
	for m := jsonspan.Object(data, jsonspan.DefaultDepth); m.Next(); {
		v := m.Value()
		switch string(m.Key()) {
		case "id", "object", "created", "model", "system_fingerprint", "service_tier":
			if head {
				c.head = append(append(c.head, m.KeyValue().Of(data)...), ':')
				c.head = append(append(c.head, v.Of(data)...), ',')
			}
		case "choices":
			for e := jsonspan.Elements(data, v); e.Next(); {
				c.choice(data, e.Value())
			}
		}
	}
}

func (c *chatCutter) choice(data []byte, v jsonspan.Value) {
	index, finished := int64(0), false
	for m := jsonspan.In(data, v); m.Next(); {
		switch string(m.Key()) {
		case "index":
			index, _ = jsonspan.Int(data, m.Value())
		case "finish_reason":
			finished = m.Value().Kind == jsonspan.KindString
		}
	}
	c.choices.note(index, finished)
}

// End closes every choice that has not finished, and tells the usage where it
// was asked for.
func (c *chatCutter) End(dst []byte, u llm.Usage, usage bool) []byte {
	for i := range int64(maxChoices) {
		if !c.choices.open(i) {
			continue
		}
		dst = append(append(dst, `data: {`...), c.head...)
		dst = strconv.AppendInt(append(dst, `"choices":[{"index":`...), i, 10)
		if c.text {
			dst = append(dst, `,"text":""`...)
		} else {
			dst = append(dst, `,"delta":{}`...)
		}
		dst = append(dst, `,"logprobs":null,"finish_reason":"length"}]}`+"\n\n"...)
	}
	if usage {
		dst = append(append(dst, `data: {`...), c.head...)
		dst = strconv.AppendInt(append(dst, `"choices":[],"usage":{"prompt_tokens":`...), u.Input, 10)
		dst = strconv.AppendInt(append(dst, `,"completion_tokens":`...), u.Output, 10)
		dst = strconv.AppendInt(append(dst, `,"total_tokens":`...), u.Total(), 10)
		dst = append(dst, "}}\n\n"...)
	}
	return append(dst, "data: [DONE]\n\n"...)
}

// maxChoices is the largest n of the chat completions API; what is above it is
// not told apart.
const maxChoices = 128

// choices are those of one stream that have been seen and that have finished.
type choices struct{ seen, done [maxChoices / 64]uint64 }

// note notes a choice, and tells whether that is news.
func (c *choices) note(index int64, finished bool) (news bool) {
	if index < 0 || index >= maxChoices {
		return false
	}
	at, bit := index/64, uint64(1)<<(index%64)
	news = c.seen[at]&bit == 0 || finished && c.done[at]&bit == 0
	c.seen[at] |= bit
	if finished {
		c.done[at] |= bit
	}
	return news
}

// open is whether a choice has begun and not finished.
func (c *choices) open(index int64) bool {
	at, bit := index/64, uint64(1)<<(index%64)
	return c.seen[at]&bit != 0 && c.done[at]&bit == 0
}

// allDone is whether every choice that has begun has finished.
func (c *choices) allDone() bool { return c.seen == c.done }
