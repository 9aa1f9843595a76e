//go:build !race

package stream

const stride = 1
