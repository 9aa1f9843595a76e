//go:build !race

package trim

const slower = 1
