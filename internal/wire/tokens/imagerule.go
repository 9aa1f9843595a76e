package tokens

import (
	"math"
	"strings"
)

// unknownSide is the side in pixels of the square that an image is taken for
// when its size can not be seen: 765 tokens with gpt-4o, 1,398 with Claude.
const unknownSide = 1024

// imageRule is how a model counts an image, as its vendor publishes it.
type imageRule struct {
	by         measureBy
	base, each int     // of tiles: for the image, and for each tile
	factor     float64 // of patches: tokens each
}

type measureBy uint8

const (
	tiles   measureBy = iota // OpenAI: squares of 512 pixels, after scaling
	patches                  // OpenAI's small models: squares of 32 pixels, at most 1536
	area                     // Anthropic: a token per 750 pixels, after scaling
	crops                    // Gemini: 258 tokens per square of 768 pixels
)

// imageRules are the rows of OpenAI's guide "Images and vision" by the prefix
// of a model's name; the first that fits counts.
var imageRules = []struct {
	prefix string
	rule   imageRule
}{
	{"gpt-4o-mini", imageRule{by: tiles, base: 2833, each: 5667}},
	{"gpt-4.1-mini", imageRule{by: patches, factor: 1.62}},
	{"gpt-4.1-nano", imageRule{by: patches, factor: 2.46}},
	{"gpt-5-mini", imageRule{by: patches, factor: 1.62}},
	{"gpt-5-nano", imageRule{by: patches, factor: 2.46}},
	{"o4-mini", imageRule{by: patches, factor: 1.72}},
	{"gpt-5", imageRule{by: tiles, base: 70, each: 140}},
	{"o1", imageRule{by: tiles, base: 75, each: 150}},
	{"o3", imageRule{by: tiles, base: 75, each: 150}},
	{"computer-use", imageRule{by: tiles, base: 65, each: 129}},
	{"", imageRule{by: tiles, base: 85, each: 170}}, // gpt-4o, gpt-4.1, gpt-4.5
}

func imageRuleOf(model string) imageRule {
	model = model[strings.LastIndexByte(model, '/')+1:]
	if rest, ok := cutPrefixFold(model, "ft:"); ok {
		model = rest
	}
	for _, row := range imageRules {
		if _, ok := cutPrefixFold(model, row.prefix); ok {
			return row.rule
		}
	}
	return imageRule{by: tiles, base: 85, each: 170}
}

// fixedLow is whether low detail makes the image's size irrelevant.
func (r imageRule) fixedLow() bool { return r.by == tiles }

// tokens is what an image of a size in pixels costs.
func (r imageRule) tokens(width, height int, low bool) int {
	w, h := float64(width), float64(height)
	switch r.by {
	case patches:
		if low {
			w, h = fit512(w, h)
		}
		return int(math.Ceil(min(squares(w, h, 32), 1536) * r.factor))
	case area:
		w, h = shrink(w, h, max(w, h), 1568)
		return int(min(math.Ceil(w*h/750), 1600))
	case crops:
		if w <= 384 && h <= 384 {
			return 258
		}
		return 258 * int(min(squares(w, h, 768), 64))
	}
	if low {
		return r.base
	}
	w, h = shrink(w, h, max(w, h), 2048)
	w, h = shrink(w, h, min(w, h), 768)
	return r.base + r.each*int(squares(w, h, 512))
}

func fit512(w, h float64) (float64, float64) { return shrink(w, h, max(w, h), 512) }

// shrink scales a size so that the given side is at most so long.
func shrink(w, h, side, most float64) (float64, float64) {
	if side <= most {
		return w, h
	}
	return w * most / side, h * most / side
}

// squares is how many squares of a side it takes to cover a size.
func squares(w, h, side float64) float64 { return math.Ceil(w/side) * math.Ceil(h/side) }
