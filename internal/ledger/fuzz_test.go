package ledger

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/headgate-ai/headgate/internal/llm"
)

// FuzzSpool reads any bytes as a segment: it ends, accounts for each byte, and
// reads nothing that could not have been written.
func FuzzSpool(f *testing.F) {
	b, starts := encode(3)
	f.Add(b)
	f.Add(b[:len(b)-5])
	f.Add(append(bytes.Clone(b[:starts[1]+9]), b...))
	f.Add(bytes.Repeat([]byte(magic), 9))
	f.Add([]byte(magic + "\xff\xff\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		n, used, err := countFrames(r, int64(len(b)))
		if err != nil || len(bytes.Trim(b[used:], "\x00")) > 0 {
			t.Fatalf("%d of %d bytes, %v", used, len(b), err)
		}
		if n2, used2, err := countFrames(r, used); n2 != n || used2 != used || err != nil {
			t.Fatalf("%d entries in %d bytes; without the zeros behind them %d in %d, %v", n, used, n2, used2, err)
		}
		w, err := readWindow(r, make([]byte, viewSize), 0, int64(len(b)))
		if err != nil || !w.last && len(b) <= viewSize {
			t.Fatal(err)
		}
		total, entries := 0, int64(0)
		for len(w.bytes) > 0 {
			payload, size, damage := w.next()
			if size == 0 {
				break
			}
			total += size
			if damage {
				continue
			}
			var d decoder
			var r Record
			if d.decode(payload, &r) == nil {
				entries++
				e := r.Entry()
				again, err := e.clean()
				if err == nil && len(e.Model) <= MaxText && !reflect.DeepEqual(again.Usage, e.Usage) {
					t.Fatalf("%+v is written as %+v", e, again)
				}
			}
		}
		if w.last && (total != len(b) || entries != n) {
			t.Fatalf("%d of %d bytes, %d of %d entries", total, len(b), entries, n)
		}
	})
}

// FuzzEntry writes any entry and reads it back.
func FuzzEntry(f *testing.F) {
	f.Add("id", "model", "a\x00b\xff", "scope", int64(1), int64(-5), int64(1<<62), uint8(3))
	f.Fuzz(func(t *testing.T, id, model, user, scope string, at, period, count int64, flags uint8) {
		e := entry(0)
		e.ID, e.Model, e.User = id, model, user
		e.At = e.At.Add(0)
		e.Usage = llm.Usage{Input: count, Cached: at, CacheWrite: period, Output: -count, Estimated: flags&1 > 0}
		e.Cost, e.Priced, e.Status = llm.Money(at), flags&2 > 0, int(count)
		for range flags % 7 {
			e.Charges = append(e.Charges, llm.Charge{Scope: scope, Period: period, Amount: count})
		}
		if e.check() != nil {
			return
		}
		b := new(framer).write(&e)
		payload, size, is := cutFrame(b)
		if is != whole || size != len(b) {
			t.Fatalf("a frame of %d bytes is read as %d (%d)", len(b), size, is)
		}
		var d decoder
		var r Record
		if err := d.decode(payload, &r); err != nil {
			t.Fatal(err)
		}
		got := r.Entry()
		again, err := got.clean()
		if err != nil && len(got.ID) <= MaxID {
			t.Fatal(err)
		}
		if err == nil && !reflect.DeepEqual(again, got) {
			t.Fatalf("%+v is written as %+v", got, again)
		}
	})
}
