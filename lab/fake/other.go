package fake

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// embeddings is POST /v1/embeddings.
func (c *call) embeddings() {
	c.require("model", "input")
	f := &c.form
	size := f.whole("dimensions", 1)
	if size == 0 {
		size = 1536
	}
	if size > 1<<16 {
		f.reject("dimensions", "integer_above_max_value", "Invalid 'dimensions': expected a value <= 65536, but got "+strconv.Itoa(size)+" instead.")
	}
	format := f.text("encoding_format")
	if format != "" && format != "float" && format != "base64" {
		f.reject("encoding_format", "invalid_value", "Invalid value: '"+format+"'. Supported values are: 'float' and 'base64'.")
	}
	inputs := c.inputs()
	if c.rejected() {
		return
	}
	type item struct {
		Object    string `json:"object"`
		Index     int    `json:"index"`
		Embedding any    `json:"embedding"`
	}
	data := make([]item, len(inputs))
	for i, in := range inputs {
		v := vector(c.cfg.Seed, in, size)
		data[i] = item{"embedding", i, any(v)}
		if format == "base64" {
			raw := make([]byte, 0, 4*size)
			for _, x := range v {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
			}
			data[i].Embedding = base64.StdEncoding.EncodeToString(raw)
		}
	}
	prompt := c.misreport(tally{prompt: f.promptTokens()})
	body := map[string]any{"object": "list", "data": data, "model": c.model}
	if !prompt.missing {
		body["usage"] = map[string]int{"prompt_tokens": prompt.prompt, "total_tokens": prompt.prompt}
	}
	c.schedule(prompt.prompt, 0)
	c.replyJSON(body, 0)
}

// inputs are the texts of a request whose input is one or several. An array of
// numbers is one text, given as token numbers.
func (c *call) inputs() []json.RawMessage {
	raw := c.form.fields["input"]
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) > 0 && list[0][0] != '"' && list[0][0] != '[' && list[0][0] != '{' {
		return []json.RawMessage{raw}
	}
	if len(list) == 0 || len(list) > 2048 {
		c.form.reject("input", "invalid_value", "Invalid 'input': expected between 1 and 2048 elements, but got "+strconv.Itoa(len(list))+".")
	}
	return list
}

// vector is a text's embedding of length one. It is the mean of its words'
// own directions, so texts that share words are near each other.
func vector(seed uint64, text []byte, size int) []float32 {
	sum := make([]float64, size)
	for w := range strings.FieldsSeq(strings.ToLower(strings.Trim(string(text), `"`))) {
		rng := rand.New(rand.NewPCG(seed, hash([]byte(w))))
		for i := range sum {
			sum[i] += rng.NormFloat64()
		}
	}
	norm := 0.0
	for _, x := range sum {
		norm += x * x
	}
	out := make([]float32, size)
	for i, x := range sum {
		out[i] = float32(x / max(math.Sqrt(norm), 1e-12))
	}
	return out
}

// moderations is POST /v1/moderations. Only the word "flagme" is flagged.
func (c *call) moderations() {
	c.require("input")
	inputs := c.inputs()
	if c.rejected() {
		return
	}
	type result struct {
		Flagged    bool               `json:"flagged"`
		Categories map[string]bool    `json:"categories"`
		Scores     map[string]float64 `json:"category_scores"`
	}
	results := make([]result, len(inputs))
	for i, in := range inputs {
		r := result{strings.Contains(string(in), "flagme"), map[string]bool{}, map[string]float64{}}
		for _, name := range []string{"harassment", "hate", "illicit", "self-harm", "sexual", "violence"} {
			r.Categories[name], r.Scores[name] = false, math.Round(c.rng.Float64()*1e3)/1e6
		}
		if r.Flagged {
			r.Categories["violence"], r.Scores["violence"] = true, 0.97
		}
		results[i] = r
	}
	c.schedule(c.form.promptTokens(), 0)
	c.replyJSON(map[string]any{"id": "modr-" + letters(c.rng, 24), "model": c.model, "results": results}, 0)
}

// models is GET /v1/models.
func (c *call) models() {
	list := make([]any, len(c.cfg.Models))
	for i, name := range c.cfg.Models {
		list[i] = c.modelObject(name)
	}
	c.schedule(0, 0)
	if c.dialect == anthropic {
		page := map[string]any{"data": list, "has_more": false, "first_id": nil, "last_id": nil}
		if n := len(list); n > 0 {
			page["first_id"], page["last_id"] = c.cfg.Models[0], c.cfg.Models[n-1]
		}
		c.replyJSON(page, 0)
		return
	}
	c.replyJSON(map[string]any{"object": "list", "data": list}, 0)
}

// modelByID is GET /v1/models/{id}. An id may hold slashes.
func (c *call) modelByID() {
	c.model = strings.TrimPrefix(c.path, "/v1/models/")
	c.cfg.Strict = true // here even an easy provider knows only its models
	if c.unknownModel() {
		return
	}
	c.schedule(0, 0)
	c.replyJSON(c.modelObject(c.model), 0)
}

func (c *call) modelObject(name string) any {
	if c.dialect == anthropic {
		return map[string]string{"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z"}
	}
	return map[string]any{"id": name, "object": "model", "created": epoch, "owned_by": "headgate-simulator"}
}
