//go:build !race

package condition

// raced is whether the race detector watches, which takes its time.
const raced = false
