//go:build linux && !race

package h1

const racing = false
