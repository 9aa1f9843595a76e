package admin

import (
	"net/http"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/upstream"
	"github.com/headgate-ai/headgate/internal/wire/allowance"
)

// providerView is a provider, and what its answers told of its limits for us.
type providerView struct {
	Name     string          `json:"name"`
	Dialect  llm.Dialect     `json:"dialect"`
	Accounts []allowanceView `json:"accounts"`
}

// allowanceView is what was told for one credential and model.
type allowanceView struct {
	Credential int                      `json:"credential,omitzero"`
	Model      string                   `json:"model"`
	ToldAt     time.Time                `json:"told_at"`
	RetryAt    time.Time                `json:"retry_at,omitzero"`
	Limits     map[string]toldLimitView `json:"limits"`
}

// toldLimitView is one limit; null is what was not told.
type toldLimitView struct {
	Limit     *int64     `json:"limit"`
	Remaining *int64     `json:"remaining"`
	ResetAt   *time.Time `json:"reset_at"`
}

func (g *server) providers(w http.ResponseWriter, _ *http.Request) {
	views, now := []providerView{}, time.Now()
	for _, p := range g.Upstream().Providers() {
		v := providerView{p.Name, p.Dialect, []allowanceView{}}
		for _, a := range p.Allowances(now) {
			v.Accounts = append(v.Accounts, viewOfAllowance(&a))
		}
		views = append(views, v)
	}
	write(w, http.StatusOK, map[string]any{"providers": views})
}

func viewOfAllowance(a *upstream.Allowance) allowanceView {
	v := allowanceView{a.Credential, a.Model, a.At.UTC(), a.Retry.UTC(), map[string]toldLimitView{}}
	for u, l := range a.Limits {
		if l.Known() {
			v.Limits[allowance.Unit(u).String()] = toldLimitView{told(l.Max), told(l.Remaining), toldTime(l.Reset)}
		}
	}
	return v
}

// told is an amount, nil where it was not told.
func told(n int64) *int64 {
	if n == allowance.Unknown {
		return nil
	}
	return &n
}

// toldTime is a time, nil where it was not told.
func toldTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
