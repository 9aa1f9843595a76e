//go:build race

package limittest

// raceEnabled is whether the race detector watches.
const raceEnabled = true
