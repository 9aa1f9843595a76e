package allowance

import (
	"net/http"
	"strings"
	"time"
)

// mostItems bounds how many items of a list are looked at.
const mostItems = 8

// readList reads RateLimit, and RateLimit-Policy for what its items count, as
// draft-ietf-httpapi-ratelimit-headers-10 has them, into the units of which
// nothing else was told. Of several limits on a unit it takes the tightest.
func (r *Report) readList(h http.Header, now time.Time) {
	rest := first(h[list])
	if rest == "" {
		return
	}
	var found [Units]Limit
	for u := range found {
		found[u] = unknown
	}
	policies := first(h["Ratelimit-Policy"])
	for range mostItems {
		var it item
		if it, rest = cutItem(rest); it.name == "" {
			break
		}
		l, unit, ok := it.limit(policies, now)
		if ok && (!found[unit].Known() || l.Tighter(found[unit])) {
			found[unit] = l
		}
	}
	for u, l := range found {
		if !r.Limits[u].Known() {
			r.Limits[u] = l
		}
	}
}

// item is one member of a list of structured fields (RFC 9651): a name, as it is
// written, and its parameters.
type item struct{ name, params string }

// limit is what an item of RateLimit tells, together with the policy of its
// name. Without a policy it counts requests.
func (it item) limit(policies string, now time.Time) (l Limit, unit Unit, ok bool) {
	l = unknown
	if l.Remaining = amount(it.param("r")); l.Remaining == Unknown {
		return l, 0, false
	}
	if text := it.param("t"); text != "" {
		l.Reset = reset(text, now)
	}
	p := policy(policies, it.name)
	l.Max = amount(p.param("q"))
	switch p.param("qu") {
	case "", `"requests"`:
		return l, Requests, true
	case `"tokens"`:
		return l, Tokens, true
	}
	return l, 0, false
}

// policy is the item of a list with a name.
func policy(items, name string) item {
	for range mostItems {
		var it item
		if it, items = cutItem(items); it.name == "" || it.name == name {
			return it
		}
	}
	return item{}
}

// cutItem cuts the first item off a list.
func cutItem(items string) (it item, rest string) {
	end := outside(items, ',')
	text, rest := items[:end], strings.TrimPrefix(items[end:], ",")
	at := outside(text, ';')
	return item{strings.Trim(text[:at], " \t"), text[at:]}, rest
}

// param is a parameter of the item, as it is written; "" where it has none.
func (it item) param(name string) string {
	for rest := it.params; rest != ""; {
		rest = rest[1:] // the semicolon
		end := outside(rest, ';')
		if key, value, _ := strings.Cut(rest[:end], "="); strings.Trim(key, " \t") == name {
			return strings.Trim(value, " \t")
		}
		rest = rest[end:]
	}
	return ""
}

// outside is where a character stands outside of quotes, the length of the text
// if nowhere.
func outside(text string, char byte) int {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == char && !quoted:
			return i
		}
	}
	return len(text)
}
