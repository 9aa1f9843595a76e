//go:build race

package stream

// Under the race detector, which is slow and looks for other mistakes, the tests
// of every offset take every seventh.
const stride = 7
