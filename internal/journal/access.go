package journal

import (
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"
)

// logs is whether the record gets a line: always, unless it is one of the
// successful requests that are sampled away.
func (p *Plan) logs(r *Record) bool {
	if !p.cfg.Log.Enabled {
		return false
	}
	return r.Outcome != OK || p.logAll || rand.Uint64()>>1 < p.logBelow
}

// access writes the record's line into the log.
func (j *Room) access(p *Plan, r *Record) {
	l := j.log.line()
	l.begin(r.Start.Add(r.Elapsed), r.level(), "request", p.ServiceName(), r.ID)
	l.hex("trace_id", r.Trace[:])
	l.hex("span_id", r.Span[:])
	l.what(r)
	l.result(p, r)
	l.timing(r)
	l.end()
	j.log.put(l)
}

// level is how loud the record's line is: a caller's own mistake is none of
// the operator's errors.
func (r *Record) level() slog.Level {
	switch {
	case r.Outcome != Failed:
		return slog.LevelInfo
	case r.broken():
		return slog.LevelError
	}
	return slog.LevelWarn
}

func (l *line) what(r *Record) {
	l.str("method", r.Method)
	l.str("route", r.Route)
	l.str("proto", r.Proto)
	l.str("client", r.Client)
	l.str("agent", r.Agent)
	l.str("dialect", string(r.Dialect))
	l.str("operation", string(r.Op))
	l.str("key", r.Who.Key)
	l.str("tenant", r.Who.Tenant)
	l.decisions(r)
	l.str("asked", r.Asked)
	l.str("model", r.Model)
	l.str("provider", r.Provider)
	l.str("target", r.Target)
	l.bool("stream", r.Stream)
}

func (l *line) result(p *Plan, r *Record) {
	l.num("status", int64(r.Status))
	l.num("upstream_status", int64(r.UpstreamRaw))
	l.str("outcome", r.Outcome.String())
	if r.Fault != nil {
		l.str("fault", r.Fault.Kind.String())
		l.str("blame", r.Fault.Kind.Blame().String())
		l.str("error", p.Redactor.text(r.Fault.Error()))
	}
	if len(r.Warnings) > 0 {
		l.str("warnings", p.Redactor.text(strings.Join(r.Warnings, "; ")))
	}
	l.num("attempts", int64(r.Attempts))
	l.bool("reused", r.Reused)
	l.num("bytes_in", r.BytesIn)
	l.num("bytes_out", r.BytesOut)
	l.num("events", int64(r.Events))
	l.num("input_tokens", r.Usage.Input)
	l.num("cached_tokens", r.Usage.Cached)
	l.num("output_tokens", r.Usage.Output)
	if r.Cost != 0 {
		l.num("cost_nano_usd", int64(r.Cost))
	}
	l.num("reasoning_tokens", r.Usage.Reasoning)
	l.bool("estimated", r.Usage.Estimated)
	l.str("finish_reason", r.FinishReason)
}

func (l *line) timing(r *Record) {
	if r.Gaps.Count > 0 {
		l.micros("gap_p50_us", r.Gaps.P50)
		l.micros("gap_p95_us", r.Gaps.P95)
		l.micros("gap_max_us", r.Gaps.Max)
	}
	l.micros("backpressure_us", r.BackPressure)
	outer := l.open("stages_us")
	for s, d := range r.StageTime {
		l.micros(stageNames[s], d)
	}
	l.close(outer)
	l.micros("own_us", r.Own())
	l.micros("elapsed_us", r.Elapsed)
}

// seconds is a duration in the unit of metrics.
func seconds(d time.Duration) float64 { return float64(d) / float64(time.Second) }
