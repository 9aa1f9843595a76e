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

// Limits is how a call stands against the tightest limit of each kind. To use it
// again for another call spares spelling the same policies anew.
type Limits struct {
	Requests, Tokens Limit
	// Other is a limit that is no rate, which counts in Unit. Only the headers
	// that belong to no dialect know such limits.
	Other Limit
	Unit  string
	// Refused is whether Other is what refused the call.
	Refused bool
	Now     time.Time

	requests, tokens, other policy
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
	l.list(v, "Ratelimit", (*policy).appendState)
	l.list(v, "Ratelimit-Policy", (*policy).appendPolicy)
}

// list is a header with an item for each limit.
func (l *Limits) list(v *Values, name string, item func(*policy, []byte, *Limit) []byte) {
	begun := false
	add := func(p *policy, k *Limit, unit string) {
		if k.Limit == 0 {
			return
		}
		if begun {
			v.lines = append(v.lines, ", "...)
		}
		v.lines, begun = item(p.of(k, unit), v.lines, k), true
	}
	v.begin(name)
	add(&l.requests, &l.Requests, requests)
	add(&l.tokens, &l.Tokens, "tokens")
	add(&l.other, &l.Other, l.Unit)
	v.end()
}

// policy is what is told of a limit that stays the same from call to call: the item
// of RateLimit-Policy, which begins with the name that the item of RateLimit has,
// too.
type policy struct {
	name, unit string
	limit      int64
	window     time.Duration

	item  []byte
	named int // how much of the item is the name
}

// of is the policy of a limit, which is mostly that of the last call's.
func (p *policy) of(l *Limit, unit string) *policy {
	if p.name != l.Name || p.unit != unit || p.limit != l.Limit || p.window != l.Window || p.item == nil {
		p.name, p.unit, p.limit, p.window = l.Name, unit, l.Limit, l.Window
		p.spell()
	}
	return p
}

// spell writes the item: the name, the quota, its unit, its window. One rule may
// limit requests and tokens, and its items must not share a name: the unit tells
// them apart. Names are such that they need no escapes.
func (p *policy) spell() {
	b := append(append(p.item[:0], '"'), p.name...)
	if p.unit != requests {
		b = append(append(b, '/'), p.unit...)
	}
	b = append(b, '"')
	p.named = len(b)
	b = strconv.AppendInt(append(b, ";q="...), p.limit, 10)
	if p.unit != requests {
		b = append(append(append(b, `;qu="`...), p.unit...), '"')
	}
	if p.window > 0 {
		b = strconv.AppendInt(append(b, ";w="...), Seconds(p.window), 10)
	}
	p.item = b
}

// appendState is an item of RateLimit: what is left, and when more comes.
func (p *policy) appendState(b []byte, l *Limit) []byte {
	b = append(b, p.item[:p.named]...)
	b = strconv.AppendInt(append(b, ";r="...), l.Remaining, 10)
	return strconv.AppendInt(append(b, ";t="...), Seconds(l.Reset), 10)
}

// appendPolicy is an item of RateLimit-Policy.
func (p *policy) appendPolicy(b []byte, _ *Limit) []byte { return append(b, p.item...) }

// requests is the unit that is meant where none is given.
const requests = "requests"

// Seconds is a length of time in whole seconds, rounded up.
func Seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
