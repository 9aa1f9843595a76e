package load

import (
	"context"
	"slices"
	"testing"
	"time"
)

// Requests are sent when they are due: what the generator is late by would be
// charged to who is measured. A busy machine can delay any of them, so the
// median is judged.
func TestWaitUntil(t *testing.T) {
	defer punctual()()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var late []time.Duration
	for range 40 {
		due := time.Now().Add(3 * time.Millisecond)
		if !waitUntil(t.Context(), timer, due) {
			t.Fatal("it gave up")
		}
		d := time.Since(due)
		if d < 0 {
			t.Fatalf("%v too early", -d)
		}
		late = append(late, d)
	}
	slices.Sort(late)
	t.Logf("late: median %v, most %v", late[len(late)/2], late[len(late)-1])
	if late[len(late)/2] > time.Millisecond {
		t.Errorf("half of them are %v late", late[len(late)/2])
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if waitUntil(ctx, timer, time.Now().Add(time.Hour)) {
		t.Error("it waits although nobody does")
	}
}
