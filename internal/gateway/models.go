package gateway

import (
	"net/http"
	"strconv"

	"github.com/headgate-ai/headgate/internal/authn"
	"github.com/headgate-ai/headgate/internal/edge"
	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/route"
	"github.com/headgate-ai/headgate/internal/wire"
	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// models answers what the key may use: the models that the configuration names,
// or one model by whatever name would reach it.
func models(snap *Snapshot, x *edge.Exchange, who *authn.Grant, call *llm.Call) error {
	var body []byte
	if call.Op == llm.GetModel {
		choice, err := route.Order(&snap.Route, call.Model, 0)
		if err != nil || !who.MayUse(call.Model) {
			e := fault.New(fault.ModelNotFound, "gateway.models", "The model does not exist here, or the key may not use it; GET /v1/models lists those it may.")
			e.Param = "model"
			return e
		}
		body = appendModel(nil, call.Dialect, call.Model, choice.Legs[0].Provider)
	} else {
		body = appendModels(nil, call.Dialect, allowed(snap.Route.Names(), who))
	}
	x.Answer(http.StatusOK, edge.Buffered, func(h wire.Fields) {
		h.Put("Content-Type", "application/json")
		h.Put("Content-Length", strconv.Itoa(len(body)))
	})
	if _, err := x.Write(body); err != nil {
		return fault.Wrap(fault.Canceled, "gateway.models", err)
	}
	return nil
}

func allowed(names []route.Name, who *authn.Grant) []route.Name {
	may := make([]route.Name, 0, len(names))
	for _, n := range names {
		if who.MayUse(n.Model) {
			may = append(may, n)
		}
	}
	return may
}

// The encoders append; no copy of the list and no reflection stand between it
// and the bytes.

func appendModels(dst []byte, d llm.Dialect, names []route.Name) []byte {
	if d == llm.Anthropic {
		dst = append(dst, `{"data":[`...)
	} else {
		dst = append(dst, `{"object":"list","data":[`...)
	}
	for i, n := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendModel(dst, d, n.Model, n.Provider)
	}
	dst = append(dst, ']')
	if d == llm.Anthropic {
		dst = append(dst, `,"has_more":false,"first_id":`...)
		dst = appendID(dst, names, 0)
		dst = append(dst, `,"last_id":`...)
		dst = appendID(dst, names, len(names)-1)
	}
	return append(dst, '}')
}

func appendID(dst []byte, names []route.Name, i int) []byte {
	if len(names) == 0 {
		return append(dst, "null"...)
	}
	return jsonspan.AppendQuote(dst, names[i].Model)
}

// appendModel writes one model. When it was made is not known here; the
// dialects want a time all the same, so it is the epoch.
func appendModel(dst []byte, d llm.Dialect, id, owner string) []byte {
	if d == llm.Anthropic {
		dst = append(dst, `{"type":"model","id":`...)
		dst = jsonspan.AppendQuote(dst, id)
		dst = append(dst, `,"display_name":`...)
		dst = jsonspan.AppendQuote(dst, id)
		return append(dst, `,"created_at":"1970-01-01T00:00:00Z"}`...)
	}
	dst = append(dst, `{"id":`...)
	dst = jsonspan.AppendQuote(dst, id)
	dst = append(dst, `,"object":"model","created":0,"owned_by":`...)
	dst = jsonspan.AppendQuote(dst, owner)
	return append(dst, '}')
}
