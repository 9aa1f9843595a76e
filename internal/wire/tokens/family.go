package tokens

import "strings"

// Family is a set of models that share a tokenizer, or are taken to.
type Family uint8

// The families. Of the first two the vocabularies are public and embedded; the
// others are estimated.
const (
	FamilyUnknown  Family = iota
	FamilyO200k           // OpenAI, o200k_base
	FamilyCL100k          // OpenAI, cl100k_base
	FamilyClaude          // Anthropic
	FamilyGemini          // Google Gemini and Gemma
	FamilyLlama           // Meta Llama 3 and later
	FamilyMistral         // Mistral
	FamilyQwen            // Alibaba Qwen
	FamilyDeepSeek        // DeepSeek
	families
)

var familyNames = [families]string{
	"unknown", "o200k_base", "cl100k_base", "claude", "gemini", "llama", "mistral", "qwen", "deepseek",
}

// String is the encoding's name, or the family's.
func (f Family) String() string {
	if f >= families {
		f = FamilyUnknown
	}
	return familyNames[f]
}

// Encoding is the family's encoding, nil where it is not known.
func (f Family) Encoding() *Encoding {
	switch f {
	case FamilyO200k:
		return O200k()
	case FamilyCL100k:
		return CL100k()
	}
	return nil
}

// prefix says which family the names of models belong to that have it.
type prefix struct {
	text   string
	family Family
}

// byPrefix says which family a model's name belongs to, by the name's first letter.
// The first row whose prefix the name has counts, so longer prefixes stand before
// shorter ones.
var byPrefix = [...][]prefix{
	'a': {{"anthropic.claude", FamilyClaude}}, // as Bedrock writes it
	'b': {{"babbage-002", FamilyCL100k}},
	'c': {
		{"chatgpt-", FamilyO200k},
		{"codex-", FamilyO200k},
		{"computer-use", FamilyO200k},
		{"claude", FamilyClaude},
		{"codestral", FamilyMistral},
	},
	'd': {
		{"davinci-002", FamilyCL100k},
		{"devstral", FamilyMistral},
		{"deepseek", FamilyDeepSeek},
	},
	'g': {
		{"gpt-4o", FamilyO200k},
		{"gpt-4.", FamilyO200k}, // 4.1 and 4.5
		{"gpt-4", FamilyCL100k},
		{"gpt-3.5", FamilyCL100k},
		{"gpt-35", FamilyCL100k}, // as Azure writes it
		{"gpt-5", FamilyO200k},
		{"gpt-oss", FamilyO200k},
		{"gpt-image", FamilyO200k},
		{"gpt-realtime", FamilyO200k},
		{"gpt-audio", FamilyO200k},
		{"gemini", FamilyGemini},
		{"gemma", FamilyGemini},
	},
	'l': {{"llama", FamilyLlama}},
	'm': {
		{"meta-llama", FamilyLlama},
		{"meta.llama", FamilyLlama},
		{"mistral", FamilyMistral},
		{"ministral", FamilyMistral},
		{"magistral", FamilyMistral},
		{"mixtral", FamilyMistral},
	},
	'o': {
		{"omni-moderation", FamilyO200k},
		{"o1", FamilyO200k},
		{"o3", FamilyO200k},
		{"o4", FamilyO200k},
		{"open-mistral", FamilyMistral},
		{"open-mixtral", FamilyMistral},
	},
	'p': {{"pixtral", FamilyMistral}},
	'q': {
		{"qwen", FamilyQwen},
		{"qwq", FamilyQwen},
		{"qvq", FamilyQwen},
	},
	't': {
		{"text-embedding-3", FamilyCL100k},
		{"text-embedding-ada-002", FamilyCL100k},
	},
}

// FamilyOf is the family of a model by its name. What stands before the last
// slash, such as a provider's name, and the prefix of fine-tuned models do not
// count, nor does the case of letters. A name that is not known is
// FamilyUnknown.
func FamilyOf(model string) Family {
	if at := strings.LastIndexByte(model, '/'); at >= 0 {
		model = model[at+1:]
	}
	if rest, ok := cutPrefixFold(model, "ft:"); ok {
		model = rest
	}
	for _, row := range rowsOf(model) {
		if _, ok := cutPrefixFold(model, row.text); ok {
			return row.family
		}
	}
	return FamilyUnknown
}

// rowsOf are the rows of a name's first letter.
func rowsOf(model string) []prefix {
	if model == "" {
		return nil
	}
	initial := model[0] | 0x20 // in lower case
	if int(initial) >= len(byPrefix) {
		return nil
	}
	return byPrefix[initial]
}

// cutPrefixFold is strings.CutPrefix without regard to the case of letters.
func cutPrefixFold(s, prefix string) (rest string, ok bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}
