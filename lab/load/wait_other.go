//go:build !linux

package load

import (
	"context"
	"time"
)

func punctual() (end func()) { return func() {} }

// waitUntil waits for a moment, and is false where ctx ended before.
func waitUntil(ctx context.Context, timer *time.Timer, due time.Time) bool {
	timer.Reset(time.Until(due))
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
