//go:build race

package trim

// slower is how much less the slow tests do under the race detector, which this
// package, without a goroutine or a lock, tells nothing.
const slower = 10
