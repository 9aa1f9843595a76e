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
	sum, counts := weightsOf(f).measure(kindLine, text)
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
