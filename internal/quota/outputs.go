package quota

import "sync"

// outputs learns how long answers get that have no bound, for each key and
// model: the length that nine of ten stay within.
type outputs struct {
	mu    sync.Mutex
	known map[outputKey]float64
}

type outputKey struct{ key, model string }

const (
	// firstGuess is what is reserved for the first answers, in tokens.
	firstGuess = 1024
	quantile   = 0.9
	// mostOutputs bounds what is remembered.
	mostOutputs = 10_000
)

func newOutputs() *outputs { return &outputs{known: map[outputKey]float64{}} }

// expect is how many tokens to reserve for an answer.
func (o *outputs) expect(key, model string) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if q, ok := o.known[outputKey{key, model}]; ok {
		return max(1, int64(q))
	}
	return firstGuess
}

// learn moves the estimate a little towards where nine of ten answers stay
// below it (stochastic approximation, Robbins and Monro 1951): up by nine steps
// for one that is longer, down by one for one that is not.
func (o *outputs) learn(key, model string, tokens int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := outputKey{key, model}
	q, ok := o.known[k]
	if !ok {
		if len(o.known) >= mostOutputs {
			return
		}
		q = firstGuess
	}
	step := 0.05 * max(q, float64(tokens)/4, 1)
	if float64(tokens) > q {
		q += step * quantile
	} else {
		q -= step * (1 - quantile)
	}
	o.known[k] = max(1, q)
}
