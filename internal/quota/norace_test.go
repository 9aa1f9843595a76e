//go:build !race

package quota

// raceEnabled: see race_test.go.
const raceEnabled = false
