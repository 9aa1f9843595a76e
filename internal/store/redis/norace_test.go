//go:build !race

package redis

// raceEnabled: see race_test.go.
const raceEnabled = false
