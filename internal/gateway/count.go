package gateway

import (
	"math"
	"sync"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire/tokens"
	"github.com/headgate-ai/headgate/internal/wire/trim"
)

// counting is what the gateway knows of how models count tokens. Where a
// model's vocabulary is public, prompts are counted; else they are estimated,
// and every answer that reports its usage teaches the estimates of its model. They
// are the same for all tenants: how a model cuts text is a property of the model,
// and nothing of what a tenant sent is kept.
// The zero value is ready to use.
type counting struct {
	scratches sync.Pool // of *tokens.Scratch

	mu     sync.Mutex
	models map[string]*learnt
}

// learnt is of one model.
type learnt struct {
	calibration tokens.Calibration
	off         float64 // average of how far counts were off, as a part of the truth
	seen        int64
}

const (
	// countBudget is how much of a prompt is counted exactly, in bytes, before
	// samples must do. At the speed of the encoder that is about a tenth of a
	// millisecond.
	countBudget = 16 << 10
	// mostLearnt bounds the models that are learnt of: with globs, their names
	// are the clients'.
	mostLearnt = 1000
	// offRate is the weight of a new answer in the average of the errors.
	offRate = 1.0 / 50
)

// prompt counts the tokens of a call's prompt as the model will.
func (c *counting) prompt(call *llm.Call, model string) tokens.Count {
	if call.Form || call.Raw == nil {
		return tokens.Count{}
	}
	s, _ := c.scratches.Get().(*tokens.Scratch)
	if s == nil {
		s = &tokens.Scratch{Parts: true}
	}
	defer c.scratches.Put(s)
	s.Know(call.Long)
	return s.Prompt(call.Raw, call.Dialect, call.Op, model, c.calibration(model), countBudget)
}

// shorten finds what to take out of a prompt that must not have more tokens.
func (c *counting) shorten(call *llm.Call, model string, most int64) ([]llm.Edit, trim.Report) {
	if call.Form || call.Raw == nil || call.Rest != nil {
		return nil, trim.Report{}
	}
	return trim.Edits(call.Raw, call.Dialect, call.Op, model, c.calibration(model), int(most), new(tokens.Scratch))
}

func (c *counting) calibration(model string) tokens.Calibration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.models[model]; l != nil {
		return l.calibration
	}
	return tokens.Calibration{}
}

// learn compares a count with what the provider reported.
func (c *counting) learn(model string, n tokens.Count, u llm.Usage) {
	if u.Estimated || u.Input <= 0 || n.Tokens <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.models[model]
	if l == nil {
		if len(c.models) >= mostLearnt {
			return
		}
		if c.models == nil {
			c.models = map[string]*learnt{}
		}
		l = new(learnt)
		c.models[model] = l
	}
	l.seen++
	off := math.Abs(float64(n.Tokens)-float64(u.Input)) / float64(u.Input)
	l.off += (off - l.off) * max(offRate, 1/float64(l.seen))
	if n.Text.Tokens > 0 {
		l.calibration = l.calibration.Learn(float64(u.Input)-float64(n.ImageTokens), n.Text)
	}
}

// CountErrors is how far the counts of prompts are off on average, as a part of
// what the providers report, by family of models.
func (g *Gateway) CountErrors() map[string]float64 {
	g.counting.mu.Lock()
	defer g.counting.mu.Unlock()
	off, seen := map[string]float64{}, map[string]float64{}
	for name, l := range g.counting.models {
		family := tokens.FamilyOf(name).String()
		off[family] += l.off * float64(l.seen)
		seen[family] += float64(l.seen)
	}
	for family, n := range seen {
		off[family] /= n
	}
	return off
}
