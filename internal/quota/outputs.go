package quota

import (
	"math"
	"sync"
)

// outputs learns how long answers get that have no bound, for each key of a
// tenant and model: the length that nine of ten stay within.
type outputs struct {
	mu      sync.Mutex
	known   map[outputKey]*length
	tenants map[string]int // how many of the known are a tenant's
}

// outputKey has the tenant because the name of a key is not enough: all tokens
// of one issuer share it.
type outputKey struct{ tenant, key, model string }

// ofOutputs is what an outputKey is made of.
var ofOutputs = []string{"tenant", "key", "model"}

// length is an estimate, and how many answers made it.
type length struct {
	mu     sync.Mutex
	tokens float64
	seen   int // up to manySeen
}

const (
	// firstGuess is what is reserved for the first answers, in tokens: what
	// models are mostly bounded by when nobody says anything. To guess less would
	// let several through where there is enough for one.
	firstGuess = 4096
	quantile   = 0.9
	// shortestStep is the part that an estimate moves by in the end, from manySeen
	// answers on.
	shortestStep = 0.05
	manySeen     = 1 / (shortestStep * shortestStep)
	// mostOutputs bounds what is remembered, and mostOfTenant what of it is one
	// tenant's: with globs, the names of models are the clients', and one who
	// invents them must not keep others from being learnt of.
	mostOutputs  = 50_000
	mostOfTenant = 1000
)

func newOutputs() *outputs {
	return &outputs{known: map[outputKey]*length{}, tenants: map[string]int{}}
}

// of is what is known of the answers to a subject's key by its model; nil when
// there are too many to remember one more.
func (o *outputs) of(s *Subject) *length {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := outputKey{s.Tenant, s.Key, s.Model}
	l := o.known[k]
	if l == nil && len(o.known) < mostOutputs && o.tenants[s.Tenant] < mostOfTenant {
		l = &length{tokens: firstGuess}
		o.known[k] = l
		o.tenants[s.Tenant]++
	}
	return l
}

// expect is how many tokens to reserve for an answer.
func (l *length) expect() int64 {
	if l == nil {
		return firstGuess
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(1, int64(l.tokens))
}

// learn moves the estimate towards where nine of ten answers stay below it
// (stochastic approximation, Robbins and Monro 1951): up by nine steps for one
// that is longer, down by one for one that is not. The steps are long at first
// and then the shortest.
func (l *length) learn(tokens int64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	step := shortestStep
	if l.seen < manySeen {
		l.seen++
		step = 1 / math.Sqrt(float64(l.seen))
	}
	step *= max(l.tokens, float64(tokens)/4, 1)
	if float64(tokens) > l.tokens {
		l.tokens = min(l.tokens+step*quantile, max(float64(tokens), l.tokens))
	} else {
		l.tokens = max(l.tokens-step*(1-quantile), 1)
	}
}
