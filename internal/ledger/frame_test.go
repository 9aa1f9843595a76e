package ledger

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// What a framer writes does not depend on what it wrote before, and decoders that
// know kinds and accounts read the same as those that do not.
func TestFramer(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	var f framer
	var knows decoder
	knows.begin()
	for i := range 3000 {
		e := entry(i)
		for _, s := range []*string{&e.Key, &e.Tenant, &e.User, &e.Model, &e.Outcome, &e.Charges[0].Scope} {
			if rnd.IntN(3) == 0 {
				*s = []string{"", "a", "b", "Zoë", "a\x00", strings.Repeat("long", 50)}[rnd.IntN(6)]
			}
		}
		e.Priced, e.Usage.Estimated, e.Status = rnd.IntN(4) > 0, rnd.IntN(4) == 0, 200+rnd.IntN(2)
		frame := f.write(&e)
		if want := new(framer).write(&e); !bytes.Equal(frame, want) {
			t.Fatalf("%+v is written as %q, want %q", e, frame, want)
		}
		want, err := e.clean()
		if err != nil {
			t.Fatal(err)
		}
		var r Record
		if err := knows.decode(frame[headerSize:], &r); err != nil || !reflect.DeepEqual(r.Entry(), want) {
			t.Fatalf("%+v is read back as %+v, %v", want, r.Entry(), err)
		}
	}
}

func TestPlain(t *testing.T) {
	for n := range 20 {
		for at := range n {
			for c := range 256 {
				b := bytes.Repeat([]byte{'a'}, n)
				b[at] = byte(c)
				if want := c > 0 && c < 128; plain(string(b)) != want {
					t.Fatalf("%q is plain: %v", b, !want)
				}
			}
		}
	}
}

// What no store could keep is made so that it can.
func TestClean(t *testing.T) {
	e := entry(1)
	e.Model, e.User = "a\x00b\xff", strings.Repeat("é", 300)
	e.Usage.Input, e.Usage.Output, e.Cost = 1<<60, -3, -1
	c, err := e.clean()
	if err != nil || c.Model != "a\uFFFDb\uFFFD" || c.User != strings.Repeat("é", 256) || c.Usage.Input != MaxCount || c.Usage.Output != 0 || c.Cost != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	again, err := c.clean()
	if err != nil || !reflect.DeepEqual(again, c) {
		t.Errorf("%+v, %v", again, err)
	}
}
