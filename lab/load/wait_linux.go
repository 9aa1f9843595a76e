package load

import (
	"context"
	"runtime"
	"syscall"
	"time"
)

// A timer of Go's fires up to a millisecond late in a process that is idle
// meanwhile, as its poller waits in whole milliseconds; that would be charged to
// whoever is measured. The last of the wait is therefore slept in the system, on
// a thread whose timers have no slack to gather wake-ups with.
const (
	timerLate       = 2 * time.Millisecond
	prSetTimerSlack = 29 // prctl(2)
)

// punctual prepares the calling goroutine for waitUntil; its result ends that.
func punctual() (end func()) {
	runtime.LockOSThread()
	_, _, _ = syscall.Syscall(syscall.SYS_PRCTL, prSetTimerSlack, 1, 0) // without it, 50 µs late
	return func() {
		_, _, _ = syscall.Syscall(syscall.SYS_PRCTL, prSetTimerSlack, 0, 0)
		runtime.UnlockOSThread()
	}
}

// waitUntil waits for a moment, and is false where ctx ended before.
func waitUntil(ctx context.Context, timer *time.Timer, due time.Time) bool {
	if left := time.Until(due); left > timerLate {
		timer.Reset(left - timerLate)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
	}
	for left := time.Until(due); left > 0; left = time.Until(due) {
		ts := syscall.NsecToTimespec(int64(left))
		_ = syscall.Nanosleep(&ts, nil) // a signal ends it early
	}
	return ctx.Err() == nil
}
