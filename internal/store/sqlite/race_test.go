//go:build race

package sqlite

// raceEnabled is whether the race detector watches.
const raceEnabled = true
