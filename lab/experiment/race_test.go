//go:build race

package experiment_test

// raceEnabled is whether the race detector watches. It is ten times slower, so
// that what is promised in milliseconds is not tried under it.
const raceEnabled = true
