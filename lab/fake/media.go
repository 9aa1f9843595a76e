package fake

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"strconv"
	"strings"
)

// images is POST /v1/images/generations and /v1/images/edits.
func (c *call) images() {
	f := &c.form
	c.require("prompt")
	if strings.HasSuffix(c.path, "/edits") && f.files == 0 {
		f.reject("image", "missing_required_parameter", "Missing required parameter: 'image'.")
	}
	n := max(1, f.whole("n", 1))
	if n > 10 {
		f.reject("n", "integer_above_max_value", "Invalid 'n': expected a value <= 10, but got "+strconv.Itoa(n)+" instead.")
	}
	if c.rejected() {
		return
	}
	type item struct {
		B64 string `json:"b64_json"`
	}
	data := make([]item, n)
	for i := range data {
		data[i].B64 = base64.StdEncoding.EncodeToString(c.picture())
	}
	u := c.misreport(tally{prompt: f.promptTokens(), output: 272 * n})
	body := map[string]any{"created": epoch + c.rng.IntN(86400), "data": data}
	if !u.missing {
		body["usage"] = map[string]any{
			"input_tokens": u.prompt, "output_tokens": u.output, "total_tokens": u.prompt + u.output,
			"input_tokens_details": map[string]int{"text_tokens": u.prompt, "image_tokens": 0},
		}
	}
	c.schedule(u.prompt, 0)
	c.replyJSON(body, 0)
}

// picture is a small PNG of one colour.
func (c *call) picture() []byte {
	img := image.NewPaletted(image.Rect(0, 0, 16, 16), color.Palette{color.RGBA{
		uint8(c.rng.IntN(256)), uint8(c.rng.IntN(256)), uint8(c.rng.IntN(256)), 255,
	}})
	var b bytes.Buffer
	png.Encode(&b, img)
	return b.Bytes()
}

// audioTypes are the content types of the formats of speech.
var audioTypes = map[string]string{
	"": "audio/mpeg", "mp3": "audio/mpeg", "opus": "audio/opus", "aac": "audio/aac", "flac": "audio/flac", "wav": "audio/wav", "pcm": "audio/pcm",
}

// speech is POST /v1/audio/speech: bytes that no text encoding survives, 1 KiB
// a token.
func (c *call) speech() {
	c.require("model", "input", "voice")
	format := c.form.text("response_format")
	kind, ok := audioTypes[format]
	if !ok {
		c.form.reject("response_format", "invalid_value", "Invalid value: '"+format+"'. Supported values are: 'mp3', 'opus', 'aac', 'flac', 'wav' and 'pcm'.")
	}
	if c.rejected() {
		return
	}
	tokens := max(1, c.cfg.Tokens.Int(c.rng))
	audio := make([]byte, tokens<<10)
	for i := range audio {
		audio[i] = byte(c.rng.Uint32())
	}
	c.schedule(c.form.promptTokens(), 0)
	c.reply(kind, audio, tokens)
}

// transcribe is POST /v1/audio/transcriptions and /v1/audio/translations.
func (c *call) transcribe() {
	c.require("model")
	if c.form.files == 0 {
		c.form.reject("file", "missing_required_parameter", "Missing required parameter: 'file'.")
	}
	if c.rejected() {
		return
	}
	tokens := c.cfg.Tokens.Int(c.rng)
	b := block{size: tokens, seed: c.rng.Uint64()}
	words := b.text(c.cfg.BytesPerToken)
	c.schedule(len(c.body)/4096, 0)
	switch c.form.text("response_format") {
	case "text", "srt", "vtt":
		c.reply("text/plain; charset=utf-8", []byte(words+"\n"), tokens)
		return
	}
	u := c.misreport(tally{prompt: len(c.body) / 4096, output: tokens})
	body := map[string]any{"text": words}
	if !u.missing {
		body["usage"] = map[string]any{
			"type": "tokens", "input_tokens": u.prompt, "output_tokens": u.output, "total_tokens": u.prompt + u.output,
			"input_token_details": map[string]int{"text_tokens": 0, "audio_tokens": u.prompt},
		}
	}
	c.replyJSON(body, tokens)
}
