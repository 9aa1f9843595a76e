package journal

import (
	"strings"
	"sync"
	"sync/atomic"
)

// Totals are sums since the process started.
type Totals struct {
	Requests         int64 `json:"requests"`
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	CachedTokens     int64 `json:"cached_tokens"`
	Errors           int64 `json:"errors"`
	Cancelled        int64 `json:"cancelled"`
}

// What a client calls a model is its own choice, so the combinations are
// bounded: beyond maxTotals the name asked for is folded into "other", and
// beyond maxFolded, which only a great many configured names can reach, the
// rest is too.
const (
	maxTotals = 10_000
	maxFolded = 20_000
	other     = "other"
)

// totalKey is one combination. The configured model and the target's model are
// part of it because a question may name any of the three.
type totalKey struct{ asked, model, target, key, tenant string }

type total struct {
	requests, prompt, completion, cached, errors, cancelled atomic.Int64
}

// totals is a map that hardly ever grows: readers share the lock and add
// atomically.
type totals struct {
	mu  sync.RWMutex
	sum map[totalKey]*total
}

func (t *totals) init() { t.sum = map[totalKey]*total{} }

func (t *totals) add(r *Record) {
	s := t.of(totalKey{r.Asked, r.Model, r.Target, r.Who.Key, r.Who.Tenant})
	s.requests.Add(1)
	switch r.Outcome {
	case Failed:
		s.errors.Add(1)
	case Cancelled:
		s.cancelled.Add(1)
	}
	if u := r.tokens(); u.Total() != 0 {
		s.prompt.Add(u.Input)
		s.completion.Add(u.Output)
		s.cached.Add(u.Cached)
	}
}

func (t *totals) of(k totalKey) *total {
	t.mu.RLock()
	s := t.sum[k]
	t.mu.RUnlock()
	if s != nil {
		return s
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sum[k] == nil && len(t.sum) >= maxTotals {
		k.asked = other
		// The target of a directly addressed model is the client's choice too.
		k.target = other
	}
	if t.sum[k] == nil && len(t.sum) >= maxFolded {
		k = totalKey{other, other, other, other, other}
	}
	if s = t.sum[k]; s == nil {
		s = new(total)
		k.asked, k.target = strings.Clone(k.asked), strings.Clone(k.target)
		t.sum[k] = s
	}
	return s
}

// Totals sums what was asked of a model by a key of a tenant; "" stands for
// any. A model is named as the client did, as the configuration does, or as
// its provider does.
func (j *Room) Totals(model, key, tenant string) Totals {
	j.digester.digest()
	model = clean(model, maxAsked)
	var sum Totals
	j.totals.mu.RLock()
	defer j.totals.mu.RUnlock()
	for k, t := range j.totals.sum {
		if (key != "" && key != k.key) || (tenant != "" && tenant != k.tenant) || (model != "" && !k.names(model)) {
			continue
		}
		sum.Requests += t.requests.Load()
		sum.PromptTokens += t.prompt.Load()
		sum.CompletionTokens += t.completion.Load()
		sum.CachedTokens += t.cached.Load()
		sum.Errors += t.errors.Load()
		sum.Cancelled += t.cancelled.Load()
	}
	return sum
}

func (k *totalKey) names(model string) bool {
	if model == k.asked || model == k.model || model == k.target {
		return true
	}
	_, m, ok := strings.Cut(k.target, "/")
	return ok && m == model
}
