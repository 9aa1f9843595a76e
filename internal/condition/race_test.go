//go:build race

package condition

const raced = true
