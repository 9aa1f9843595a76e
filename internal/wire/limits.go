package wire

import (
	"strconv"
	"time"
)

// Limit is how a call stands against one limit. The zero Limit is none.
type Limit struct {
	Name             string
	Limit, Remaining int64
	// Reset is how long until all of it is there again, Window the period that
	// the limit is counted by, 0 for a number at once.
	Reset, Window time.Duration
}

// Limits is how a call stands against the tightest limit of each kind.
type Limits struct {
	Requests, Tokens Limit
	// Other is a limit that is no rate, which counts in Unit. Only the headers
	// that belong to no dialect know such limits.
	Other Limit
	Unit  string
	// Refused is whether Other is what refused the call.
	Refused bool
	Now     time.Time
}

// tightest is the limit that binds first.
func (l *Limits) tightest() *Limit {
	if l.Refused {
		return &l.Other
	}
	return l.Requests.or(&l.Tokens).or(&l.Other)
}

// or is the other limit if that binds before this one.
func (l *Limit) or(other *Limit) *Limit {
	if l.Limit == 0 || other.Limit != 0 && float64(other.Remaining)*float64(l.Limit) < float64(l.Remaining)*float64(other.Limit) {
		return other
	}
	return l
}

// GenericLimits collects the headers that belong to no dialect: the common
// X-RateLimit-Limit, -Remaining and -Reset (seconds since 1970) of the tightest
// limit, and RateLimit and RateLimit-Policy of all of them
// (draft-ietf-httpapi-ratelimit-headers-10).
func GenericLimits(v *Values, l *Limits) {
	t := l.tightest()
	if t.Limit == 0 {
		return
	}
	v.Int("X-Ratelimit-Limit", t.Limit)
	v.Int("X-Ratelimit-Remaining", t.Remaining)
	v.Int("X-Ratelimit-Reset", l.Now.Add(t.Reset+time.Second-1).Unix())
	l.list(v, "Ratelimit", (*Limit).appendState)
	l.list(v, "Ratelimit-Policy", (*Limit).appendPolicy)
}

// list is a header with an item for each limit.
func (l *Limits) list(v *Values, name string, item func(*Limit, []byte, string) []byte) {
	begun := false
	add := func(k *Limit, unit string) {
		if k.Limit == 0 {
			return
		}
		if begun {
			v.lines = append(v.lines, ", "...)
		}
		v.lines, begun = item(k, v.lines, unit), true
	}
	v.begin(name)
	add(&l.Requests, requests)
	add(&l.Tokens, "tokens")
	add(&l.Other, l.Unit)
	v.end()
}

// appendState is an item of RateLimit: what is left, and when more comes.
func (l *Limit) appendState(b []byte, unit string) []byte {
	b = l.appendName(b, unit)
	b = strconv.AppendInt(append(b, ";r="...), l.Remaining, 10)
	return strconv.AppendInt(append(b, ";t="...), Seconds(l.Reset), 10)
}

// appendPolicy is an item of RateLimit-Policy: the quota, its unit, its window.
func (l *Limit) appendPolicy(b []byte, unit string) []byte {
	b = l.appendName(b, unit)
	b = strconv.AppendInt(append(b, ";q="...), l.Limit, 10)
	if unit != requests {
		b = append(append(append(b, `;qu="`...), unit...), '"')
	}
	if l.Window > 0 {
		b = strconv.AppendInt(append(b, ";w="...), Seconds(l.Window), 10)
	}
	return b
}

// appendName begins an item. One rule may limit requests and tokens, and its
// items must not share a name: the unit tells them apart. Names are such that
// they need no escapes.
func (l *Limit) appendName(b []byte, unit string) []byte {
	b = append(append(b, '"'), l.Name...)
	if unit != requests {
		b = append(append(b, '/'), unit...)
	}
	return append(b, '"')
}

// requests is the unit that is meant where none is given.
const requests = "requests"

// Seconds is a length of time in whole seconds, rounded up.
func Seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
