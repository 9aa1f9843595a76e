package ledger

import (
	"fmt"
	"testing"
)

func BenchmarkAppend(b *testing.B) {
	r := open(b, b.TempDir(), nowhere{}, &logged{})
	e := entry(1)
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Append(&e); err != nil {
			b.Fatal(err)
		}
	}
	if err := r.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// nowhere takes entries and forgets them, so that Append is measured and not
// the store.
type nowhere struct{ nothing }

func BenchmarkDecode(b *testing.B) {
	e := entry(1)
	frame := appendFrame(nil, &e)
	b.ReportAllocs()
	for b.Loop() {
		payload, _, _ := cutFrame(frame)
		if _, err := decodePayload(payload); err != nil {
			b.Fatal(err)
		}
	}
}

// Append allocates nothing of its own; once in a thousand times a segment
// begins.
func TestAppendAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools")
	}
	s := &flaky{Memory: NewMemory(0), down: true} // reading back would allocate
	r := open(t, t.TempDir(), s, &logged{})
	e := entry(1)
	mustAppend(t, r, e)
	if n := testing.AllocsPerRun(1000, func() {
		if err := r.Append(&e); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if err := r.Close(t.Context()); err == nil {
		t.Error("closed without " + fmt.Sprint(r.Lag()))
	}
}
