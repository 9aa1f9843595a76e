package tokens

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/llm"
)

// encoded are images of a size in the formats that the standard library
// writes, and headers of the others.
func encoded(t testing.TB, width, height int) map[string][]byte {
	t.Helper()
	img := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.Black, color.White})
	all := map[string][]byte{}
	put := func(name string, write func(b *bytes.Buffer) error) {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		all[name] = b.Bytes()
	}
	put("png", func(b *bytes.Buffer) error { return png.Encode(b, img) })
	put("gif", func(b *bytes.Buffer) error { return gif.Encode(b, img, nil) })
	put("jpeg", func(b *bytes.Buffer) error { return jpeg.Encode(b, img, nil) })
	// A JPEG with a large segment before the frame, as cameras write them.
	plain := all["jpeg"]
	exif := append([]byte{0xff, 0xe1, 0xea, 0x62}, make([]byte, 0xea60)...)
	all["jpeg with EXIF"] = append(append(append([]byte{}, plain[:2]...), exif...), plain[2:]...)
	w, h := width-1, height-1
	all["webp extended"] = append([]byte("RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00"),
		byte(w), byte(w>>8), byte(w>>16), byte(h), byte(h>>8), byte(h>>16), 0, 0)
	bits := w | h<<14
	all["webp lossless"] = append([]byte("RIFF\x00\x00\x00\x00WEBPVP8L\x00\x00\x00\x00\x2f"),
		byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24), 0)
	all["webp lossy"] = append([]byte("RIFF\x00\x00\x00\x00WEBPVP8 \x00\x00\x00\x00\x30\x01\x00\x9d\x01\x2a"),
		byte(width), byte(width>>8), byte(height), byte(height>>8), 0, 0)
	return all
}

func TestImageSize(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {640, 480}, {3, 1000}, {1025, 257}} {
		for name, data := range encoded(t, size[0], size[1]) {
			for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
				text := base64Text(enc.EncodeToString(data))
				if w, h, ok := imageSize(text); !ok || w != size[0] || h != size[1] {
					t.Errorf("%s of %v: %d x %d, %v", name, size, w, h, ok)
				}
			}
		}
	}
}

// A header that is cut anywhere, or that anything may stand in, gives no size
// or a plausible one.
func TestImageSizeOfBrokenHeaders(t *testing.T) {
	for name, data := range encoded(t, 640, 480) {
		text := []byte(base64.StdEncoding.EncodeToString(data[:min(len(data), 700)]))
		for i := range text {
			if w, h, ok := imageSize(text[:i]); ok && (w != 640 || h != 480) {
				t.Errorf("%s cut to %d: %d x %d", name, i, w, h)
			}
			for _, c := range "A/!" {
				broken := bytes.Clone(text)
				broken[i] = byte(c)
				if w, h, ok := imageSize(broken); ok && (w < 1 || h < 1 || w > largestSide || h > largestSide) {
					t.Errorf("%s with %c at %d: %d x %d", name, c, i, w, h)
				}
			}
		}
	}
}

func TestBase64Text(t *testing.T) {
	data := make([]byte, 256)
	for i := range data {
		data[i] = byte(i * 7)
	}
	text := base64Text(base64.StdEncoding.EncodeToString(data))
	for i, want := range data {
		if got, ok := text.at(i); !ok || got != want {
			t.Fatalf("byte %d is %d, %v, want %d", i, got, ok, want)
		}
	}
	for _, i := range []int{-1, len(data), len(data) + 10} {
		if _, ok := text.at(i); ok {
			t.Errorf("there is a byte %d", i)
		}
	}
}

// The vendors' own examples.
func TestImageRules(t *testing.T) {
	for _, c := range []struct {
		rule          imageRule
		width, height int
		low           bool
		want          int
	}{
		{imageRuleOf("gpt-4o"), 1024, 1024, false, 765},
		{imageRuleOf("openai/gpt-4o"), 2048, 4096, false, 1105},
		{imageRuleOf("gpt-4o"), 4096, 8192, true, 85},
		{imageRuleOf("gpt-4o"), 100, 100, false, 255},
		{imageRuleOf("gpt-4o-mini"), 1024, 1024, false, 2833 + 4*5667},
		{imageRuleOf("gpt-5"), 1024, 1024, false, 70 + 4*140},
		{imageRuleOf("ft:o3:acme::1"), 512, 512, false, 225},
		{imageRuleOf("gpt-4.1-mini"), 1024, 1024, false, 1659},
		{imageRuleOf("gpt-4.1-mini"), 1800, 2400, false, 2489},
		{imageRuleOf("gpt-4.1-mini"), 1800, 2400, true, 312},
		{imageRule{by: area}, 200, 200, false, 54},
		{imageRule{by: area}, 1000, 1000, false, 1334},
		{imageRule{by: area}, 1092, 1092, false, 1590},
		{imageRule{by: area}, 9000, 9000, false, 1600},
		{imageRule{by: crops}, 384, 384, false, 258},
		{imageRule{by: crops}, 960, 540, false, 516},
	} {
		if got := c.rule.tokens(c.width, c.height, c.low); got != c.want {
			t.Errorf("%+v, %d x %d, low %v: %d tokens, want %d", c.rule, c.width, c.height, c.low, got, c.want)
		}
	}
}

