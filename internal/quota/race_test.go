//go:build race

package quota

// raceEnabled is whether the race detector watches.
const raceEnabled = true
