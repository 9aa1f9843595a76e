//go:build linux && race

package h1

// racing is whether the race detector runs, which costs memory.
const racing = true
