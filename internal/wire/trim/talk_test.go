package trim

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"strings"

	"github.com/headgate-ai/headgate/internal/llm"
)

type object = map[string]any

// talk makes random conversations. Every message has its number in a field
// that nobody knows, so that it can be found again.
type talk struct {
	*rand.Rand
	dialect llm.Dialect
	op      llm.Operation
	list    []any
	calls   int
	short   bool // no documents
}

var sentences = []string{
	"The gate at the head of the canal decides how much water enters. ",
	"Nobody asked why; it was raining! ",
	"She wrote \"done\" on the list, and went home.\n",
	"Who opens it at night? ",
	"闸门决定多少水流入运河。谁在夜里打开它？",
	"Der Wärter schließt das Tor um sechs Uhr. ",
	"if x := f(y); x != nil {\n\treturn x\n}\n",
	"🚰🌊 emoji\ttabs \\ and slashes ",
	"no_end_of_a_sentence_anywhere_in_this_one_",
}

func (r *talk) text(sentencesAtMost int) string {
	var b strings.Builder
	kind := r.Intn(3 * len(sentences))
	for range 1 + r.Intn(sentencesAtMost) {
		i := r.Intn(len(sentences))
		if kind < len(sentences) {
			i = kind // of one kind only
		}
		b.WriteString(sentences[i])
	}
	return b.String()
}

// anyText is mostly short and sometimes a document.
func (r *talk) anyText() string {
	if r.short {
		return r.text(2)
	}
	if r.Intn(6) == 0 {
		return r.text(300)
	}
	return r.text(12)
}

func (r *talk) add(m object) {
	m["x-number"] = len(r.list)
	r.list = append(r.list, m)
}

func (r *talk) textPart(role string) object {
	kind := "text"
	if r.op == llm.Responses {
		kind = map[string]string{"user": "input_text", "assistant": "output_text"}[role]
	}
	return object{"type": kind, "text": r.anyText()}
}

func (r *talk) content(role string) any {
	if r.Intn(2) == 0 {
		return r.anyText()
	}
	parts := []any{r.textPart(role)}
	if role == "user" && r.Intn(3) == 0 {
		parts = append(parts, r.attachment())
	}
	if r.Intn(3) == 0 {
		parts = append(parts, r.textPart(role))
	}
	return parts
}

func (r *talk) attachment() object {
	const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
	switch {
	case r.dialect == llm.Anthropic && r.Intn(2) == 0:
		return object{"type": "document", "source": object{"type": "text", "media_type": "text/plain", "data": r.anyText()}}
	case r.dialect == llm.Anthropic:
		return object{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": pixel}}
	case r.op == llm.Responses:
		return object{"type": "input_image", "image_url": "data:image/png;base64," + pixel}
	}
	return object{"type": "image_url", "image_url": object{"url": "data:image/png;base64," + pixel}}
}

func (r *talk) say(role string) { r.add(object{"role": role, "content": r.content(role)}) }

// tools adds calls and their results, sometimes with a user message in between.
func (r *talk) tools() {
	n := 1 + r.Intn(2)
	ids := make([]string, n)
	for i := range ids {
		r.calls++
		ids[i] = fmt.Sprintf("call_%d", r.calls%4) // ids come again
	}
	between := func() {
		if r.dialect == llm.OpenAI && r.Intn(5) == 0 {
			r.say("user")
		}
	}
	switch {
	case r.dialect == llm.Anthropic:
		uses, results := []any{object{"type": "text", "text": r.text(2)}}, []any{}
		for _, id := range ids {
			uses = append(uses, object{"type": "tool_use", "id": id, "name": "look", "input": object{"at": r.text(2)}})
			results = append(results, object{"type": "tool_result", "tool_use_id": id, "content": r.content("assistant")})
		}
		r.add(object{"role": "assistant", "content": uses})
		r.add(object{"role": "user", "content": results})
	case r.op == llm.Responses:
		for _, id := range ids {
			r.add(object{"type": "function_call", "call_id": id, "name": "look", "arguments": `{"a":1}`})
		}
		between()
		for _, id := range ids {
			r.add(object{"type": "function_call_output", "call_id": id, "output": r.anyText()})
		}
	default:
		var calls []any
		for _, id := range ids {
			calls = append(calls, object{"id": id, "type": "function", "function": object{"name": "look", "arguments": `{"a":1}`}})
		}
		r.add(object{"role": "assistant", "content": nil, "tool_calls": calls})
		between()
		for _, id := range ids {
			r.add(object{"role": "tool", "tool_call_id": id, "content": r.content("assistant")})
		}
	}
}

// body makes a conversation.
func (r *talk) body() []byte {
	r.list, r.calls = nil, 0
	system := []string{"system", "developer"}[r.Intn(2)]
	body := object{"model": "m", "temperature": 0.5, "metadata": object{"messages": []int{1, 2}}}
	if r.dialect == llm.Anthropic {
		body["system"] = r.anyText()
	} else if r.Intn(3) > 0 {
		r.say(system)
	}
	if r.dialect == llm.OpenAI && r.Intn(4) == 0 {
		r.say("assistant")
	}
	for range 1 + r.Intn(7) {
		r.say("user")
		if r.Intn(3) == 0 {
			r.tools()
		}
		if r.Intn(5) > 0 {
			r.say("assistant")
		}
		if r.dialect == llm.OpenAI && r.Intn(8) == 0 {
			r.say(system)
		}
	}
	body[keyOf(r.op)] = r.list
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err) // the values are ours
	}
	return raw
}

func keyOf(op llm.Operation) string {
	switch op {
	case llm.Responses:
		return "input"
	case llm.Completion:
		return "prompt"
	}
	return "messages"
}
