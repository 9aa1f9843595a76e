package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/lab/race"
)

func BenchmarkAppend(b *testing.B) {
	r := open(b, b.TempDir(), nowhere{}, &logged{})
	e := gatewayEntry()
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
	frame := new(framer).write(&e)
	var d decoder
	d.begin()
	var r Record
	b.ReportAllocs()
	for b.Loop() {
		payload, _, _ := cutFrame(frame)
		if err := d.decode(payload, &r); err != nil {
			b.Fatal(err)
		}
	}
}

// Append allocates nothing of its own; once in a thousand times a segment
// begins.
func TestAppendAllocatesNothing(t *testing.T) {
	if race.Enabled {
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

// gatewayEntry is one of an ordinary request.
func gatewayEntry() Entry {
	e := entry(1)
	e.ID, e.RequestID = "907ec8a0d2cb1bf3abbb233d4faaeeaf363a0ac90054e8e6", "req_4a7tnxwtnrw647c4knkgctvs"
	e.Key, e.User, e.Tenant, e.Model, e.Target = "key-0123", "someone@example.com", "tenant-00", "gpt-4o-mini", "openai/gpt-4o-mini"
	e.At = time.Unix(1_790_000_000, 123_456_789)
	e.Usage = llm.Usage{Input: 1200, Output: 168}
	e.Cost = 8_000_000
	e.Charges = []llm.Charge{{Scope: "tenant-month/money|tenant=tenant-00", Period: 1_790_000_000, Amount: 8_000_000}}
	return e
}

func BenchmarkEncode(b *testing.B) {
	e := gatewayEntry()
	var f framer
	for b.Loop() {
		f.write(&e)
	}
	b.SetBytes(int64(len(f.frame)))
}
