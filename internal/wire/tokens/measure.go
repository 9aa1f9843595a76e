package tokens

import "math"

const (
	byteKinds = 32
	kindBits  = 5
	pairs     = byteKinds * byteKinds

	fittedUnit = 1 << 16 // fitted weights are in 1/fittedUnit of a token
	weightUnit = 1 << 10 // the sums of weights are in 1/weightUnit of a token
	laneBits   = 7
	laneMask   = 1<<laneBits - 1
	lanes      = laneBits * int(classes)
	// block is of how many bytes the sums fit into one number: a lane has room for
	// as many characters, and what is above the lanes for as many of the heaviest
	// weights.
	block = 120
)

// weights say of each pair of neighbouring bytes, by their kinds, what the second
// one adds: to the estimate, above the lanes, and to the lane of its class. One
// addition a byte sums up both.
type weights [pairs]int64

var (
	weightsO200k  = packWeights(&fittedO200k)
	weightsCL100k = packWeights(&fittedCL100k)
)

func packWeights(fitted *[pairs]int32) *weights {
	var w weights
	for i, tokens := range fitted {
		w[i] = int64(math.Round(float64(tokens)*weightUnit/fittedUnit)) << lanes
		if class := classOfKind[i%byteKinds]; class < classes {
			w[i] += 1 << (laneBits * class)
		}
	}
	return &w
}

// weightsOf are those by which texts for models of the family are estimated.
func weightsOf(f Family) *weights {
	if f == FamilyCL100k {
		return weightsCL100k
	}
	return weightsO200k
}

// measure sums the weights of all pairs of bytes, the first byte paired with one of
// the kind prev, and counts the characters of each class.
func (w *weights) measure(prev uint8, text []byte) (sum int64, counts classCounts) {
	last := uint(prev)
	for len(text) > 0 {
		part := text[:min(block, len(text))]
		text = text[len(part):]
		var packed int64
		for ; len(part) >= 8; part = part[8:] {
			a, b, c, d := uint(kindOf[part[0]]), uint(kindOf[part[1]]), uint(kindOf[part[2]]), uint(kindOf[part[3]])
			packed += w.of(last, a) + w.of(a, b) + w.of(b, c) + w.of(c, d)
			a, b, c, last = uint(kindOf[part[4]]), uint(kindOf[part[5]]), uint(kindOf[part[6]]), uint(kindOf[part[7]])
			packed += w.of(d, a) + w.of(a, b) + w.of(b, c) + w.of(c, last)
		}
		for _, c := range part {
			kind := uint(kindOf[c])
			packed += w.of(last, kind)
			last = kind
		}
		sum += packed >> lanes
		for c := range counts {
			counts[c] += int(packed >> (laneBits * c) & laneMask)
		}
	}
	return sum, counts
}

// of is the weight of a byte of one kind behind one of another.
func (w *weights) of(prev, kind uint) int64 { return w[(prev<<kindBits|kind)%pairs] }
