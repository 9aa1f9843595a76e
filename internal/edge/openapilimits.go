package edge

import "github.com/headgate-ai/headgate/internal/llm"

// limited is whether limits and budgets count the operation: all that is asked of
// a model.
func (r *Route) limited() bool { return r.Body != NoBody }

// limitMarker tells tools that an operation's answers say how the call stands
// against its limits.
const limitMarker = "x-rate-limit-header"

// headerDoc describes one header of answers; kind is its type in JSON Schema.
type headerDoc struct{ name, kind, doc string }

// The headers of a limited operation's answers. They are there where a limit is
// about the call.
var (
	limitHeaders = []headerDoc{
		{"X-RateLimit-Limit", "integer", "The tightest limit on the call; of a budget of money in cents."},
		{"X-RateLimit-Remaining", "integer", "What is left of it after the call was counted; never less than 0."},
		{"X-RateLimit-Reset", "integer", "When all of it is there again, in seconds since 1970."},
		{"RateLimit", "string", "What is left of each limit, by the name of its rule, and in how many seconds all of it is there again (draft-ietf-httpapi-ratelimit-headers)."},
		{"RateLimit-Policy", "string", "Each limit by the name of its rule: the quota, its unit, its window in seconds."},
	}
	dialectHeaders = map[llm.Dialect][]headerDoc{
		llm.OpenAI: {
			{"x-ratelimit-limit-requests", "integer", "The tightest limit on requests."},
			{"x-ratelimit-remaining-requests", "integer", "The requests that are left of it."},
			{"x-ratelimit-reset-requests", "string", "In how long all of them are there again, such as 6m0s."},
			{"x-ratelimit-limit-tokens", "integer", "The tightest limit on tokens."},
			{"x-ratelimit-remaining-tokens", "integer", "The tokens that are left of it."},
			{"x-ratelimit-reset-tokens", "string", "In how long all of them are there again, such as 250ms."},
		},
		llm.Anthropic: {
			{"anthropic-ratelimit-requests-limit", "integer", "The tightest limit on requests."},
			{"anthropic-ratelimit-requests-remaining", "integer", "The requests that are left of it."},
			{"anthropic-ratelimit-requests-reset", "string", "When all of them are there again, as a time of RFC 3339."},
			{"anthropic-ratelimit-tokens-limit", "integer", "The tightest limit on tokens."},
			{"anthropic-ratelimit-tokens-remaining", "integer", "The tokens that are left of it."},
			{"anthropic-ratelimit-tokens-reset", "string", "When all of them are there again, as a time of RFC 3339."},
		},
	}
	budgetHeaders = []headerDoc{
		{"X-Billing-Warning", "string", "low-balance: a budget has less left than its soft limit."},
		{"X-Headgate-Budget", "string", "The budget that has."},
		{"X-Degraded", "string", "What a budget at its end has changed: max_tokens, prompt or model."},
		{"X-Trimmed", "string", "How many tokens the prompt had, and how many it was cut to."},
	}
	retryAfterHeaders = []headerDoc{
		{"Retry-After", "integer", "In how many seconds to try again, rounded up; absent where that would not help."},
		{"retry-after-ms", "integer", "The same in milliseconds."},
		{"x-should-retry", "string", "false where trying again would not help."},
	}
)

// describeHeaders are the components that the operations refer to.
func describeHeaders() object {
	all := object{}
	for _, list := range [][]headerDoc{limitHeaders, dialectHeaders[llm.OpenAI], dialectHeaders[llm.Anthropic], budgetHeaders, retryAfterHeaders} {
		for _, h := range list {
			all[h.name] = object{"description": h.doc, "schema": object{"type": h.kind}}
		}
	}
	return all
}

// describeLimits adds to an operation what its limits make of its answers.
func (r *Route) describeLimits(op, responses object) {
	if !r.limited() {
		return
	}
	op[limitMarker] = true
	refer := func(lists ...[]headerDoc) object {
		headers := object{}
		for _, list := range lists {
			for _, h := range list {
				headers[h.name] = object{"$ref": "#/components/headers/" + h.name}
			}
		}
		return headers
	}
	responses["200"].(object)["headers"] = refer(limitHeaders, dialectHeaders[r.Dialect], budgetHeaders)
	responses["429"] = object{
		"description": "A limit or a budget does not allow the call; no model was asked.",
		"headers":     refer(limitHeaders, dialectHeaders[r.Dialect], budgetHeaders, retryAfterHeaders),
		"content":     object{"application/json": object{}},
	}
}
