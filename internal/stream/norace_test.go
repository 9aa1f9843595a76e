//go:build !race

package stream

const (
	raceEnabled = false
	stride      = 1
)
