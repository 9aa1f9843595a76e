package wire

import (
	"net/http"
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
	Now              time.Time
}

// tightest is the limit that binds first.
func (l *Limits) tightest() *Limit {
	r, t := &l.Requests, &l.Tokens
	if r.Limit == 0 || t.Limit != 0 && float64(t.Remaining)*float64(r.Limit) < float64(r.Remaining)*float64(t.Limit) {
		return t
	}
	return r
}

// GenericLimits writes the headers that belong to no dialect: the common
// X-RateLimit-Limit, -Remaining and -Reset (seconds since 1970) of the tightest
// limit, and RateLimit and RateLimit-Policy of all of them
// (draft-ietf-httpapi-ratelimit-headers-10).
func GenericLimits(h http.Header, l *Limits) {
	t := l.tightest()
	if t.Limit == 0 {
		return
	}
	values := []string{
		strconv.FormatInt(t.Limit, 10), strconv.FormatInt(t.Remaining, 10), strconv.FormatInt(l.Now.Add(t.Reset+time.Second-1).Unix(), 10),
	}
	h["X-Ratelimit-Limit"], h["X-Ratelimit-Remaining"], h["X-Ratelimit-Reset"] = values[0:1:1], values[1:2:2], values[2:3:3]
	var state, policy []byte
	for _, k := range []struct {
		limit *Limit
		unit  string
	}{{&l.Requests, "requests"}, {&l.Tokens, "tokens"}} {
		if k.limit.Limit == 0 {
			continue
		}
		state = k.limit.appendState(state)
		policy = k.limit.appendPolicy(policy, k.unit)
	}
	h["Ratelimit"], h["Ratelimit-Policy"] = []string{string(state)}, []string{string(policy)}
}

// appendState is an item of RateLimit: what is left, and when more comes.
func (l *Limit) appendState(b []byte) []byte {
	b = l.appendName(b)
	b = strconv.AppendInt(append(b, ";r="...), l.Remaining, 10)
	return strconv.AppendInt(append(b, ";t="...), Seconds(l.Reset), 10)
}

// appendPolicy is an item of RateLimit-Policy: the quota, its unit, its window.
func (l *Limit) appendPolicy(b []byte, unit string) []byte {
	b = l.appendName(b)
	b = strconv.AppendInt(append(b, ";q="...), l.Limit, 10)
	if unit != "requests" { // which is what is meant when no unit is given
		b = append(append(append(b, `;qu="`...), unit...), '"')
	}
	if l.Window > 0 {
		b = strconv.AppendInt(append(b, ";w="...), Seconds(l.Window), 10)
	}
	return b
}

// appendName begins an item; names are such that they need no escapes.
func (l *Limit) appendName(b []byte) []byte {
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	return append(append(append(b, '"'), l.Name...), '"')
}

// Seconds is a length of time in whole seconds, rounded up.
func Seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
