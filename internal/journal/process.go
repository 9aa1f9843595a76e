package journal

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Logger is the gateway's own voice. Its lines go the same way as the access
// log's, have the same four keys (from the attributes request_id, trace_id and
// span_id where they are given) and are redacted.
func (j *Room) Logger() *slog.Logger { return slog.New(&handler{j: j}) }

// handler is a slog.Handler that writes into the sink. It is immutable: With
// and WithGroup make copies.
type handler struct {
	j     *Room
	parts []part
}

// part is one step of building a logger: a group that was opened, or else an
// attribute.
type part struct {
	group string
	attr  slog.Attr
}

func (h *handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.j.level.Level() }

func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &handler{h.j, append(slices.Clip(h.parts), part{group: name})}
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	parts := slices.Clip(h.parts)
	for _, a := range attrs {
		parts = append(parts, part{attr: a})
	}
	return &handler{h.j, parts}
}

// Handle writes the record.
func (h *handler) Handle(_ context.Context, rec slog.Record) error {
	w := attrWriter{line: h.j.log.line(), red: h.j.redactor.Load()}
	w.begin(rec.Time, rec.Level, w.red.text(rec.Message), h.j.plan.ServiceName(), h.id(rec, "request_id"))
	w.str("trace_id", h.id(rec, "trace_id"))
	w.str("span_id", h.id(rec, "span_id"))
	parts := h.parts
	if rec.NumAttrs() == 0 {
		// A group without members is left out.
		for len(parts) > 0 && parts[len(parts)-1].group != "" {
			parts = parts[:len(parts)-1]
		}
	}
	var outer []string
	for _, p := range parts {
		if p.group != "" {
			outer = append(outer, w.open(w.keyOf(p.group)))
			continue
		}
		w.attr(p.attr, len(outer) == 0)
	}
	rec.Attrs(func(a slog.Attr) bool {
		w.attr(a, len(outer) == 0)
		return true
	})
	for _, o := range slices.Backward(outer) {
		w.close(o)
	}
	w.end()
	if !h.j.log.put(w.line) {
		// The journal is closed: the last words go out at once.
		_, err := h.j.log.fallback.Write(w.b)
		return err
	}
	return nil
}

// isID tells the attributes that every line has in a fixed place.
func isID(key string) bool {
	return key == "request_id" || key == "trace_id" || key == "span_id"
}

// id finds one of the ids among the attributes outside of groups.
func (h *handler) id(rec slog.Record, key string) (id string) {
	for _, p := range h.parts {
		if p.group != "" {
			return id
		}
		if p.attr.Key == key {
			id = p.attr.Value.Resolve().String()
		}
	}
	rec.Attrs(func(a slog.Attr) bool {
		if a.Key == key {
			id = a.Value.Resolve().String()
		}
		return true
	})
	return id
}

// attrWriter writes slog attributes into a line.
type attrWriter struct {
	*line
	red *Redactor
}

func (w attrWriter) attr(a slog.Attr, top bool) {
	a.Value = a.Value.Resolve()
	if a.Equal(slog.Attr{}) || (top && isID(a.Key)) {
		return
	}
	if a.Value.Kind() == slog.KindGroup {
		w.group(a, top)
		return
	}
	w.key(w.keyOf(a.Key))
	switch v := a.Value; v.Kind() {
	case slog.KindInt64:
		w.b = strconv.AppendInt(w.b, v.Int64(), 10)
	case slog.KindUint64:
		w.b = strconv.AppendUint(w.b, v.Uint64(), 10)
	case slog.KindBool:
		w.b = strconv.AppendBool(w.b, v.Bool())
	case slog.KindFloat64:
		w.float(v.Float64())
	case slog.KindDuration:
		w.value(v.Duration().String())
	case slog.KindTime:
		w.value(v.Time().UTC().Format(time.RFC3339Nano))
	case slog.KindString:
		w.value(w.red.text(v.String()))
	default:
		w.value(w.red.text(fmt.Sprintf("%+v", v.Any())))
	}
}

// group writes a group's members; a group without a name is inlined, one
// without members left out.
func (w attrWriter) group(a slog.Attr, top bool) {
	members := a.Value.Group()
	if len(members) == 0 {
		return
	}
	if a.Key == "" {
		for _, m := range members {
			w.attr(m, top)
		}
		return
	}
	outer := w.open(w.keyOf(a.Key))
	for _, m := range members {
		w.attr(m, false)
	}
	w.close(outer)
}

// float writes a number; JSON has none that are not finite.
func (w attrWriter) float(f float64) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		w.value(strconv.FormatFloat(f, 'g', -1, 64))
		return
	}
	w.b = strconv.AppendFloat(w.b, f, 'g', -1, 64)
}

// keyOf makes a member's name fit to be written as it is.
func (w attrWriter) keyOf(k string) string {
	bare := func(c rune) bool {
		return c == '_' || c == '.' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	if !strings.ContainsFunc(k, func(c rune) bool { return !bare(c) }) {
		return k
	}
	if w.text {
		return strings.Map(func(c rune) rune {
			if bare(c) {
				return c
			}
			return '_'
		}, k)
	}
	quoted := appendJSON(nil, k)
	return string(quoted[1 : len(quoted)-1])
}
