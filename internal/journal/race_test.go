//go:build race

package journal

// raceEnabled excuses the pools, which the race detector empties at random.
const raceEnabled = true
