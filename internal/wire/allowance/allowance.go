// Package allowance reads what a provider says of its own limits for us: how
// much it still takes, when all of that is there again, and when to come back.
// It is a tool: it is told the time, and keeps nothing.
package allowance

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-ai/headgate/internal/wire"
)

// Unit is what a limit counts.
type Unit uint8

// The units that providers limit.
const (
	Requests Unit = iota
	Tokens
	InputTokens
	OutputTokens
	Units = 4 // how many there are
)

// String names the unit as the gateway's own limits name their dimension.
func (u Unit) String() string {
	return [Units]string{"requests", "tokens", "input_tokens", "output_tokens"}[u]
}

// Unknown stands for an amount that the provider did not tell.
const Unknown = -1

// Limit is how we stand against one limit.
type Limit struct {
	// Max is how much it lets through, Remaining how much of that is left; either
	// may be Unknown.
	Max, Remaining int64
	// Reset is when all of it is there again; the zero time is unknown.
	Reset time.Time
}

// Known is whether anything was told of the limit.
func (l Limit) Known() bool { return l != unknown }

// At is the limit as it stands at a later time, at which no more was told.
func (l Limit) At(now time.Time) Limit {
	if l.Max != Unknown && !l.Reset.IsZero() && !now.Before(l.Reset) {
		l.Remaining = l.Max
	}
	return l
}

// Tighter is whether less is left of l than of other, in proportion. Of what is
// not known all is left.
func (l Limit) Tighter(other Limit) bool { return l.part() < other.part() }

func (l Limit) part() float64 {
	switch {
	case l.Remaining == Unknown:
		return math.Inf(1)
	case l.Remaining == 0:
		return 0
	case l.Max <= 0:
		return 1
	}
	return float64(l.Remaining) / float64(l.Max)
}

var unknown = Limit{Max: Unknown, Remaining: Unknown}

// Report is what one answer told.
type Report struct {
	Limits [Units]Limit
	// Retry is when the provider wants the next call; the zero time says nothing.
	Retry time.Time
}

// Add takes up what a later report tells. What that leaves out stays: an answer
// that refuses often names no limits.
func (r *Report) Add(later *Report) {
	for u, l := range later.Limits {
		if l.Known() {
			r.Limits[u] = l
		}
	}
	if !later.Retry.IsZero() {
		r.Retry = later.Retry
	}
}

// Nothing is a report that tells nothing.
func Nothing() Report { return Report{Limits: [Units]Limit{unknown, unknown, unknown, unknown}} }

// Read reads the header of an answer, whose names are in canonical form, and
// reports whether it told anything: x-ratelimit-* as OpenAI and those like it
// have them, anthropic-ratelimit-*, the IETF's RateLimit and RateLimit-Policy for
// what neither told, and with a status that refuses retry-after-ms or
// retry-after. What cannot be read was not told. It allocates nothing.
func Read(status int, h http.Header, now time.Time) (r Report, told bool) {
	if status < http.StatusBadRequest && !tells(h) {
		return Nothing(), false
	}
	r = Nothing()
	for name, values := range h {
		if field, unit, ok := named(name); ok {
			r.Limits[unit].set(field, first(values), now)
		}
	}
	r.readList(h, now)
	if status >= http.StatusBadRequest {
		if wait := wire.RetryAfter(h, now); wait > 0 {
			r.Retry = ahead(wait.Seconds(), now)
		}
	}
	return r, r != Nothing()
}

// tells is whether a header may have something to read. Most have not.
func tells(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, openAI) || strings.HasPrefix(name, anthropic) || name == list {
			return true
		}
	}
	return false
}

// What the names of the headers begin with, and the IETF's own.
const (
	openAI    = "X-Ratelimit-"
	anthropic = "Anthropic-Ratelimit-"
	list      = "Ratelimit"
)

// named takes a vendor's header name apart: what it tells, of which unit.
func named(name string) (field string, unit Unit, ok bool) {
	if rest, found := strings.CutPrefix(name, openAI); found {
		field, rest, _ = strings.Cut(rest, "-")
		unit, ok = unitOf(rest)
		return field, unit, ok
	}
	rest, found := strings.CutPrefix(name, anthropic)
	at := strings.LastIndexByte(rest, '-')
	if !found || at < 0 {
		return "", 0, false
	}
	unit, ok = unitOf(rest[:at])
	return rest[at+1:], unit, ok
}

func unitOf(name string) (Unit, bool) {
	switch name {
	case "Requests":
		return Requests, true
	case "Tokens":
		return Tokens, true
	case "Input-Tokens":
		return InputTokens, true
	case "Output-Tokens":
		return OutputTokens, true
	}
	return 0, false
}

func (l *Limit) set(field, value string, now time.Time) {
	switch field {
	case "Limit":
		l.Max = amount(value)
	case "Remaining":
		l.Remaining = amount(value)
	case "Reset":
		l.Reset = reset(value, now)
	}
}

// amount reads a whole number; one below zero, which some send once too much was
// taken, is none left.
func amount(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return Unknown
	}
	return max(n, 0)
}

// longest is how far ahead a time may lie; what lies beyond is a mistake.
const longest = 366 * 24 * time.Hour

// ahead is the time that lies so many seconds ahead, and the zero time where
// there is none.
func ahead(seconds float64, now time.Time) time.Time {
	if !(seconds >= 0 && seconds <= longest.Seconds()) {
		return time.Time{}
	}
	return now.Add(time.Duration(math.Ceil(seconds * float64(time.Second))))
}

// epoch is the least number of seconds that counts from 1970 and not from now.
const epoch = 1e9

// reset reads when a limit is whole again: a time of RFC 3339, a span such as
// 6m0s, or a number of seconds, from now or since 1970. It looks at the shape
// first, as every parser that fails allocates its error.
func reset(text string, now time.Time) time.Time {
	switch {
	case text == "":
		return time.Time{}
	case strings.Contains(text, "T"):
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return time.Time{}
		}
		return ahead(max(0, at.Sub(now).Seconds()), now)
	case text[len(text)-1] > '9':
		span, err := time.ParseDuration(text)
		if err != nil {
			return time.Time{}
		}
		return ahead(span.Seconds(), now)
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return time.Time{}
	}
	if seconds >= epoch {
		seconds = max(0, seconds-float64(now.UnixNano())/1e9)
	}
	return ahead(seconds, now)
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
