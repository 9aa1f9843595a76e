package trim

import (
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// conversation is where the messages of a body lie, and what may be done to
// them.
type conversation struct {
	raw      []byte
	key      string // the field the messages stand in
	messages []message
	texts    []text // of the messages that may be cut, in order
	turns    []turn
	// calls are the messages that made the tool calls, by their ids. An id that
	// is used again is that of the later call.
	calls map[string]int
}

// message is one element of the conversation.
type message struct {
	at    jsonspan.Span
	fixed bool // a system message: it stays even where its turn does not
	user  bool // one that may begin a turn
	odd   bool // not understood, or with a result of a call that is not here
	reach int  // the last message that has a result of a call in this one
}

// text is a string that may be cut.
type text struct {
	at      jsonspan.Value
	message int
	counted bool
	tokens  float64 // if counted
	rule    rule    // if counted
	// The plan: how many bytes of the text are kept, and their tokens.
	cut  bool
	keep int
	kept float64
}

// turn is the messages [from, to). Only one at the beginning has no user.
type turn struct {
	from, to int
	user     bool
	pinned   bool // must not be dropped
	counted  bool
	tokens   float64 // of what is not fixed, if counted
	dropped  bool    // the plan
}

// read finds the conversation of a body; false if there is none or not exactly
// one.
func read(raw []byte, dialect llm.Dialect, op llm.Operation) (*conversation, bool) {
	c := &conversation{raw: raw, calls: map[string]int{}}
	switch {
	case dialect == llm.Gemini:
		return nil, false
	case op == llm.Chat:
		c.key = "messages"
	case op == llm.Responses:
		c.key = "input"
	case op == llm.Completion:
		c.key = "prompt"
	default:
		return nil, false
	}
	var list jsonspan.Value
	m := jsonspan.Object(raw, jsonspan.DefaultDepth)
	for m.Next() {
		if string(m.Key()) != c.key {
			continue
		}
		if list.Kind != 0 {
			return nil, false
		}
		list = m.Value()
	}
	if m.Err() != nil {
		return nil, false
	}
	c.list(list, op)
	c.group()
	return c, true
}

func (c *conversation) list(v jsonspan.Value, op llm.Operation) {
	switch {
	case v.Kind == jsonspan.KindString && op != llm.Chat:
		c.bare(v)
	case v.Kind != jsonspan.KindArray:
	case op == llm.Completion:
		for e := jsonspan.Elements(c.raw, v); e.Next(); {
			c.bare(e.Value())
		}
	default:
		for e := jsonspan.Elements(c.raw, v); e.Next(); {
			c.messages = append(c.messages, message{at: e.Value().Span})
			c.element(e.Value(), op)
		}
	}
}

// bare takes a prompt without a message around it, which is one document.
func (c *conversation) bare(v jsonspan.Value) {
	c.messages = append(c.messages, message{at: v.Span, odd: true})
	c.add(v)
}

// add notes a text of the message at hand.
func (c *conversation) add(v jsonspan.Value) {
	if v.Kind == jsonspan.KindString {
		c.texts = append(c.texts, text{at: v, message: len(c.messages) - 1})
	}
}

// call notes a tool call of the message at hand.
func (c *conversation) call(id jsonspan.Value) {
	if id.Kind == jsonspan.KindString {
		c.calls[c.str(id)] = len(c.messages) - 1
	}
}

// noID stands for the id of calls that have none.
const noID = ""

// result notes the result of a call in the message at hand.
func (c *conversation) result(id jsonspan.Value) { c.resultOf(c.str(id)) }

// resultOf is result by the id's text. A result whose call is not here belongs
// to something that only the provider has.
func (c *conversation) resultOf(id string) {
	here := len(c.messages) - 1
	if from, ok := c.calls[id]; ok {
		c.messages[from].reach = here
		return
	}
	c.messages[here].odd = true
}

func (c *conversation) str(v jsonspan.Value) string { return jsonspan.Text(c.raw, v) }

// group makes turns of the messages. A user message in between a call and its
// result begins none, so that they go together.
func (c *conversation) group() {
	reach := 0
	for i := range c.messages {
		m := &c.messages[i]
		begins := m.user && reach < i
		if i == 0 || begins {
			c.turns = append(c.turns, turn{from: i, user: m.user})
		}
		t := &c.turns[len(c.turns)-1]
		t.to = i + 1
		t.pinned = t.pinned || m.odd
		reach = max(reach, m.reach)
	}
}

// older is how many turns at the beginning may be dropped: all but the latest
// three, and what stands before the first.
func (c *conversation) older() int {
	const latest = 3
	n := max(0, len(c.turns)-latest)
	if n == 0 && len(c.turns) > 1 && !c.turns[0].user {
		n = 1
	}
	return n
}

// lastUser is the latest user message, -1 if there is none.
func (c *conversation) lastUser() int {
	for i := len(c.messages) - 1; i >= 0; i-- {
		if c.messages[i].user {
			return i
		}
	}
	return -1
}

// runs calls f with the parts of a turn that are not fixed, as the messages
// [from, to).
func (c *conversation) runs(t *turn, f func(from, to int)) {
	for i := t.from; i < t.to; i++ {
		from := i
		for i < t.to && !c.messages[i].fixed {
			i++
		}
		if from < i {
			f(from, i)
		}
	}
}
