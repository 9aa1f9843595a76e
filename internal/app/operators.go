package app

import (
	"context"
	"reflect"
	"time"

	"github.com/headgate-ai/headgate/internal/admin"
	"github.com/headgate-ai/headgate/internal/config"
	"github.com/headgate-ai/headgate/internal/gateway"
	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/upstream"
)

// operations is what the admin API shows and does.
func (a *App) operations() admin.Gateway {
	g := admin.Gateway{
		Journal: a.journal, Ready: a.Ready, Config: a.status, Reload: a.reloadNow,
		Token: func() string { return *a.adminToken.Load() },
		Audit: a.audit, Quota: a.gateway.Quota, Plan: func() *quota.Plan { return &a.gateway.Snapshot().Quota },
		Upstream:    func() *upstream.Plan { return &a.gateway.Snapshot().Upstream },
		Models:      a.models,
		Degradation: &a.gateway.Degradation,
	}
	if a.keys != nil {
		g.Keys = a.keys
	}
	if a.gateway.Ledger != nil {
		g.Usage = func(ctx context.Context, q ledger.Query, by []string) ([]ledger.Row, error) {
			return UsageRows(ctx, a.gateway.Ledger, q, by)
		}
		g.Entries = func(ctx context.Context, q ledger.Query, f func(ledger.Entry) error) error {
			return UsageEntries(ctx, a.gateway.Ledger, q, f)
		}
	}
	return g
}

// models are what calls are known by: the configured models, globs as they are
// written, and for calls that address a provider directly its name.
func (a *App) models() (names []string) {
	f := a.state.Load().running.File
	for _, m := range f.Models {
		names = append(names, m.Name)
	}
	for _, p := range f.Providers {
		names = append(names, p.Name+"/*")
	}
	return names
}

// openAudit opens the record of changes.
func (a *App) openAudit(l *config.Loaded) (err error) {
	a.audit, err = admin.OpenAudit(admin.AuditOptions{
		Path: l.Server.Admin.Audit,
		Version: func() string {
			if s := a.state.Load(); s != nil {
				return s.running.Document.Version
			}
			return ""
		},
		Redact: func(s string) string {
			if snap := a.gateway.Snapshot(); snap != nil {
				return snap.Journal.Redactor.Redact(s)
			}
			return s
		},
	})
	return err
}

// record enters what the gateway itself has changed.
func (a *App) record(e admin.Entry) {
	if err := a.audit.Record(e); err != nil {
		a.log.Error("a change was made and not recorded", "operation", e.Operation, "target", e.Target, "error", err.Error())
	}
}

// tendEvery is how often the gateway looks at what may end or change by itself.
const tendEvery = 250 * time.Millisecond

// tend follows the file of keys, and records what has come to its end.
func (a *App) tend(ctx context.Context) {
	defer a.started.Done()
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	var held held
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.followKeys()
			for _, e := range held.ended(a.gateway, time.Now()) {
				a.record(e)
			}
		}
	}
}

// held is what held at the last look and ends at a time.
type held struct {
	overrides []quota.Override
	levels    map[string]heldLevel // by model, "" for all
}

type heldLevel struct {
	level int
	until time.Time
}

// ended are the entries of what has ended since the last look by its own time.
func (h *held) ended(g *gateway.Gateway, now time.Time) (all []admin.Entry) {
	for _, o := range h.overrides {
		if !o.Until.IsZero() && !now.Before(o.Until) {
			all = append(all, admin.Entry{Who: "the gateway", Operation: "limits.expire", Target: o.Rule + "/" + o.Dimension, Step: "done", Old: o, Reason: "its time is over"})
		}
	}
	for model, l := range h.levels {
		if l.level > 0 && !now.Before(l.until) {
			all = append(all, admin.Entry{Who: "the gateway", Operation: "degrade.expire", Target: model, Step: "done", Old: l.level, New: 0, Reason: "its time is over"})
		}
	}
	h.overrides = g.Quota.Overrides(now)
	h.levels = map[string]heldLevel{}
	for _, model := range append(g.Degradation.Models(now), "") {
		level, until := g.Degradation.Level(model, now)
		h.levels[model] = heldLevel{level, until}
	}
	return all
}

// recordReload enters what a new configuration has changed of the limits.
func (a *App) recordReload(was, is *config.Loaded) {
	old, now := limitsOf(was.File), limitsOf(is.File)
	for name, v := range now {
		if reflect.DeepEqual(old[name], v) {
			delete(old, name)
			delete(now, name)
		}
	}
	if len(old)+len(now) > 0 {
		a.record(admin.Entry{Who: "configuration " + is.Document.Name, Operation: "config.reload", Target: "limits", Step: "done", Old: old, New: now})
	}
}

// limitsOf is every limit of a configuration, by what it is called.
func limitsOf(f *config.File) map[string]any {
	all := map[string]any{}
	for _, r := range f.Quota.Rules {
		all["rule "+r.Name] = config.Values(r)
	}
	for _, b := range f.Quota.Budgets {
		all["budget "+b.Name] = config.Values(b)
	}
	for name, t := range f.Tiers {
		all["tier "+name] = config.Values(t)
	}
	return all
}
