package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate-ai/headgate/internal/admin"
	"github.com/headgate-ai/headgate/internal/journal"
	"github.com/headgate-ai/headgate/internal/quota"
	"github.com/headgate-ai/headgate/internal/upstream"
	"github.com/headgate-ai/headgate/internal/wire/allowance"
)

// Metrics lists what rooms other than the journal have to show. It is read when
// someone asks, and costs requests nothing. Labels are names of the
// configuration: how many keys or users there are changes no label.
var Metrics = []journal.Metric{
	{Name: "headgate_limiter_capacity", Type: journal.Gauge, Labels: ruleLabels, Help: "What a limit lets through at once, of all its subjects together."},
	{Name: "headgate_limiter_tokens", Type: journal.Gauge, Labels: ruleLabels, Help: "How much of that is there."},
	{Name: "headgate_limiter_fill_rate", Type: journal.Gauge, Labels: ruleLabels, Help: "How much comes back in a second, of all subjects together; 0 for what counts at once."},
	{Name: "headgate_limiter_fill_ratio", Type: journal.Gauge, Labels: ruleLabels, Help: "The part of the capacity that is there, from 0 to 1."},
	{Name: "headgate_limiter_factor", Type: journal.Gauge, Labels: []string{"rule", "cause"}, Help: "What a cause multiplies a limit by that moves; cause is load, health, decay or burst. capacity and fill_rate show what that comes to."},
	{Name: "headgate_limiter_profile", Type: journal.Gauge, Labels: []string{"rule", "profile"}, Help: "1 for the profile of a rule that is in force; there is none while the rule's own limit holds."},
	{Name: "headgate_limiter_conns_per_burst", Type: journal.Gauge, Labels: []string{"rule"}, Help: "Open connections of clients over what a limit on requests lets through at once; who alerts on the ratio takes 1.8."},
	{Name: "headgate_connections_open", Type: journal.Gauge, Help: "Connections of clients that are open."},
	{Name: "headgate_provider_version_changes_total", Type: journal.Counter, Labels: []string{"provider"}, Help: "How often a provider's version, as its answers name it, was seen to change; counted while limits move."},
	{Name: "headgate_limiter_decisions_total", Type: journal.Counter, Labels: append(ruleLabels[:2:2], "decision"), Help: "Calls that a limit or budget concerned; decision is admitted, refused or shadow_refused (it would have been)."},
	{Name: "headgate_provider_limit", Type: journal.Gauge, Labels: providerLabels, Help: "What a provider says it lets through, of the credential and model with the least left in proportion; dimension is requests, tokens, input_tokens or output_tokens."},
	{Name: "headgate_provider_limit_remaining", Type: journal.Gauge, Labels: providerLabels, Help: "How much of that is left, as the latest answer told it; all of it once its reset is over."},
	{Name: "headgate_provider_limit_reset_seconds", Type: journal.Gauge, Unit: "seconds", Labels: providerLabels, Help: "How long until all of it is there again."},
	{Name: "headgate_provider_retry_seconds", Type: journal.Gauge, Unit: "seconds", Labels: []string{"provider"}, Help: "For how long a provider still asks not to be called, with any of its credentials and models."},
	{Name: "headgate_limiter_cells", Type: journal.Gauge, Help: "Subjects whose counts are kept, of all limits and budgets."},
	{Name: "headgate_limiter_sync_total", Type: journal.Counter, Help: "Calls of the store that limits are shared in."},
	{Name: "headgate_limiter_sync_failures_total", Type: journal.Counter, Help: "Those of them that failed or took too long."},
	{Name: "headgate_limiter_sync_down", Type: journal.Gauge, Help: "Whether limits are kept without the store now: 1, else 0."},
	{Name: "headgate_token_count_error_ratio", Type: journal.Gauge, Labels: []string{"family"}, Help: "How far counts of prompts are off on average, as a part of what providers report, by family of models."},
	{Name: "headgate_budget_remaining_ratio", Type: journal.Gauge, Labels: []string{"budget", "dimension"}, Help: "The part of a budget that is left, of all its subjects together, from 0 to 1."},
	{Name: "headgate_ledger_spool_records", Type: journal.Gauge, Help: "Entries of the ledger that wait for its store."},
	{Name: "headgate_ledger_spool_bytes", Type: journal.Gauge, Unit: "bytes", Help: "Size of what waits."},
	{Name: "headgate_ledger_spool_age_seconds", Type: journal.Gauge, Unit: "seconds", Help: "How long the oldest of them has waited."},
	{Name: "headgate_degradation_level", Type: journal.Gauge, Labels: []string{"model"}, Help: "How far operators have turned the gateway down (model is empty) or a model that has a level of its own, from 0 (not at all) to 3 (requests of class P2 are refused)."},
}

