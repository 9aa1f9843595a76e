package tokens

// Class is the script that a text is mostly written in, as far as it matters to
// how many tokens it has. An estimate is calibrated for each class by itself.
type Class uint8

// The classes.
const (
	ClassLatin  Class = iota // words in Latin letters
	ClassCJK                 // Chinese, Japanese, Korean
	ClassScript              // other scripts: Cyrillic, Arabic, Devanagari …
	ClassDigit               // numbers
	ClassCode                // text that punctuation has a large part in: code, JSON, logs
	ClassBlank               // white space
	classes
)

var classNames = [classes]string{"latin", "cjk", "script", "digit", "code", "blank"}

// String names the class.
func (c Class) String() string {
	if c >= classes {
		return "unknown"
	}
	return classNames[c]
}

// Estimate is about how many tokens a text has, and what kind of text it is.
type Estimate struct {
	Tokens float64
	Class  Class
}

// EstimateOf is about how many tokens text has for models of the family. It
// reads the bytes once, at more than a gigabyte a second, and needs no memory.
//
// The model is a sum of a weight for every pair of neighbouring bytes, by their
// kinds: that a letter follows a space begins a word, that a capital follows a
// small letter begins a part of one, and a letter behind a letter adds the
// little that long words cost. The weights are fitted to the exact encodings on
// texts in twenty languages and several programming languages; see
// TestFitWeights. For families whose vocabulary is not public the sum for
// o200k_base is scaled by the table familyFactors.
func EstimateOf(f Family, text []byte) Estimate {
	weights := &weightsO200k
	if f == FamilyCL100k {
		weights = &weightsCL100k
	}
	sum, counts := measure(weights, text)
	e := Estimate{Tokens: float64(sum) / weightUnit, Class: counts.dominant()}
	if len(text) > 0 {
		e.Tokens = max(e.Tokens, counts.least(), 1) * factorOf(f, &counts)
	}
	return e
}

// classCounts is how many characters of each class a text has.
type classCounts [classes]int

func (n *classCounts) total() (sum int) {
	for _, c := range n {
		sum += c
	}
	return sum
}

const (
	byteKinds  = 32
	kindBits   = 5
	pairs      = byteKinds * byteKinds
	weightUnit = 1 << 16 // weights are in 1/weightUnit of a token

	laneBits = 10 // a lane of packed counts has room for a block's bytes
	laneMask = 1<<laneBits - 1
	block    = 1000
)

// measure sums the weights of all pairs of bytes, the first byte paired with a
// line end, and counts the characters of each class. The counts are packed into one
// number while a block lasts.
func measure(weights *[pairs]int32, text []byte) (sum int64, counts classCounts) {
	prev := uint(kindLine)
	for len(text) > 0 {
		part := text[:min(block, len(text))]
		text = text[len(part):]
		var packed uint64
		i := 0
		for ; i+4 <= len(part); i += 4 {
			c := part[i : i+4 : i+4]
			k0, k1, k2, k3 := uint(kindOf[c[0]]), uint(kindOf[c[1]]), uint(kindOf[c[2]]), uint(kindOf[c[3]])
			sum += int64(weights[(prev<<kindBits|k0)%pairs]) + int64(weights[(k0<<kindBits|k1)%pairs]) +
				int64(weights[(k1<<kindBits|k2)%pairs]) + int64(weights[(k2<<kindBits|k3)%pairs])
			packed += laneOf[k0%byteKinds] + laneOf[k1%byteKinds] + laneOf[k2%byteKinds] + laneOf[k3%byteKinds]
			prev = k3
		}
		for _, c := range part[i:] {
			kind := uint(kindOf[c])
			sum += int64(weights[(prev<<kindBits|kind)%pairs])
			packed += laneOf[kind%byteKinds]
			prev = kind
		}
		for c := range counts {
			counts[c] += int(packed >> (c * laneBits) & laneMask)
		}
	}
	return sum, counts
}

const (
	// wholeMeasure is up to where a text is measured as a whole, in bytes; of a
	// longer one, so many parts of partSize, evenly spread over it.
	wholeMeasure = 16 << 10
	parts        = 16
	partSize     = 512
)

// measureParts is measure at the cost of wholeMeasure bytes at most: parts of a
// long text stand for all of it.
func measureParts(weights *[pairs]int32, text []byte) (sum int64, counts classCounts) {
	if len(text) <= wholeMeasure {
		return measure(weights, text)
	}
	measured := 0
	for i := range parts {
		from := (2*i + 1) * (len(text) / parts) / 2
		part := text[cut(text, from-partSize/2):cut(text, from+partSize/2)]
		s, n := measure(weights, part)
		sum, measured = sum+s, measured+len(part)
		for c := range counts {
			counts[c] += n[c]
		}
	}
	times := float64(len(text)) / float64(max(measured, 1))
	for c := range counts {
		counts[c] = int(float64(counts[c]) * times)
	}
	return int64(float64(sum) * times), counts
}

// dominant is the class that a text is calibrated by: what most of its visible
// characters are, but a seventh of punctuation makes code.
func (n *classCounts) dominant() Class {
	visible := n.total() - n[ClassBlank]
	switch {
	case visible == 0:
		return ClassBlank
	case 2*n[ClassCJK] > visible:
		return ClassCJK
	case 2*n[ClassScript] > visible:
		return ClassScript
	case 2*n[ClassDigit] > visible:
		return ClassDigit
	case 7*n[ClassCode] > visible:
		return ClassCode
	}
	return ClassLatin
}

// familyFactors are how many tokens the families' tokenizers make where
// o200k_base makes one, by class: starting values from the vendors' statements
// about characters per token and from the sizes of the vocabularies (Claude
// about 65,000 tokens, Mistral 32,000 to 131,000, Llama and DeepSeek about
// 128,000, Qwen about 152,000 and Gemini 256,000), rounded up, because to
// reserve too little costs more than to reserve too much. A Calibration takes
// them to what a provider reports.
var familyFactors = [families][classes]float64{
	FamilyUnknown:  {1.10, 1.20, 1.30, 1.30, 1.15, 1.10},
	FamilyO200k:    {1, 1, 1, 1, 1, 1},
	FamilyCL100k:   {1, 1, 1, 1, 1, 1},
	FamilyClaude:   {1.15, 1.25, 1.40, 1.20, 1.20, 1.10},
	FamilyGemini:   {1.00, 0.95, 1.05, 2.00, 1.10, 1.00},
	FamilyLlama:    {1.02, 1.25, 1.35, 1.00, 1.02, 1.00},
	FamilyMistral:  {1.10, 1.35, 1.25, 2.00, 1.20, 1.20},
	FamilyQwen:     {1.03, 0.95, 1.40, 2.00, 1.05, 1.00},
	FamilyDeepSeek: {1.05, 0.85, 1.35, 1.20, 1.08, 1.00},
}

// least is fewer tokens than any text has that people write. Where the sum of
// weights is below, the text is a run of characters that seldom stand together.
func (n *classCounts) least() float64 {
	blanks := n[ClassBlank]
	return float64(n.total()-blanks)/10 + float64(blanks)/32
}

// factorOf is the family's factor for a text, the classes weighted by how many
// of its characters they are.
func factorOf(f Family, n *classCounts) float64 {
	if f >= families {
		f = FamilyUnknown
	}
	total := n.total()
	if f == FamilyO200k || f == FamilyCL100k || total == 0 {
		return 1
	}
	sum := 0.0
	for c, factor := range familyFactors[f] {
		sum += factor * float64(n[c])
	}
	return sum / float64(total)
}
