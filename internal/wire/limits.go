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
	Now              time.Time

	requests, tokens policy
}

// tightest is the limit that binds first.
func (l *Limits) tightest() *Limit {
	r, t := &l.Requests, &l.Tokens
	if r.Limit == 0 || t.Limit != 0 && float64(t.Remaining)*float64(r.Limit) < float64(r.Remaining)*float64(t.Limit) {
		return t
	}
	return r
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
	v.begin(name)
	if l.Requests.Limit > 0 {
		v.lines = item(l.requests.of(&l.Requests, requests), v.lines, &l.Requests)
	}
	if l.Tokens.Limit > 0 {
		if l.Requests.Limit > 0 {
			v.lines = append(v.lines, ", "...)
		}
		v.lines = item(l.tokens.of(&l.Tokens, "tokens"), v.lines, &l.Tokens)
	}
	v.end()
}

// policy is what is told of a limit that stays the same from call to call: the item
// of RateLimit-Policy, which begins with the name that the item of RateLimit has,
// too.
type policy struct {
	name   string
	limit  int64
	window time.Duration

	item  []byte
	named int // how much of the item is the name
}

// of is the policy of a limit, which is mostly that of the last call's.
func (p *policy) of(l *Limit, unit string) *policy {
	if p.name != l.Name || p.limit != l.Limit || p.window != l.Window || p.item == nil {
		p.name, p.limit, p.window = l.Name, l.Limit, l.Window
		p.spell(unit)
	}
	return p
}

// spell writes the item: the name, the quota, its unit, its window. One rule may
// limit requests and tokens, and its items must not share a name: the unit tells
// them apart. Names are such that they need no escapes.
func (p *policy) spell(unit string) {
	b := append(append(p.item[:0], '"'), p.name...)
	if unit != requests {
		b = append(append(b, '/'), unit...)
	}
	b = append(b, '"')
	p.named = len(b)
	b = strconv.AppendInt(append(b, ";q="...), p.limit, 10)
	if unit != requests {
		b = append(append(append(b, `;qu="`...), unit...), '"')
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
