package trim

import (
	"github.com/headgate-ai/headgate/internal/wire/tokens"
)

// gauge tells how many tokens the parts of one prompt are.
type gauge struct {
	family   tokens.Family
	encoding *tokens.Encoding // nil where it is not known
	factor   float64          // of the calibration for the class of the whole prompt
	texts    int              // bytes of texts that may still be counted exactly
	turns    int              // and of turns
	count    counter
	buffer   []byte // a body made for counting
}

// counter counts a body of the prompt's kind, up to exact bytes of it exactly.
type counter func(body []byte, exact int) tokens.Count

func newGauge(model string, cal tokens.Calibration, class tokens.Class, count counter) gauge {
	family := tokens.FamilyOf(model)
	return gauge{family: family, encoding: family.Encoding(), factor: cal.Factor(class), texts: ExactBytes, turns: ExactBytes, count: count}
}

// messages is how many tokens some messages are: those of a body that has
// nothing else, less those of an empty one. key is the field they stand in, list
// one or more of them with the commas between.
func (g *gauge) messages(key string, list []byte) float64 {
	n := g.body(key, list) - g.body(key, nil)
	g.turns -= min(len(list), g.turns)
	return n
}

func (g *gauge) body(key string, list []byte) float64 {
	b := append(append(append(g.buffer[:0], `{"`...), key...), `":[`...)
	g.buffer = append(append(b, list...), `]}`...)
	n := g.count(g.buffer, g.turns)
	if g.encoding != nil {
		return float64(n.Tokens)
	}
	// Calibrated as the whole prompt is, whatever the part's own class.
	return n.Text.Tokens*g.factor + float64(n.ImageTokens)
}

// rule is how the tokens of a text and of its beginnings are told: counted, if
// there is an encoding, else estimated and multiplied.
type rule struct {
	encoding *tokens.Encoding
	family   tokens.Family
	by       float64
}

func (r *rule) of(text []byte) float64 {
	switch {
	case len(text) == 0:
		return 0
	case r.encoding != nil:
		return float64(r.encoding.Count(text))
	}
	return tokens.EstimateOf(r.family, text).Tokens * r.by
}

// text is how many tokens a text is, and by which rule its beginnings count.
func (g *gauge) text(b []byte) (float64, rule) {
	r := rule{family: g.family, by: g.factor}
	if g.encoding == nil {
		return r.of(b), r
	}
	n, exact := tokens.CountWithin(g.encoding, b, g.texts)
	g.texts -= min(len(b), g.texts)
	if exact {
		r.encoding = g.encoding
	} else {
		r.by = float64(n) / max(1, tokens.EstimateOf(g.family, b).Tokens)
	}
	return float64(n), r
}

const (
	// step is how many bytes are counted at a time on the way to a limit.
	step = 512
	// slack is how much further a step may go to end between two words, where
	// the tokens on both sides add up.
	slack = 64
)

// limit is how long the beginning of text is that has about so many tokens, at
// most. It counts that beginning once, and no more.
func (r *rule) limit(text []byte, most float64) int {
	at, sum := 0, 0.0
	for at < len(text) {
		end := stepEnd(text, at)
		n := r.of(text[at:end])
		if sum+n > most {
			return at + r.within(text[at:end], most-sum)
		}
		at, sum = end, sum+n
	}
	return at
}

// within is limit for a text that is short enough to be counted several times.
func (r *rule) within(text []byte, most float64) int {
	low, high := 0, len(text)
	for high-low > 1 {
		if mid := (low + high) / 2; r.of(text[:mid]) <= most {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

func stepEnd(text []byte, at int) int {
	if len(text)-at <= step+slack {
		return len(text)
	}
	for i := at + step; i < at+step+slack; i++ {
		if text[i] == ' ' && isLetter(text[i-1]) && isLetter(text[i+1]) {
			return i
		}
	}
	return max(runeStart(text, at+step), at+1)
}

func isLetter(c byte) bool { c |= 0x20; return 'a' <= c && c <= 'z' }
