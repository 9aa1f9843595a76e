package cputime

import (
	"testing"
	"time"
)

// What waits uses no processor, and what works does.
func TestLeast(t *testing.T) {
	if d := Least(t, 3, func() { time.Sleep(50 * time.Millisecond) }); d > 25*time.Millisecond {
		t.Errorf("50 ms of sleep took %s of a processor", d)
	}
	work := func() {
		for began := time.Now(); time.Since(began) < 5*time.Millisecond; {
		}
	}
	if d := Least(t, 1, work); d <= 0 || d > time.Second {
		t.Errorf("a busy loop of 5 ms took %s of a processor", d)
	}
}
