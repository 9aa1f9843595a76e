package quota

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headgate-ai/headgate/internal/fault"
	"github.com/headgate-ai/headgate/internal/llm"
)

const op = "quota.Reserve"

// refusal says what was in the way: which limit, what was asked of it, what is
// left, and when to come again.
func (t *taken) refusal(wait, now int64) *fault.Error {
	if t.limit.budget != nil {
		return t.exhausted(wait)
	}
	s := t.standing(now)
	e := &fault.Error{Kind: fault.RateLimited, Op: op, Details: map[string]any{
		"rule": s.Rule, "dimension": t.limit.dimension.String(), "limit": s.Limit, "remaining": s.Remaining, "requested": inOnes(t.n, t.whole()),
	}}
	switch {
	case wait == never:
		e.Public = fmt.Sprintf("The request needs %v %s and the limit %q lets %d through at once; make it smaller.", inOnes(t.n, t.whole()), t.limit.dimension.words(), s.Rule, s.Limit)
		e.Final = true
		return e
	case t.limit.dimension == concurrent:
		e.Public = fmt.Sprintf("The limit %q of %d requests at a time is reached; try again when one of them has ended.", s.Rule, s.Limit)
	default:
		e.Public = fmt.Sprintf("The limit %q of %v %s in %s is reached; try again in %s.", s.Rule, inOnes(t.whole().count, t.whole()), t.limit.dimension.words(), spell(s.Window), spell(roundUp(wait)))
	}
	e.RetryAfter = jittered(wait)
	e.Details["retry_after_ms"] = e.RetryAfter.Milliseconds()
	return e
}

// inOnes is an amount of a bound to be read: a whole number, or one with parts
// where the bound counts them.
func inOnes(n int64, b bound) any {
	if b.fine {
		return float64(n) / fineness
	}
	return n
}

// words names what is counted in a sentence.
func (d dimension) words() string {
	switch d {
	case inputTokens:
		return "input tokens"
	case outputTokens:
		return "output tokens"
	case money:
		return "nano-dollars"
	case concurrent:
		return "requests at a time"
	}
	return d.String()
}

// exhausted is the refusal of a budget.
func (t *taken) exhausted(wait int64) *fault.Error {
	b, left := t.limit.budget, max(0, t.left())
	e := &fault.Error{Kind: fault.QuotaExhausted, Op: op, Final: true, Details: map[string]any{
		"budget": t.limit.rule.name, "dimension": t.limit.dimension.String(),
		"limit": amount(t.limit.dimension, b.limit), "remaining": amount(t.limit.dimension, left), "estimated": amount(t.limit.dimension, t.n),
	}}
	advice := "raise the budget"
	if wait != never {
		until := time.Unix(0, t.cell.state.purse.until).In(b.zone).Format(time.RFC3339)
		e.Details["resets_at"] = until
		advice = "raise the budget, or wait until " + until
	}
	if left > 0 {
		advice += ", or ask for a shorter answer (max_tokens)"
	}
	if b.topUp != "" {
		e.Details["topup_url"] = b.topUp
		advice += "; it can be raised at " + b.topUp
	}
	e.Details["suggestion"] = advice
	e.Public = fmt.Sprintf("The budget %q has %v of %v left and the request may need %v; %s.", t.limit.rule.name,
		spoken(t.limit.dimension, left), spoken(t.limit.dimension, b.limit), spoken(t.limit.dimension, t.n), advice)
	return e
}

// amount is a number for a program: tokens, or dollars.
func amount(d dimension, n int64) any {
	if d == money {
		return llm.Money(n)
	}
	return n
}

func spoken(d dimension, n int64) string {
	if d == money {
		return llm.Money(n).String()
	}
	return fmt.Sprintf("%d tokens", n)
}

// jittered lengthens a wait by up to a tenth, so that those who were refused
// together do not come back together.
func jittered(wait int64) time.Duration {
	return time.Duration(wait + rand.Int64N(wait/10+1)) //nolint:gosec // no secret
}

// roundUp makes a wait fit for a sentence.
func roundUp(wait int64) time.Duration {
	d := time.Duration(wait)
	unit := time.Millisecond
	if d > time.Minute {
		unit = time.Second
	}
	return (d + unit - 1) / unit * unit
}

// spell writes a length of time without its empty parts: 1m instead of 1m0s.
func spell(d time.Duration) string {
	switch {
	case d > 0 && d%(24*time.Hour) == 0 && d > 24*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d == 24*time.Hour:
		return "a day"
	case d == time.Hour:
		return "an hour"
	case d == time.Minute:
		return "a minute"
	case d == time.Second:
		return "a second"
	}
	return d.String()
}
