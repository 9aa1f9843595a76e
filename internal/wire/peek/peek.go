// Package peek reads the top level of a JSON request body once, for every
// dialect: it refuses what two parsers could read in two ways, and notes where
// the values lie that the gateway decides by.
package peek

import (
	"unicode/utf8"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

const op = "peek.Body"

// largeBody is from where on it is worth a note where the long strings are.
const largeBody = 8 << 10

// maxKeys bounds the fields of a body's top level. The vendors' largest
// requests have about forty.
const maxKeys = 512

// Names of the fields that have the same meaning in several dialects. A field
// that a dialect does not know is left out of its Fields.
type Fields struct {
	MaxTokens []string // bounds on output tokens; the smallest counts
	Prompt    string   // the field that holds the conversation or input
	Choices   string   // the field that says how many answers are wanted
	// DefaultModel is used where the dialect lets a request leave the model out.
	DefaultModel string
	// StreamOptions is whether stream_options is a field of the request.
	StreamOptions bool
}

// Body reads a request body. Every error is a *fault.Error of kind Malformed
// that says what was wrong and where.
func Body(raw []byte, f Fields) (llm.Envelope, error) {
	var env llm.Envelope
	if !utf8.Valid(raw) {
		return env, fault.New(fault.Malformed, op, "The request body is not valid UTF-8 (first at byte %d).", invalidAt(raw))
	}
	r := reader{raw: raw, fields: f, env: &env}
	m := jsonspan.Object(raw, jsonspan.DefaultDepth)
	var long *jsonspan.Long
	if len(raw) >= largeBody {
		long = new(jsonspan.Long)
		m.Note(long)
	}
	for m.Next() {
		if err := r.member(m.Key(), m.Value(), m.Count()); err != nil {
			return env, err
		}
	}
	if err := m.Err(); err != nil {
		return env, fault.New(fault.Malformed, op, "The request body is not a JSON object: %v.", err)
	}
	if long != nil {
		for _, s := range long.Spans() {
			env.Long = append(env.Long, llm.Span(s))
		}
	}
	if !r.hasModel {
		if f.DefaultModel == "" {
			return env, wrong("model", "The field \"model\" is missing; name the model to use.")
		}
		env.Model = f.DefaultModel
	}
	return env, nil
}

func invalidAt(raw []byte) int {
	for i := 0; i < len(raw); {
		r, n := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(raw)
}

func wrong(param, format string, args ...any) *fault.Error {
	e := fault.New(fault.Malformed, op, format, args...)
	e.Param = param
	return e
}

type reader struct {
	raw      []byte
	fields   Fields
	env      *llm.Envelope
	seen     seen
	hasModel bool
}

func (r *reader) member(key []byte, v jsonspan.Value, count int) error {
	if first, full := r.seen.add(key); full {
		return fault.New(fault.Malformed, op, "The request body has more than %d fields at its top level.", maxKeys)
	} else if !first {
		name := fault.Legible(string(key))
		return wrong(name, "The field %q occurs twice; parsers disagree on which counts, so send it once.", name)
	}
	switch string(key) {
	case "": // a field that the dialect has not got has no name either
	case "model":
		return r.model(v)
	case "stream":
		return r.stream(v)
	case "stream_options":
		if r.fields.StreamOptions {
			return r.streamOptions(v)
		}
	case r.fields.Choices:
		return r.choices(v)
	case r.fields.Prompt:
		r.env.PromptAt = llm.Span(v.Span)
		if v.Kind == jsonspan.KindArray {
			r.env.Messages = count
		}
	default:
		for _, name := range r.fields.MaxTokens {
			if string(key) == name {
				return r.maxTokens(name, v)
			}
		}
	}
	return nil
}

func (r *reader) model(v jsonspan.Value) error {
	if v.Kind != jsonspan.KindString {
		return wrong("model", "The field \"model\" must be a string, not %s.", v.Kind)
	}
	name := jsonspan.Text(r.raw, v)
	if name == "" {
		return wrong("model", "The field \"model\" is empty; name the model to use.")
	}
	r.hasModel = true
	r.env.Model, r.env.ModelAt = name, llm.Span(v.Span)
	return nil
}

func (r *reader) stream(v jsonspan.Value) error {
	if v.Kind != jsonspan.KindBool && v.Kind != jsonspan.KindNull {
		return wrong("stream", "The field \"stream\" must be true or false, not %s.", v.Kind)
	}
	r.env.Stream, r.env.StreamAt = jsonspan.True(r.raw, v), llm.Span(v.Span)
	return nil
}

func (r *reader) streamOptions(v jsonspan.Value) error {
	r.env.StreamOptionsAt = llm.Span(v.Span)
	if v.Kind == jsonspan.KindNull {
		return nil
	}
	if v.Kind != jsonspan.KindObject {
		return wrong("stream_options", "The field \"stream_options\" must be an object, not %s.", v.Kind)
	}
	seen := false
	for m := jsonspan.In(r.raw, v); m.Next(); {
		if string(m.Key()) != "include_usage" {
			continue
		}
		if seen {
			return wrong("stream_options", "The field \"stream_options.include_usage\" occurs twice; send it once.")
		}
		seen = true
		r.env.IncludeUsage, r.env.IncludeUsageAt = jsonspan.True(r.raw, m.Value()), llm.Span(m.Value().Span)
	}
	return nil
}

func (r *reader) maxTokens(name string, v jsonspan.Value) error {
	if v.Kind == jsonspan.KindNull {
		return nil
	}
	n, ok := jsonspan.Int(r.raw, v)
	if v.Kind != jsonspan.KindNumber || !ok || n < 0 {
		return wrong(name, "The field %q must be a whole number of tokens, zero or more.", name)
	}
	if r.env.MaxTokens == 0 || n < r.env.MaxTokens {
		r.env.MaxTokens = n
	}
	at := &r.env.MaxTokensAt[0]
	if at.Len() > 0 {
		at = &r.env.MaxTokensAt[1]
	}
	*at = llm.Span(v.Span)
	return nil
}

// choices reads how many answers are wanted. What is no such number is left to
// the provider to refuse.
func (r *reader) choices(v jsonspan.Value) error {
	if n, ok := jsonspan.Int(r.raw, v); v.Kind == jsonspan.KindNumber && ok && n > 0 {
		r.env.Choices = n
	}
	return nil
}
