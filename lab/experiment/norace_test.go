//go:build !race

package experiment_test

// raceEnabled: see race_test.go.
const raceEnabled = false
