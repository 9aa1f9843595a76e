package fake

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

var words = strings.Fields(`the water of a canal enters where its gate stands open and every field along the bank takes
	what was promised no more when rain is late they share by turns each farm has one night small stones mark how high
	it may rise in spring snow melts above town then keeper walks down with lamp to turn wheel slowly until river sings
	under bridge some say that old wood remembers floods but iron does not care who drinks first so long as level holds`)

// beyond are words outside ASCII, which break what counts bytes as characters.
var beyond = strings.Fields(`café naïve Zürich señor Łódź 水 運河 Ωmega здесь 🌊 👩‍🌾`)

// prose makes an endless text, token by token.
type prose struct {
	rng  *rand.Rand
	size int    // exact bytes of a token, 0 for words
	left int    // words until the full stop
	over []byte // text beyond the last token of exact size
	none bool   // nothing was written yet
}

func newProse(seed uint64, size int) prose {
	return prose{rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), size: size, none: true}
}

// token appends the next token to b.
func (p *prose) token(b []byte) []byte {
	if p.size == 0 {
		return p.word(b, true)
	}
	for len(p.over) < p.size {
		p.over = p.word(p.over, false)
	}
	b = append(b, p.over[:p.size]...)
	p.over = append(p.over[:0], p.over[p.size:]...)
	return b
}

func (p *prose) word(b []byte, foreign bool) []byte {
	w := words[p.rng.IntN(len(words))]
	if foreign && p.rng.IntN(16) == 0 {
		w = beyond[p.rng.IntN(len(beyond))]
	}
	first := p.left == 0
	if first {
		p.left = 5 + p.rng.IntN(9)
	}
	if !p.none {
		b = append(b, ' ')
	}
	p.none = false
	if first {
		r, n := utf8.DecodeRuneInString(w)
		b = utf8.AppendRune(b, unicode.ToUpper(r))
		w = w[n:]
	}
	b = append(b, w...)
	if p.left--; p.left == 0 {
		b = append(b, '.')
	}
	return b
}

// example makes a JSON value that a schema allows, as far as a small subset of
// JSON Schema goes. Properties come in the order of their names.
func example(schema json.RawMessage, rng *rand.Rand, depth int) []byte {
	var s struct {
		Type       any                        `json:"type"`
		Const      json.RawMessage            `json:"const"`
		Enum       []json.RawMessage          `json:"enum"`
		AnyOf      []json.RawMessage          `json:"anyOf"`
		Properties map[string]json.RawMessage `json:"properties"`
		Items      json.RawMessage            `json:"items"`
		Minimum    int                        `json:"minimum"`
		MinItems   int                        `json:"minItems"`
	}
	if json.Unmarshal(schema, &s) != nil || depth > 16 {
		return []byte("null")
	}
	if kinds, ok := s.Type.([]any); ok && len(kinds) > 0 {
		s.Type = kinds[0]
	}
	switch {
	case s.Const != nil:
		return s.Const
	case len(s.Enum) > 0:
		return s.Enum[rng.IntN(len(s.Enum))]
	case len(s.AnyOf) > 0:
		return example(s.AnyOf[0], rng, depth+1)
	}
	switch s.Type {
	case "object", nil:
		return exampleObject(s.Properties, rng, depth)
	case "array":
		b := []byte{'['}
		for i := range min(max(1, s.MinItems), 64) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, example(s.Items, rng, depth+1)...)
		}
		return append(b, ']')
	case "integer", "number":
		return strconv.AppendInt(nil, int64(s.Minimum+rng.IntN(100)), 10)
	case "boolean":
		return strconv.AppendBool(nil, rng.IntN(2) == 0)
	case "null":
		return []byte("null")
	}
	return appendQuoted(nil, words[rng.IntN(len(words))]+" "+words[rng.IntN(len(words))])
}

func exampleObject(properties map[string]json.RawMessage, rng *rand.Rand, depth int) []byte {
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	b := []byte{'{'}
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendQuoted(b, name)
		b = append(append(b, ':'), example(properties[name], rng, depth+1)...)
	}
	return append(b, '}')
}

// pieces cuts text into fragments of about six bytes, whole characters each.
func pieces(text string) (out []string) {
	for len(text) > 0 {
		n := min(6, len(text))
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n++
		}
		out = append(out, text[:n])
		text = text[n:]
	}
	return out
}
