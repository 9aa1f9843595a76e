package openai

import (
	"encoding/json"
	"net/http"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// Fault writes {"error":{"message","type","param","code","details"}}; all five
// keys are always there.
func (Dialect) Fault(dst []byte, e *fault.Error, requestID string) []byte {
	dst = append(dst, `{"error":`...)
	dst = appendError(dst, e, requestID)
	return append(dst, '}')
}

func appendError(dst []byte, e *fault.Error, requestID string) []byte {
	dst = append(dst, `{"message":`...)
	dst = jsonspan.AppendQuote(dst, e.Sentence())
	dst = append(dst, `,"type":`...)
	dst = jsonspan.AppendQuote(dst, e.Kind.OpenAIType())
	dst = append(dst, `,"param":`...)
	if e.Param == "" {
		dst = append(dst, "null"...)
	} else {
		dst = jsonspan.AppendQuote(dst, e.Param)
	}
	dst = append(dst, `,"code":`...)
	dst = jsonspan.AppendQuote(dst, code(e))
	dst = append(dst, `,"details":`...)
	dst = appendDetails(dst, e.Details)
	if requestID != "" {
		dst = append(dst, `,"request_id":`...)
		dst = jsonspan.AppendQuote(dst, requestID)
	}
	return append(dst, '}')
}

func code(e *fault.Error) string {
	if e.Code != "" {
		return e.Code
	}
	return e.Kind.Code()
}

// appendDetails writes the details object. It is off the hot path, so the
// standard encoder serves; a value it cannot encode is left out.
func appendDetails(dst []byte, details map[string]any) []byte {
	if len(details) > 0 {
		if b, err := json.Marshal(details); err == nil {
			return append(dst, b...)
		}
	}
	return append(dst, "{}"...)
}

// FaultEvent ends a begun stream with an error in the way of the operation: a
// data event with an error object, or the Responses API's "error" event. No
// [DONE] follows, so that the stream cannot be taken for complete.
func (d Dialect) FaultEvent(dst []byte, op llm.Operation, e *fault.Error, requestID string) []byte {
	if op == llm.Responses {
		dst = append(dst, "event: error\ndata: {\"type\":\"error\",\"code\":"...)
		dst = jsonspan.AppendQuote(dst, code(e))
		dst = append(dst, `,"message":`...)
		dst = jsonspan.AppendQuote(dst, e.Sentence())
		dst = append(dst, `,"param":null,"error":`...)
		dst = appendError(dst, e, requestID)
		return append(dst, "}\n\n"...)
	}
	dst = append(dst, "data: "...)
	dst = d.Fault(dst, e, requestID)
	return append(dst, "\n\n"...)
}

// Refusal classifies an error answer. A body that is an error object of the
// dialect is kept for the caller as it stands; from any other only a message
// is taken, if it has one.
func (Dialect) Refusal(status int, header http.Header, body []byte) *fault.Error {
	return wire.Refuse(status, header, readError(body))
}

// readError looks for an error in a JSON body: the vendor's own shape, which
// may be passed on, or one of the shapes of compatible servers, from which the
// message is taken.
func readError(body []byte) wire.Refused {
	var r wire.Refused
	for m := jsonspan.Object(body, jsonspan.DefaultDepth); m.Next(); {
		v := m.Value()
		switch string(m.Key()) {
		case "error":
			switch v.Kind {
			case jsonspan.KindObject:
				r.Found = true
				r.Body = body
				readErrorObject(body, v, &r)
			case jsonspan.KindString:
				r.Found = true
				r.Message = jsonspan.Text(body, v)
			}
		case "message", "detail":
			if r.Message == "" && v.Kind == jsonspan.KindString {
				r.Message = jsonspan.Text(body, v)
			}
		}
	}
	if jsonspan.Valid(body, jsonspan.DefaultDepth) != nil {
		return wire.Refused{}
	}
	return r
}

func readErrorObject(body []byte, v jsonspan.Value, r *wire.Refused) {
	for m := jsonspan.In(body, v); m.Next(); {
		v := m.Value()
		switch string(m.Key()) {
		case "message":
			r.Message = jsonspan.Text(body, v)
		case "type":
			r.Type = jsonspan.Text(body, v)
		case "code":
			if n, ok := jsonspan.Int(body, v); ok && v.Kind == jsonspan.KindNumber {
				r.Status = int(n)
			} else {
				r.Code = jsonspan.Text(body, v)
			}
		}
	}
}
