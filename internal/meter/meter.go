// Package meter knows what usage costs: a dated price table, and the exact
// arithmetic from tokens to money. The room quota uses it to reserve and settle
// money, and the hallway to price each record; config decodes the table.
package meter

import (
	"math"
	"math/bits"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/setting"
)

// Table is a compiled price table. The zero Table has no prices. It is
// immutable.
type Table struct {
	// named has the models that rows name without a star, each with all rows that
	// match it; globs has the rows for the others. They stand in the table's order.
	named map[string][]row
	globs []row
}

type row struct {
	model, provider string // globs; an empty provider is any
	from, until     time.Time
	price           *Price
}

// applies is whether the row is for the provider, at the time.
func (r *row) applies(provider string, at time.Time) bool {
	return (r.from.IsZero() || !at.Before(r.from)) && (r.until.IsZero() || at.Before(r.until)) &&
		(r.provider == "" || setting.Match(r.provider, provider))
}

// Price finds the prices of a model at a provider for a request that began at
// the given time: those of the first row that matches. Without one it is nil,
// which costs nothing, and false.
func (t Table) Price(model, provider string, at time.Time) (*Price, bool) {
	rows, named := t.named[model]
	if !named {
		rows = t.globs
	}
	for i := range rows {
		if r := &rows[i]; (named || setting.Match(r.model, model)) && r.applies(provider, at) {
			return r.price, true
		}
	}
	return nil, false
}

// Price is the prices of one row. A nil *Price costs nothing.
type Price struct {
	request llm.Money
	tiers   []tier // ascending; the first is above -1: everything
}

type tier struct {
	above int64
	rates
}

// rates are pico-dollars per token.
type rates struct{ input, cached, cacheWrite, output, reasoning int64 }

// Cost is what the usage costs, rounded half up to a nano-dollar once, at the
// end. Counts below zero are none, and parts that are larger than their whole
// are as large as it. What exceeds the range of Money is its largest value.
func (p *Price) Cost(u llm.Usage) llm.Money {
	if p == nil {
		return 0
	}
	input, output := max(0, u.Input), max(0, u.Output)
	cached := clamp(u.Cached, input)
	written := clamp(u.CacheWrite, input-cached)
	reasoning := clamp(u.Reasoning, output)
	t := p.tiers[0]
	for _, next := range p.tiers[1:] {
		if input > next.above {
			t = next
		}
	}
	var s sum
	s.add(int64(p.request), picoPerNano)
	s.add(input-cached-written, t.input)
	s.add(cached, t.cached)
	s.add(written, t.cacheWrite)
	s.add(output-reasoning, t.output)
	s.add(reasoning, t.reasoning)
	return s.money(picoPerNano / 2)
}

// Bound is the most that a request can cost with at most so many tokens of
// prompt and answer, whatever part of them is cached, written or thought.
func (p *Price) Bound(input, maxOutput int64) llm.Money {
	if p == nil {
		return 0
	}
	input, maxOutput = max(0, input), max(0, maxOutput)
	var most llm.Money
	for _, t := range p.tiers {
		if input <= t.above {
			break
		}
		var s sum
		s.add(int64(p.request), picoPerNano)
		s.add(input, max(t.input, t.cached, t.cacheWrite))
		s.add(maxOutput, max(t.output, t.reasoning))
		most = max(most, s.money(picoPerNano-1))
	}
	return most
}

func clamp(n, most int64) int64 { return min(max(0, n), most) }

const picoPerNano = 1000

// sum is a sum of products in pico-dollars. 128 bits hold any six products of
// a count and a rate that Validate lets pass.
type sum struct{ hi, lo uint64 }

func (s *sum) add(n, each int64) {
	hi, lo := bits.Mul64(uint64(n), uint64(each))
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, lo, 0)
	s.hi, _ = bits.Add64(s.hi, hi, carry)
}

// money is the sum in nano-dollars, rounded by what is added to it first.
func (s sum) money(rounding uint64) llm.Money {
	s.add(int64(rounding), 1)
	if s.hi >= picoPerNano {
		return math.MaxInt64
	}
	nano, _ := bits.Div64(s.hi, s.lo, picoPerNano)
	return llm.Money(min(nano, math.MaxInt64))
}
