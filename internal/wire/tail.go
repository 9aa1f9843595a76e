package wire

import (
	"bytes"

	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// LastMember finds the last occurrence of a quoted key whose value is a
// complete object, in text that may begin anywhere inside a JSON document.
func LastMember(text []byte, quotedKey string) (jsonspan.Value, bool) {
	for end := len(text); ; {
		i := bytes.LastIndex(text[:end], []byte(quotedKey))
		if i < 0 {
			return jsonspan.Value{}, false
		}
		if v, ok := objectAfter(text, i+len(quotedKey)); ok {
			return v, true
		}
		end = i
	}
}

func objectAfter(text []byte, at int) (jsonspan.Value, bool) {
	rest := bytes.TrimLeft(text[at:], " \t\r\n")
	if len(rest) == 0 || rest[0] != ':' {
		return jsonspan.Value{}, false
	}
	rest = bytes.TrimLeft(rest[1:], " \t\r\n")
	start := len(text) - len(rest)
	if len(rest) == 0 || rest[0] != '{' {
		return jsonspan.Value{}, false
	}
	// A usage object is small; its end is the brace that makes it valid.
	for i := 0; i < min(len(rest), 4096); i++ {
		if rest[i] != '}' {
			continue
		}
		if jsonspan.Valid(rest[:i+1], jsonspan.DefaultDepth) == nil {
			return jsonspan.Value{Span: jsonspan.Span{Start: start, End: start + i + 1}, Kind: jsonspan.KindObject}, true
		}
	}
	return jsonspan.Value{}, false
}
