//go:build !race

package tokens

const slower = 1
