package load

import (
	"bytes"
	"strconv"

	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// seen is what an event of a stream says.
type seen struct {
	content bool // a token, or part of a tool call
	end     bool // the dialect's end mark
	fault   bool // an error within the stream
	usage   int  // tokens of visible output, as reported; -1 if not
	wrong   bool // not what the dialect says it must be
}

// readEvent reads one event's data.
func readEvent(dialect string, data []byte) seen {
	if dialect == OpenAI && string(bytes.TrimSpace(data)) == "[DONE]" {
		return seen{end: true, usage: -1}
	}
	s := seen{usage: -1}
	m := jsonspan.Object(data, jsonspan.DefaultDepth)
	for m.Next() {
		v := m.Value()
		switch string(m.Key()) {
		case "choices":
			for e := jsonspan.Elements(data, v); e.Next(); {
				s.content = s.content || choiceHasContent(data, e.Value())
			}
		case "delta":
			s.content = dialect == Anthropic && hasText(data, v, "text", "partial_json", "thinking")
		case "usage":
			if dialect == OpenAI && v.Kind == jsonspan.KindObject {
				s.usage = visible(data, v)
			}
		case "error":
			s.fault = v.Kind != jsonspan.KindNull
		case "type":
			s.end = dialect == Anthropic && string(v.Of(data)) == `"message_stop"`
			s.fault = s.fault || string(v.Of(data)) == `"error"`
		}
	}
	s.wrong = m.Err() != nil
	return s
}

func choiceHasContent(data []byte, choice jsonspan.Value) bool {
	for m := jsonspan.In(data, choice); m.Next(); {
		if string(m.Key()) == "delta" {
			return hasText(data, m.Value(), "content", "reasoning_content", "tool_calls")
		}
	}
	return false
}

// hasText is whether one of an object's members is a text or a list that is not
// empty.
func hasText(data []byte, object jsonspan.Value, names ...string) bool {
	for m := jsonspan.In(data, object); m.Next(); {
		for _, name := range names {
			v := m.Value()
			long := v.Kind == jsonspan.KindString || v.Kind == jsonspan.KindArray
			if string(m.Key()) == name && long && len(v.Of(data)) > 2 {
				return true
			}
		}
	}
	return false
}

// visible is the output that a usage object tells of, hidden reasoning left
// out.
func visible(data []byte, usage jsonspan.Value) int {
	total, hidden := int64(-1), int64(0)
	for m := jsonspan.In(data, usage); m.Next(); {
		switch string(m.Key()) {
		case "completion_tokens":
			if n, ok := jsonspan.Int(data, m.Value()); ok {
				total = n
			}
		case "completion_tokens_details":
			for d := jsonspan.In(data, m.Value()); d.Next(); {
				if string(d.Key()) == "reasoning_tokens" {
					hidden, _ = jsonspan.Int(data, d.Value())
				}
			}
		}
	}
	return int(max(-1, total-hidden))
}

// stamp is what the simulator writes into a token.
type stamp struct {
	seq  int
	nano int64
}

// nextStamp finds the first ~SEQ.UNIXNANOS~ and what follows it.
func nextStamp(data []byte) (s stamp, rest []byte, ok bool) {
	for {
		i := bytes.IndexByte(data, '~')
		if i < 0 {
			return s, nil, false
		}
		data = data[i+1:]
		end := bytes.IndexByte(data, '~')
		if end < 0 {
			return s, nil, false
		}
		seq, nano, dot := bytes.Cut(data[:end], []byte{'.'})
		n, err1 := strconv.Atoi(string(seq))
		t, err2 := strconv.ParseInt(string(nano), 10, 64)
		if dot && err1 == nil && err2 == nil && n >= 0 && n < maxTokens {
			return stamp{n, t}, data[end+1:], true
		}
	}
}

// maxTokens bounds what is remembered of one stream's tokens.
const maxTokens = 1 << 24