var (
	ruleLabels     = []string{"rule", "dimension"}
	providerLabels = []string{"provider", "dimension"}
)

// collector reads the rooms' own figures when the metrics are asked for.
type collector struct {
	a     *App
	descs map[string]*prometheus.Desc
	types map[string]prometheus.ValueType
}

func newCollector(a *App) *collector {
	c := &collector{a, map[string]*prometheus.Desc{}, map[string]prometheus.ValueType{}}
	for _, m := range Metrics {
		c.descs[m.Name] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
		c.types[m.Name] = prometheus.GaugeValue
		if m.Type == journal.Counter {
			c.types[m.Name] = prometheus.CounterValue
		}
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	show := func(name string, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(c.descs[name], c.types[name], value, labels...)
	}
	now, g := time.Now(), c.a.gateway
	open := float64(c.a.connections())
	show("headgate_connections_open", open)
	for _, l := range g.Quota.Levels(&g.Snapshot().Quota, now) {
		showLevel(show, &l)
		if l.Dimension == "requests" && !l.Budget && l.Capacity > 0 {
			show("headgate_limiter_conns_per_burst", open/float64(l.Capacity), l.Rule)
		}
	}
	for provider, n := range c.a.adapter.renames.counts() {
		show("headgate_provider_version_changes_total", float64(n), provider)
	}
	for _, p := range g.Snapshot().Upstream.Providers() {
		showProvider(show, p, now)
	}
	show("headgate_limiter_cells", float64(g.Quota.Cells()))
	if s, ok := g.Quota.Shared(); ok {
		show("headgate_limiter_sync_total", float64(s.Trips))
		show("headgate_limiter_sync_failures_total", float64(s.Failures))
		down := 0.0
		if s.Down {
			down = 1
		}
		show("headgate_limiter_sync_down", down)
	}
	for family, off := range g.CountErrors() {
		show("headgate_token_count_error_ratio", off, family)
	}
	for _, model := range append(g.Degradation.Models(now), "") {
		level, _ := g.Degradation.Level(model, now)
		show("headgate_degradation_level", float64(level), model)
	}
	if g.Ledger != nil {
		lag := g.Ledger.Lag()
		show("headgate_ledger_spool_records", float64(lag.Records))
		show("headgate_ledger_spool_bytes", float64(lag.Bytes))
		show("headgate_ledger_spool_age_seconds", lag.Age.Seconds())
	}
}

// showProvider shows the tightest of the limits that a provider told.
func showProvider(show func(name string, value float64, labels ...string), p *upstream.Provider, now time.Time) {
	tightest, retry := allowance.Nothing(), now
	for _, a := range p.Allowances(now) {
		for u, l := range a.Limits {
			if l.Known() && (!tightest.Limits[u].Known() || l.Tighter(tightest.Limits[u])) {
				tightest.Limits[u] = l
			}
		}
		if a.Retry.After(retry) {
			retry = a.Retry
		}
	}
	for u, l := range tightest.Limits {
		dimension := allowance.Unit(u).String()
		if l.Max != allowance.Unknown {
			show("headgate_provider_limit", float64(l.Max), p.Name, dimension)
		}
		if l.Remaining != allowance.Unknown {
			show("headgate_provider_limit_remaining", float64(l.Remaining), p.Name, dimension)
		}
		if !l.Reset.IsZero() {
			show("headgate_provider_limit_reset_seconds", max(0, l.Reset.Sub(now).Seconds()), p.Name, dimension)
		}
	}
	show("headgate_provider_retry_seconds", retry.Sub(now).Seconds(), p.Name)
}

func showLevel(show func(name string, value float64, labels ...string), l *quota.Level) {
	for decision, n := range map[string]int64{"admitted": l.Admitted, "refused": l.Refused, "shadow_refused": l.WouldRefuse} {
		show("headgate_limiter_decisions_total", float64(n), l.Rule, l.Dimension, decision)
	}
	if l.Budget {
		show("headgate_budget_remaining_ratio", admin.FillRatio(l), l.Rule, l.Dimension)
		return
	}
	show("headgate_limiter_capacity", float64(l.Capacity), l.Rule, l.Dimension)
	show("headgate_limiter_tokens", float64(l.Available), l.Rule, l.Dimension)
	show("headgate_limiter_fill_rate", l.PerSecond, l.Rule, l.Dimension)
	show("headgate_limiter_fill_ratio", admin.FillRatio(l), l.Rule, l.Dimension)
	if l.Adapted == nil {
		return
	}
	for cause, factor := range l.Adapted.Factors {
		show("headgate_limiter_factor", factor, l.Rule, cause)
	}
	if l.Adapted.Profile != "" {
		show("headgate_limiter_profile", 1, l.Rule, l.Adapted.Profile)
	}
}
