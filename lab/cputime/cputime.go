// Package cputime holds code to how much of a processor it may take. Processor
// time is what such tests go by, and the least of many tries: what other
// processes on the machine do then makes them slower, but does not fail them.
// Only tests use it.
package cputime

import (
	"math"
	"testing"
	"time"
)

// Least is the processor time of f, in which all goroutines of the process are
// counted: the least of so many tries. One try should take a tenth of a
// millisecond or more.
func Least(t testing.TB, tries int, f func()) time.Duration {
	t.Helper()
	least := time.Duration(math.MaxInt64)
	for range tries {
		began := used(t)
		f()
		least = min(least, used(t)-began)
	}
	return least
}

// Budget fails the test if each of n things that f does takes more processor
// time than most, at its best of so many tries. It logs what it takes.
func Budget(t testing.TB, most time.Duration, tries, n int, f func()) {
	t.Helper()
	each := float64(Least(t, tries, f)) / float64(n)
	t.Logf("%.1f ns of a processor, the budget is %s", each, most)
	if each > float64(most) {
		t.Errorf("%.1f ns of a processor, the budget is %s", each, most)
	}
}
