package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate-ai/headgate/internal/authn"
	"github.com/headgate-ai/headgate/internal/condition"
	"github.com/headgate-ai/headgate/internal/edge"
	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/route"
	"github.com/headgate-ai/headgate/internal/wire"
)

// standing is one limit in the answer of GET /v1/status/rate-limit. Amounts of
// money are dollars.
type standing struct {
	Rule      string `json:"rule"`
	Dimension string `json:"dimension"`
	Limit     any    `json:"limit"`
	Remaining any    `json:"remaining"`
	// Reset is when all of it is there again, in seconds since 1970; Window the
	// seconds that the limit is counted by, 0 for a number at once or a period of
	// the calendar.
	Reset  int64 `json:"reset"`
	Window int64 `json:"window"`
	Budget bool  `json:"budget"`
}

// status answers how the caller stands against every limit that would concern a
// call of a model, and takes nothing of any.
func (g *Gateway) status(snap *Snapshot, x *edge.Exchange, who *authn.Grant, call *llm.Call, now time.Time) error {
	call.Model = x.Query("model")
	// A model that does not exist has no provider; its other limits are told.
	choice, _ := route.Order(&snap.Route, call.Model, 0)
	model, provider := meant(call.Model, &choice), ""
	if len(choice.Legs) > 0 {
		provider = choice.Legs[0].Provider
	}
	in := g.facts(new(condition.Input), snap, x, who, call, model, now)
	if in != nil {
		in.Path, in.Op, in.Method = "/v1/chat/completions", string(llm.Chat), http.MethodPost
	}
	s := &quota.Subject{Principal: who.Principal, Model: model, Provider: provider, IP: x.Client(), Region: x.Region(), Claims: who.Claims(), Facts: in}
	limits := []standing{}
	for _, st := range g.Quota.Stand(&snap.Quota, s, now) {
		if st.Shadow {
			continue
		}
		limits = append(limits, standing{
			Rule: st.Rule, Dimension: st.Dimension, Limit: st.Amount(st.Limit), Remaining: st.Amount(st.Remaining),
			Reset: now.Add(st.Reset + time.Second - 1).Unix(), Window: int64(st.Window / time.Second), Budget: st.Budget,
		})
	}
	body, err := json.Marshal(map[string]any{
		"object": "rate_limit_status", "key": who.Key, "tenant": who.Tenant, "tier": who.Tier, "model": call.Model, "limits": limits,
	})
	if err != nil {
		return fault.Wrap(fault.Internal, "gateway.status", err)
	}
	x.Answer(http.StatusOK, edge.Buffered, func(h wire.Fields) {
		h.Put("Content-Type", "application/json")
		h.Put("Cache-Control", "no-store")
		h.Put("Content-Length", strconv.Itoa(len(body)))
	})
	if _, err := x.Write(body); err != nil {
		return fault.Wrap(fault.Canceled, "gateway.status", err)
	}
	return nil
}
