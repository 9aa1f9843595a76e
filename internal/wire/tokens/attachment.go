package tokens

import (
	"bytes"

	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
)

// What is taken for attachments whose size can not be seen or is not published.
const (
	// pageBytes and pageTokens: a PDF's page has about 40 KB, and the vendors
	// say 1,500 to 3,000 tokens for a page, its picture included.
	pageBytes, pageTokens = 40_000, 2_250
	// Speech is 10 tokens a second with OpenAI; a WAV file has 48,000 bytes for
	// one (24 kHz, 16 bits), a compressed one about 16,000.
	speechTokens, waveBytes, speechBytes = 10, 48_000, 16_000
)

// attachment counts what a part has beside text.
func (c *counter) attachment(p *picture) {
	if p.text.Kind != 0 {
		c.value(p.text)
	}
	if p.data.Kind != jsonspan.KindString && !p.remote {
		return
	}
	data := c.str(p.data)
	media, encoded := splitDataURL(data)
	if media == nil && p.media.Kind == jsonspan.KindString {
		media, encoded = c.raw[p.media.Start+1:p.media.End-1], data
	}
	size := len(encoded) / 4 * 3
	switch {
	case c.isImage(p, media):
		c.image(encoded, p.low)
	case c.is(p.kind, "input_audio") || bytes.HasPrefix(media, []byte("audio/")):
		rate := speechBytes
		if bytes.HasSuffix(media, []byte("wav")) {
			rate = waveBytes
		}
		c.guess(size*speechTokens/rate + 1)
	default:
		c.guess((size/pageBytes + 1) * pageTokens)
	}
}

func (c *counter) guess(tokens int) {
	c.tokens += tokens
	c.exact = false
}

// isImage is whether an attachment is an image, by its media type or else by
// the type of its part.
func (c *counter) isImage(p *picture, media []byte) bool {
	if media != nil && bytes.IndexByte(media, '/') >= 0 {
		return bytes.HasPrefix(media, []byte("image/"))
	}
	return c.is(p.kind, "image_url") || c.is(p.kind, "input_image") || c.is(p.kind, "image")
}

// splitDataURL splits "data:image/png;base64,…" (RFC 2397) into the media type
// and what is behind the comma; both are nil if url is no such URL.
func splitDataURL(url []byte) (media, encoded []byte) {
	const scheme, longest = "data:", 200
	if len(url) < len(scheme) || !bytes.EqualFold(url[:len(scheme)], []byte(scheme)) {
		return nil, nil
	}
	url = url[len(scheme):]
	comma := bytes.IndexByte(url[:min(longest, len(url))], ',')
	if comma < 0 {
		return nil, nil
	}
	media, encoded = url[:comma], url[comma+1:]
	if at := bytes.IndexByte(media, ';'); at >= 0 {
		media = media[:at]
	}
	return media, encoded
}

// image counts one image, of which the base64 data may be missing.
func (c *counter) image(encoded []byte, low bool) {
	width, height, known := imageSize(base64Text(encoded))
	if !known {
		width, height = unknownSide, unknownSide
	}
	rule := c.imageRule()
	if !known && !(low && rule.fixedLow()) {
		c.exact = false
	}
	c.images++
	c.imageTokens += rule.tokens(width, height, low)
}

func (c *counter) imageRule() imageRule {
	switch {
	case c.family == FamilyClaude:
		return imageRule{by: area}
	case c.family == FamilyGemini:
		return imageRule{by: crops}
	}
	return imageRuleOf(c.model)
}
