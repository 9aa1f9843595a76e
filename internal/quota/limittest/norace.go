//go:build !race

package limittest

// raceEnabled: see race.go.
const raceEnabled = false
