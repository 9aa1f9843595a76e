//go:build !unix

package cputime

import (
	"testing"
	"time"
)

var begun = time.Now()

// used is the time that has passed: no less than the processor time of one
// goroutine.
func used(testing.TB) time.Duration { return time.Since(begun) }
