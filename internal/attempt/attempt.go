// Package attempt walks an ordered list of legs until one of them answers with
// the head of a response. After that there is no other leg. Only the hallway
// uses it.
package attempt

import (
	"context"

	"github.com/headgate-ai/headgate/internal/fleet"
)

// Send tries one leg. Unsent says of a failure that the provider cannot have
// seen the call, so that trying another leg cannot bill twice.
type Send[R any] func(context.Context, fleet.Leg) (reply R, unsent bool, err error)

// Result is what came of the legs.
type Result[R any] struct {
	Reply R
	Leg   fleet.Leg
	// Attempts is the number of legs tried.
	Attempts int
}

// Do tries the legs in order. It goes on to the next one only where the call
// never reached the provider.
func Do[R any](ctx context.Context, legs []fleet.Leg, send Send[R]) (res Result[R], err error) {
	for _, leg := range legs {
		var unsent bool
		res.Leg, res.Attempts = leg, res.Attempts+1
		res.Reply, unsent, err = send(ctx, leg)
		if err == nil || !unsent || ctx.Err() != nil {
			return res, err
		}
	}
	return res, err
}
