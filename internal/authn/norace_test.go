//go:build !race

package authn

// raced is whether the race detector watches, which takes its time.
const raced = false
