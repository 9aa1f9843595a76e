package ledgersql

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headgate-ai/headgate/internal/ledger"
	"github.com/headgate-ai/headgate/internal/ledger/ledgertest"
	"github.com/headgate-ai/headgate/internal/ledger/unpack"
)

var packers spare

// packed are entries of one hour as two records.
func packed(entries []ledger.Entry) (head, body []byte) {
	p := packers.get()
	defer packers.put(p)
	for r := range ledger.BatchOf("", entries, nil).Records(0) {
		p.add(r)
	}
	return bytes.Clone(p.head()), bytes.Clone(p.body())
}

// unpacked reads the records back.
func unpacked(head, body []byte) (entries []ledger.Entry, shapes []counted, err error) {
	if shapes, err = unpackHead(head); err != nil {
		return nil, nil, err
	}
	u, err := unpackBody(shapes, body)
	if err != nil {
		return nil, nil, err
	}
	for r := (record{}); u.next(&r); {
		entries = append(entries, u.entry(&r))
	}
	return entries, shapes, end(&u.Reader)
}

func someEntries(r *rand.Rand, n int) (entries []ledger.Entry) {
	for i := range n {
		e := ledgertest.Random(r, []string{fmt.Sprintf("%048x", r.Uint64()), "Z" + fmt.Sprint(i), "abc", "ABCD", "0"}[r.IntN(5)])
		e.Charges, e.Status = nil, r.IntN(1000)
		entries = append(entries, e)
	}
	return entries
}

// What is packed is what is unpacked, and the sums are those of the entries.
// Packers are used again and forget what they had.
func TestPack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		want := someEntries(r, 1+r.IntN(60))
		got, shapes, err := unpacked(packed(want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, %v, want %v", err, got, want)
		}
		var sum sums
		var totals ledger.Totals
		for i := range shapes {
			sum.add(&shapes[i].sums)
		}
		for i := range want {
			totals.Add(&want[i])
		}
		if sum.totals() != totals {
			t.Fatalf("%+v, want %+v", sum.totals(), totals)
		}
	}
}

// The size of an entry is what keeps the database small and its writing cheap.
func TestPackedSize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	entries := make([]ledger.Entry, 1000)
	for i := range entries {
		entries[i] = ledger.Entry{
			ID: fmt.Sprintf("%016x%016x%016x", r.Uint64(), r.Uint64(), r.Uint64()), RequestID: fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64()),
			At: ledgertest.Epoch.Add(time.Duration(i) * time.Millisecond), Tenant: fmt.Sprint("tenant-", i%10), Model: "gpt-4o", Provider: "openai", Target: "openai/gpt-4o",
		}
		entries[i].Usage.Input, entries[i].Usage.Output, entries[i].Cost = r.Int64N(5000), r.Int64N(2000), 7_000_000
	}
	head, body := packed(entries)
	if n := (len(head) + len(body)) / len(entries); n > 66 {
		t.Errorf("an entry has %d bytes", n)
	}
}

// Every change of a byte is noticed, and told apart from a later version.
func TestDamagedPack(t *testing.T) {
	head, body := packed(someEntries(rand.New(rand.NewPCG(1, 3)), 20))
	for _, b := range [][]byte{head, body} {
		for i := range b {
			b[i] ^= 0x10
			want := errDamaged
			if i == 0 {
				want = errVersion
			}
			if _, _, err := unpacked(head, body); !errors.Is(err, want) {
				t.Fatalf("byte %d: %v, want %v", i, err, want)
			}
			b[i] ^= 0x10
		}
	}
	if _, _, err := unpacked(head[:4], body); !errors.Is(err, errPack) {
		t.Errorf("cut off: %v", err)
	}
}

// Every text comes back, whatever of it looks like hexadecimal.
func TestID(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 2, 7, 8, 9, 16, 22, 48} {
		text := []byte(strings.Repeat("0123456789abcdef", 3)[:n])
		for at := range n {
			for c := range 256 {
				s := bytes.Clone(text)
				s[at], s[r.IntN(n)] = byte(c), text[r.IntN(n)]
				b := appendID(nil, s)
				u := unpacker{Reader: unpack.Reader{Rest: b}}
				got, isHex := u.id()
				if want := isLowerHex(s); id(got, isHex) != string(s) || end(&u.Reader) != nil || isHex != want {
					t.Fatalf("%q is read back as %q (hexadecimal %v, want %v)", s, id(got, isHex), isHex, want)
				}
			}
		}
	}
}

func isLowerHex(s []byte) bool {
	b, err := hex.DecodeString(string(s))
	return err == nil && hex.EncodeToString(b) == string(s)
}

func BenchmarkID(b *testing.B) {
	text := []byte("907ec8a0d2cb1bf3abbb233d4faaeeaf363a0ac90054e8e6")
	var to []byte
	for b.Loop() {
		to = appendID(to[:0], text)
	}
}

// FuzzUnpack reads any bytes: it ends, makes room for no more than is there, and
// what it takes for entries it packs and reads again.
func FuzzUnpack(f *testing.F) {
	head, body := packed(someEntries(rand.New(rand.NewPCG(1, 4)), 5))
	f.Add(head[packHeader:], body[packHeader:])
	f.Add([]byte{0, 0}, []byte{})
	f.Add([]byte("\xff\xff\xff\xff\x0f"), []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, head, body []byte) {
		entries, _, err := unpacked(seal(append(make([]byte, packHeader), head...)), seal(append(make([]byte, packHeader), body...)))
		if err != nil || len(entries) == 0 {
			return
		}
		again, _, err := unpacked(packed(entries))
		if err != nil || !reflect.DeepEqual(again, entries) {
			t.Fatalf("%v: %v are read back as %v", err, entries, again)
		}
	})
}

// FuzzCharges reads any bytes as charges, and what it takes for some again.
func FuzzCharges(f *testing.F) {
	packed := func(c charges) []byte {
		all := map[*ledger.Account]int64{}
		for a, amount := range c {
			all[&a] = amount
		}
		return packCharges(all)
	}
	f.Add(packed(charges{{Scope: "b/usd/acme", Period: 3600}: 5, {Scope: "b"}: 1 << 62})[packHeader:])
	f.Fuzz(func(t *testing.T, b []byte) {
		c, again := charges{}, charges{}
		if c.unpack(seal(append(make([]byte, packHeader), b...))) != nil {
			return
		}
		if err := again.unpack(packed(c)); err != nil || !maps.Equal(again, c) {
			t.Fatalf("%v: %v are read back as %v", err, c, again)
		}
	})
}