func TestPromptAttachments(t *testing.T) {
	data := base64.StdEncoding.EncodeToString(encoded(t, 1024, 1024)["png"])
	openai := func(part string) string { return `{"messages":[{"role":"user","content":[` + part + `]}]}` }
	url := `data:image/png;base64,` + data
	escaped := strings.ReplaceAll(url, "/", `\/`)
	pdf := strings.Repeat("AAAA", 30_000) // 90,000 bytes
	for name, c := range map[string]struct {
		dialect llm.Dialect
		model   string
		body    string
		images  int
		image   int
		more    int // tokens beside the frame and the images
		exact   bool
	}{
		"url":        {llm.OpenAI, "gpt-4o", openai(`{"type":"image_url","image_url":{"url":"` + url + `"}}`), 1, 765, 0, true},
		"escaped":    {llm.OpenAI, "gpt-4o", openai(`{"type":"image_url","image_url":{"url":"` + escaped + `","detail":"high"}}`), 1, 765, 0, true},
		"low":        {llm.OpenAI, "gpt-4o", openai(`{"type":"image_url","image_url":{"url":"https://example.com/a.png","detail":"low"}}`), 1, 85, 0, true},
		"elsewhere":  {llm.OpenAI, "gpt-4o", openai(`{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}`), 1, 765, 0, false},
		"two":        {llm.OpenAI, "gpt-4o", openai(strings.Repeat(`{"type":"image_url","image_url":{"url":"`+url+`"}},`, 2) + `{"type":"text","text":"hello"}`), 2, 1530, 1, true},
		"string":     {llm.OpenAI, "gpt-4o", openai(`{"type":"input_image","detail":"low","image_url":"` + url + `"}`), 1, 85, 0, true},
		"wav":        {llm.OpenAI, "gpt-4o", openai(`{"type":"input_audio","input_audio":{"format":"wav","data":"` + pdf + `"}}`), 0, 0, 19, false},
		"mp3":        {llm.OpenAI, "gpt-4o", openai(`{"type":"input_audio","input_audio":{"format":"mp3","data":"` + pdf + `"}}`), 0, 0, 57, false},
		"pdf":        {llm.OpenAI, "gpt-4o", openai(`{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,` + pdf + `"}}`), 0, 0, 3 * 2250, false},
		"stored pdf": {llm.OpenAI, "gpt-4o", openai(`{"type":"file","file":{"file_id":"file-1"}}`), 0, 0, 2250, false},
		"anthropic":  {llm.Anthropic, "claude-sonnet-4-5", openai(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}`), 1, 1399, 0, false},
		"claude url": {llm.Anthropic, "claude-sonnet-4-5", openai(`{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}`), 1, 1399, 0, false},
		"in result":  {llm.Anthropic, "claude-sonnet-4-5", openai(`{"type":"tool_result","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}]}`), 1, 1399, 0, false},
		"gemini":     {llm.Gemini, "gemini-2.5-pro", `{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"` + data + `"}}]}]}`, 1, 4 * 258, 0, false},
	} {
		got := promptOf(c.body, c.dialect, llm.Chat, c.model)
		frame := map[llm.Dialect]int{llm.OpenAI: 7, llm.Anthropic: 4}[c.dialect]
		if got.Images != c.images || got.ImageTokens != c.image || got.Exact != c.exact || got.Tokens-c.image < frame+c.more || got.Tokens-c.image > frame+c.more+1 {
			t.Errorf("%s: %+v, want %d images of %d tokens, %d more, exact %v", name, got, c.images, c.image, frame+c.more, c.exact)
		}
	}
}

// Schemas in schemas, and blocks in blocks, deeper than anyone needs.
func TestDeepNesting(t *testing.T) {
	schema, block := `{}`, `"x"`
	for range 30 {
		schema = fmt.Sprintf(`{"properties":{"a":{"type":"object","description":"d"},"b":%s}}`, schema)
		block = fmt.Sprintf(`[{"type":"tool_result","content":%s}]`, block)
	}
	tool := promptOf(`{"messages":[],"tools":[{"function":{"name":"f","parameters":`+schema+`}}]}`, llm.OpenAI, llm.Chat, "gpt-4o")
	if n := tool.Tokens; n < 100 || n > len(schema) {
		t.Errorf("%d tokens of a deep schema", n)
	}
	deep := promptOf(`{"messages":[{"role":"user","content":`+block+`}]}`, llm.Anthropic, llm.Chat, "gpt-4o")
	if n := deep.Tokens; n < 50 || n > len(block) {
		t.Errorf("%d tokens of deep blocks", n)
	}
}
