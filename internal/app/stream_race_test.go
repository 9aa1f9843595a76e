//go:build race

package app_test

// The race detector makes everything about ten times slower, so measurements
// are generous under it, and some tests smaller.
const raced = true
