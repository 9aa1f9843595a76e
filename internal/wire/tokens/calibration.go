package tokens

// Calibration is what has been learnt about a model's tokenizer: for each class
// of text, how many tokens the provider reported where one was estimated. It is
// a value: Learn returns a new one, so that a room can keep one per model behind
// a pointer and readers need no lock. The zero value has learnt nothing.
type Calibration struct {
	excess [classes]float64 // of the factor over 1
	seen   [classes]uint32  // texts learnt from
}

const (
	// learnRate is the weight of a new text once many have been seen: an
	// exponentially weighted average over about the last forty.
	learnRate = 1.0 / 40
	// leastFactor and mostFactor bound what a tokenizer can be: no vocabulary
	// is four times another. What lies beyond is an error of the report, such
	// as a cached part left out.
	leastFactor, mostFactor = 0.25, 4.0
	// jump is by how much one text may differ from what is known, once it is
	// known, and still count for what it says.
	jump = 1.5
	// known is how many texts it takes to know.
	known = 8
)

// Factor is by what estimates of the class are to be multiplied, from 0.25 to 4.
func (c Calibration) Factor(class Class) float64 {
	if class >= classes {
		return 1
	}
	return 1 + c.excess[class]
}

// Apply is the estimate in tokens as this model counts.
func (c Calibration) Apply(e Estimate) float64 { return e.Tokens * c.Factor(e.Class) }

// Learn returns the calibration that also knows that a text estimated at e,
// before calibration, had so many tokens. The first texts count in full, their
// plain average; later ones have an exponentially falling weight. A single text
// that is far from what is known is moved closer before it counts. Counts and
// estimates that are not positive teach nothing.
func (c Calibration) Learn(actual float64, e Estimate) Calibration {
	if !(actual > 0) || !(e.Tokens > 0) || e.Class >= classes {
		return c
	}
	ratio := min(max(actual/e.Tokens, leastFactor), mostFactor)
	now := c.Factor(e.Class)
	n := &c.seen[e.Class]
	if *n >= known {
		ratio = min(max(ratio, now/jump), now*jump)
	}
	if *n < 1<<31 {
		*n++
	}
	c.excess[e.Class] += (ratio - now) * max(1/float64(*n), learnRate)
	return c
}

// Seen is how many texts of the class were learnt from.
func (c Calibration) Seen(class Class) int {
	if class >= classes {
		return 0
	}
	return int(c.seen[class])
}
