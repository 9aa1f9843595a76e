package wire

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// EditModel replaces the model's name where the provider knows it by another.
func EditModel(edits []llm.Edit, call *llm.Call, model string) []llm.Edit {
	switch {
	case model == call.Model:
		return edits
	case call.Form:
		return append(edits, llm.Edit{Span: call.ModelAt, New: []byte(model)})
	case call.ModelAt.Len() == 0:
		return append(edits, InsertMember(call.Raw, 0, `"model":`+string(jsonspan.AppendQuote(nil, model))))
	}
	return append(edits, llm.Edit{Span: call.ModelAt, New: jsonspan.AppendQuote(make([]byte, 0, len(model)+len(`""`)), model)})
}

// EditStream makes the body ask for a stream where only the Accept header did.
func EditStream(edits []llm.Edit, call *llm.Call) []llm.Edit {
	switch {
	case !call.WantsStream || call.Stream || call.Form:
		return edits
	case call.StreamAt.Len() > 0:
		return append(edits, llm.Edit{Span: call.StreamAt, New: []byte("true")})
	}
	return append(edits, InsertMember(call.Raw, 0, `"stream":true`))
}

// EditBound sets the bound on the answer's tokens where the gateway has one:
// in the fields that the client has used, else in the one that is given.
func EditBound(edits []llm.Edit, call *llm.Call, field string) []llm.Edit {
	if call.Bound <= 0 || call.Form || field == "" {
		return edits
	}
	value := strconv.FormatInt(call.Bound, 10)
	if call.MaxTokensAt[0].Len() == 0 {
		return append(edits, InsertMember(call.Raw, 0, `"`+field+`":`+value))
	}
	for _, at := range call.MaxTokensAt {
		if at.Len() > 0 {
			edits = append(edits, llm.Edit{Span: at, New: []byte(value)})
		}
	}
	return edits
}

// InsertMember puts a member first into the object that begins at or, after
// white space, behind from. First, because that needs no search for the end.
func InsertMember(raw []byte, from int, member string) llm.Edit {
	at := from + bytes.IndexByte(raw[from:], '{') + 1
	if rest := bytes.TrimLeft(raw[at:], " \t\r\n"); len(rest) > 0 && rest[0] != '}' {
		member += ","
	}
	return llm.Edit{Span: llm.Span{Start: at, End: at}, New: []byte(member)}
}

// InOrder sorts edits by where they begin; insertions at one place keep their
// order.
func InOrder(edits []llm.Edit) []llm.Edit {
	slices.SortStableFunc(edits, func(a, b llm.Edit) int { return a.Start - b.Start })
	return edits
}

// Apply appends raw with the edits made.
func Apply(dst, raw []byte, edits []llm.Edit) []byte {
	at := 0
	for _, e := range edits {
		dst = append(dst, raw[at:e.Start]...)
		dst = append(dst, e.New...)
		at = e.End
	}
	return append(dst, raw[at:]...)
}

// Grown is by how many bytes the edits lengthen a body.
func Grown(edits []llm.Edit) (n int) {
	for _, e := range edits {
		n += len(e.New) - e.Len()
	}
	return n
}
