//go:build race

package ledger

// raceEnabled is whether the race detector watches, which makes allocations of
// its own.
const raceEnabled = true
