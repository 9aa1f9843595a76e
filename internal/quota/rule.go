package quota

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/headgate-ai/headgate/internal/condition"
	"github.com/headgate-ai/headgate/internal/meter"
)

// dimension is what a limit counts.
type dimension uint8

const (
	requests dimension = iota
	tokens
	inputTokens
	outputTokens
	money // in nano-dollars
	concurrent
)

// String names the dimension in configuration, records and metrics.
func (d dimension) String() string {
	return [...]string{"requests", "tokens", "input_tokens", "output_tokens", "money", "concurrent"}[d]
}

// rule is one rule or budget, compiled.
type rule struct {
	name   string
	when   *condition.Condition // nil concerns everyone
	per    []string             // what it is kept by, as apart completes it
	shadow bool
}

// concerns is whether the rule is about this call. A condition that cannot be
// evaluated is about it: a limit must not be passed by breaking it.
func (r *rule) concerns(s *Subject) bool {
	if r.when == nil {
		return true
	}
	ok, err := r.when.Eval(s.Facts)
	return ok || err != nil
}

// named is whether names alone decide whom the rule concerns.
func (r *rule) named() bool { return r.when == nil || r.when.Uses().Within(condition.Named) }

// limit is one bound of a rule.
type limit struct {
	id        string // rule/dimension: what cells are named and ordered by
	rule      *rule
	dimension dimension
	bound     bound
	own       func(*Subject) (bound, bool) // the bound is what the credential brings
	budget    *budget                      // instead of a bound
	weights   *weights                     // of tokens; nil counts each once
	count     *Count
	override  *atomic.Pointer[overridden] // what operators have set; holds nil where they have not
	adapts    *adaptation                 // how the bound moves; nil where it stands still
}

// weights are thousandths of a token.
type weights struct{ input, cached, output, reasoning int64 }

// grantedRate is so many requests a second, and a second's worth at once.
func grantedRate(r float64) bound {
	const per = 1000 // thousandths of a second's worth are kept
	return bound{algorithm: algGCRA, count: max(1, int64(math.Round(r*per))), period: per * 1e9, burst: max(1, int64(math.Ceil(r)))}
}

// need is what a call of so many tokens needs of the limit.
func (l *limit) need(p *meter.Price, input, output int64) int64 {
	switch l.dimension {
	case tokens:
		return l.weights.sum(input, 0, output, 0)
	case inputTokens:
		return input
	case outputTokens:
		return output
	case money:
		if p == nil {
			return 0
		}
		return int64(p.Bound(input, output))
	}
	return 1
}

// actual is what a call has used of the limit, of which it has taken so much.
func (l *limit) actual(s Settlement, took int64) int64 {
	u, p := s.Usage, s.Price
	switch {
	case s.Unsent:
		return 0
	case l.dimension == tokens:
		return l.weights.sum(u.Input, u.Cached, u.Output, u.Reasoning)
	case l.dimension == inputTokens:
		return u.Input
	case l.dimension == outputTokens:
		return u.Output
	case l.dimension == money && p == nil:
		return 0
	case l.dimension == money:
		return int64(p.Cost(u))
	}
	return took // a request is what it was when it came
}

// sum weighs tokens; a part of a token counts as one.
func (w *weights) sum(input, cached, output, reasoning int64) int64 {
	if w == nil {
		return input + output
	}
	return ((input-cached)*w.input + cached*w.cached + (output-reasoning)*w.output + reasoning*w.reasoning + 999) / 1000
}

// appendKey writes the name of the cell of a subject: the limit, and what it is
// kept for. Values are escaped, so that no client can choose its key's name.
func (l *limit) appendKey(b []byte, s *Subject) []byte {
	b = append(b, l.id...)
	for _, dim := range l.rule.per {
		b = append(b, '|')
		b = append(b, dim...)
		b = append(b, '=')
		b = appendEscaped(b, reader(dim)(s))
	}
	return b
}

// readers are what a limit may be kept by, beside claims.
var readers = map[string]func(*Subject) string{
	"key":      func(s *Subject) string { return s.Key },
	"tenant":   func(s *Subject) string { return s.Tenant },
	"user":     func(s *Subject) string { return s.User },
	"model":    func(s *Subject) string { return s.Model },
	"provider": func(s *Subject) string { return s.Provider },
	"region":   func(s *Subject) string { return s.Region },
	"ip":       func(s *Subject) string { return s.IP },
}

// reader reads what a limit is kept by.
func reader(dim string) func(*Subject) string {
	if name, ok := strings.CutPrefix(dim, "claim:"); ok {
		return func(s *Subject) string { return claimText(s.Claims[name]) }
	}
	return readers[dim]
}

// claimText is a claim as a limit is kept by it: text, a number or a flag.
func claimText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// longestValue bounds what a client can make us keep; of what is longer, its
// hash stands for the rest.
const longestValue = 96

func appendEscaped(b []byte, v string) []byte {
	if len(v) > longestValue {
		rest := sha256.Sum256([]byte(v))
		v = strings.ToValidUTF8(v[:longestValue-32], "") + "~" + hex.EncodeToString(rest[:12])
	}
	for i := range len(v) {
		switch c := v[i]; c {
		case '|', '=', '%', '/':
			b = append(b, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		default:
			b = append(b, c)
		}
	}
	return b
}
