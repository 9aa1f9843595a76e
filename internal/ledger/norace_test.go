//go:build !race

package ledger

// raceEnabled: see race_test.go.
const raceEnabled = false
