package tokens

import "unicode/utf8"

const (
	// sampleSize is about how many bytes a sample of a long text has: enough
	// that what is cut at its ends does not matter.
	sampleSize = 512
	// leastSamples is how few samples still say something about a text.
	leastSamples = 4
)

// CountWithin is how many tokens text is, at the cost of counting at most
// budget bytes of it. A text of up to budget bytes is counted exactly. Of a
// longer one, samples spread evenly over it are counted and estimated, and the
// estimate of the whole is corrected by what the samples taught; a budget too
// small for a few samples gives the estimate as it is. A budget of 0 or less
// means none.
func CountWithin(e *Encoding, text []byte, budget int) (tokens int, exact bool) {
	var s Scratch
	if len(text) <= budget {
		return e.count(text, &s), true
	}
	actual, estimated := e.sample(text, budget, &s)
	return rounded(EstimateOf(e.family(), text).Tokens * ratio(actual, estimated)), false
}

// ratio is the correction that samples taught, 1 if nothing.
func ratio(actual, estimated float64) float64 {
	if actual <= 0 || estimated <= 0 {
		return 1
	}
	return actual / estimated
}

func rounded(tokens float64) int { return int(tokens + 0.5) }

func (e *Encoding) family() Family {
	if e.letter {
		return FamilyCL100k
	}
	return FamilyO200k
}

// sample counts about budget bytes of a text that has more, and says what the
// same bytes were estimated at.
func (e *Encoding) sample(text []byte, budget int, s *Scratch) (actual, estimated float64) {
	n := budget / sampleSize
	if n < leastSamples {
		return 0, 0
	}
	for i := range n {
		// The middle of each n-th of the text, in whole numbers that do not
		// overflow for any text that fits into memory.
		from := (2*i+1)*(len(text)/n)/2 - sampleSize/2
		from = max(from, 0)
		part := text[cut(text, from):cut(text, min(from+sampleSize, len(text)))]
		actual += float64(e.count(part, s))
		estimated += EstimateOf(e.family(), part).Tokens
	}
	return actual, estimated
}

// cut is a good place to cut a text near i: before white space, where a token
// ends in any case, or where a character begins.
func cut(text []byte, i int) int {
	const reach = 48
	if i <= 0 || i >= len(text) {
		return i
	}
	for k := i; k < min(i+reach, len(text)); k++ {
		if (text[k] == ' ' || text[k] == '\n') && text[k-1] != ' ' && text[k-1] != '\n' {
			return k
		}
	}
	for k := i; k < i+utf8.UTFMax; k++ {
		if k >= len(text) || utf8.RuneStart(text[k]) {
			return k
		}
	}
	return i
}
