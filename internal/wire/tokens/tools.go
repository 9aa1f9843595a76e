package tokens

import (
	"bytes"

	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// How OpenAI's models see the definitions of functions is not published; these
// are the constants of OpenAI's cookbook, "How to count tokens with tiktoken",
// section "tool calls". For schemas in schemas, which it leaves out, the same
// rule is used again.
const (
	functionTokensO200k  = 7
	functionTokensCL100k = 10
	propertiesTokens     = 3
	propertyTokens       = 3
	enumTokens           = -3
	enumItemTokens       = 3
	functionsTokens      = 12 // once, behind all of them
)

// tools counts the field "tools" of OpenAI's APIs, whose functions stand in the
// tool or in its field "function"; and "functions", which was there before.
func (c *counter) tools(v jsonspan.Value) {
	if v.Kind != jsonspan.KindArray || c.encoding == nil {
		c.functionsAsText(v)
		return
	}
	some := false
	for e := c.elements(v); e.Next(); some = true {
		f := e.Value()
		for m := c.in(f); m.Next(); {
			if k := string(m.Key()); (k == "function" || k == "custom") && m.Value().Kind == jsonspan.KindObject {
				f = m.Value()
			}
		}
		c.function(f)
	}
	if some {
		c.guess(functionsTokens)
	}
}

// functionsAsText counts the definitions as they are written, which is about
// what other vendors' templates show the model.
func (c *counter) functionsAsText(v jsonspan.Value) {
	if v.Kind != jsonspan.KindNull {
		c.exact = false
		c.value(v)
	}
}

// function counts one definition.
func (c *counter) function(v jsonspan.Value) {
	if v.Kind != jsonspan.KindObject {
		c.value(v)
		return
	}
	c.tokens += functionTokensO200k
	if c.family == FamilyCL100k {
		c.tokens += functionTokensCL100k - functionTokensO200k
	}
	var name, description, parameters jsonspan.Value
	for m := c.in(v); m.Next(); {
		switch string(m.Key()) {
		case "name":
			name = m.Value()
		case "description":
			description = m.Value()
		case "parameters":
			parameters = m.Value()
		}
	}
	c.line(c.str(name), jsonspan.Value{}, description)
	if parameters.Kind == jsonspan.KindObject {
		c.schema(parameters)
	}
}

// line counts "name:description" or "name:type:description"; a full stop at the
// end does not count.
func (c *counter) line(name []byte, kind, description jsonspan.Value) {
	label := append(c.scratch.label[:0], name...)
	if kind.Kind != 0 {
		label = append(label, ':')
		label = append(label, c.written(kind)...)
	}
	label = append(label, ':')
	label = append(label, bytes.TrimSuffix(c.str(description), []byte("."))...)
	c.scratch.label = label
	c.text(label)
}

// written is a string's text, or any other value as it stands.
func (c *counter) written(v jsonspan.Value) []byte {
	if v.Kind == jsonspan.KindString {
		return c.str(v)
	}
	return v.Of(c.raw)
}

// schema counts the properties of a JSON schema, and of the schemas in it.
func (c *counter) schema(v jsonspan.Value) {
	if c.depth >= maxDepth {
		c.value(v)
		return
	}
	c.depth++
	defer func() { c.depth-- }()
	for m := c.in(v); m.Next(); {
		v := m.Value()
		if v.Kind != jsonspan.KindObject {
			continue
		}
		switch string(m.Key()) {
		case "properties":
			c.properties(v)
		case "items":
			c.schema(v)
		}
	}
}

func (c *counter) properties(v jsonspan.Value) {
	some := false
	for m := c.in(v); m.Next(); some = true {
		c.tokens += propertyTokens
		if m.Value().Kind == jsonspan.KindObject {
			c.property(m.Key(), m.Value())
			c.schema(m.Value())
		} else {
			c.text(m.Key())
		}
	}
	if some {
		c.tokens += propertiesTokens
	}
}

// property counts one property's line and the values that it may have.
func (c *counter) property(name []byte, v jsonspan.Value) {
	var kind, description, enum jsonspan.Value
	for m := c.in(v); m.Next(); {
		switch string(m.Key()) {
		case "type":
			kind = m.Value()
		case "description":
			description = m.Value()
		case "enum":
			enum = m.Value()
		}
	}
	c.line(name, kind, description)
	if enum.Kind != jsonspan.KindArray {
		return
	}
	c.tokens += enumTokens
	for e := c.elements(enum); e.Next(); {
		c.tokens += enumItemTokens
		c.value(e.Value())
	}
}

// schemaOf counts the schema of a structured answer, which stands in
// "response_format" or in "format" of the field "text", as it is written.
func (c *counter) schemaOf(v jsonspan.Value) {
	if v.Kind != jsonspan.KindObject {
		return
	}
	for m := c.in(v); m.Next(); {
		switch string(m.Key()) {
		case "json_schema", "schema":
			c.exact = false
			c.value(m.Value())
		case "format":
			c.schemaOf(m.Value())
		}
	}
}
