//go:build !race

package app_test

const raced = false
