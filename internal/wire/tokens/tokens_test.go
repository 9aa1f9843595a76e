package tokens

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/headgate-ai/headgate/lab/cputime"
	"github.com/headgate-ai/headgate/lab/race"
)

func TestIDsAreTheReferences(t *testing.T) {
	texts := slices.Concat(corpus(1, 480/race.Slower), hardCorpus(1, 1400/race.Slower))
	for _, o := range oracles() {
		compared := 0
		for _, s := range texts {
			if !knownDefect.Match(s.text) {
				compared++
			}
			check(t, &o, s.text)
		}
		if compared < 1000/race.Slower {
			t.Errorf("%s: only %d texts were compared with the reference library", o.ours.Name(), compared)
		}
	}
}

// Pieces around the length where the merging changes its method, and beyond.
func TestLongPieces(t *testing.T) {
	for _, o := range oracles() {
		for _, s := range []string{"a", "ab", "abcdefghijklmnopqrst", "Donau", "z\u0301", "语", "ক", "-=", " "} {
			for _, n := range []int{shortPiece - 1, shortPiece, shortPiece + 1, 3 * shortPiece, 600} {
				text := []byte(strings.Repeat(s, n/len(s)+1))
				check(t, &o, text[:n-n%len(s)])
				check(t, &o, text)
			}
		}
	}
}

// Windows much smaller than the usual ones, so that they meet everywhere, over
// texts of few letters, which merge in many ways.
func TestWindowsMeetAnywhere(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	alphabets := []string{"a", "ab", "abc", "etaoinsr", "thequickbrownfox", "-", "-=", " ", "語言", "你好世界的", "\u0301e", "дна", "aeiou\xff\xfe"}
	for _, o := range oracles() {
		var s Scratch
		for i := range 1500 / race.Slower {
			from := alphabets[i%len(alphabets)]
			piece := make([]byte, 0, 300)
			for range 2 + r.IntN(140) {
				at := r.IntN(len(from))
				piece = append(piece, from[at:at+1+r.IntN(len(from)-at)]...)
			}
			want := o.pairs(string(piece))
			window := 2 + r.IntN(40)
			n, got := o.ours.mergeLong(piece, window, &s, []int{-1}, true)
			if n != len(want) || !slices.Equal(got[1:], want) {
				t.Fatalf("%s of %q by %d: %d tokens\ngot  %v\nwant %v", o.ours.Name(), piece, window, n, got[1:], want)
			}
			if n, _ := o.ours.mergeLong(piece, window, &s, nil, false); n != len(want) {
				t.Fatalf("%s of %q by %d: %d tokens, want %d", o.ours.Name(), piece, window, n, len(want))
			}
		}
	}
}

// Every token comes out of merging its own bytes, which joining windows relies
// on.
func TestTokensMergeToThemselves(t *testing.T) {
	for _, o := range oracles() {
		var s Scratch
		for id, name := range o.names {
			if n, _ := o.ours.mergeLong([]byte(name), leastWindow, &s, nil, false); n != 1 {
				t.Fatalf("%s: merging %q, the token %d, gives %d", o.ours.Name(), name, id, n)
			}
		}
	}
}

func TestKnownSentences(t *testing.T) {
	for _, c := range []struct {
		text          string
		o200k, cl100k int
	}{
		{"", 0, 0},
		{"What is the capital of France?", 7, 7},
		{"hello world", 2, 2},
		{"<|endoftext|>", 7, 7},
	} {
		if got := O200k().Count([]byte(c.text)); got != c.o200k {
			t.Errorf("%q is %d tokens in o200k_base, want %d", c.text, got, c.o200k)
		}
		if got := CL100k().Count([]byte(c.text)); got != c.cl100k {
			t.Errorf("%q is %d tokens in cl100k_base, want %d", c.text, got, c.cl100k)
		}
	}
}

// The ids of any bytes spell those bytes.
func spells(t *testing.T, o *oracle, text []byte) {
	t.Helper()
	e := o.ours
	var b []byte
	ids := e.Append(nil, text)
	for _, id := range ids {
		b = append(b, o.names[id]...)
	}
	if string(b) != string(text) {
		t.Errorf("%s of %q spells %q", e.Name(), text, b)
	}
	if n := e.Count(text); n != len(ids) {
		t.Errorf("%s of %q: Count is %d and there are %d ids", e.Name(), text, n, len(ids))
	}
}

// The reference puts U+FFFD in place of such bytes; here they are counted as
// they are.
func TestBytesThatAreNotUTF8(t *testing.T) {
	for _, o := range oracles() {
		for _, text := range []string{"\xff", "a\xffb", "\xc3", "\xe4\xb8", " \xf0\x9f\x98", "\xed\xa0\x80x", "\x80\x80\n", strings.Repeat("\xfe", 500)} {
			spells(t, &o, []byte(text))
		}
	}
}

func FuzzCountO200k(f *testing.F) { fuzz(f, 0) }
func FuzzCL100k(f *testing.F)     { fuzz(f, 1) }

func fuzz(f *testing.F, which int) {
	for _, s := range []string{"", "Hello, world! It's 2025.", "  \n\n\t x", "你好，世界", "aB'll ABC\u0301'S", "\x00\xff", strings.Repeat("xy", 80)} {
		f.Add([]byte(s))
	}
	o := oracles()[which]
	f.Fuzz(func(t *testing.T, text []byte) {
		spells(t, &o, text)
		if len(text) <= 4096 && utf8.Valid(text) { // the oracle is quadratic
			check(t, &o, text)
		}
	})
}

// hostile are texts that make a naive tokenizer quadratic.
var hostile = map[string]func(n int) []byte{
	"letter a": func(n int) []byte { return []byte(strings.Repeat("a", n)) },
	"spaces":   func(n int) []byte { return []byte(strings.Repeat(" ", n)) },
	"lines":    func(n int) []byte { return []byte(strings.Repeat("\n", n-1) + "x") },
	"marks":    func(n int) []byte { return []byte(strings.Repeat("\u0301", n/2)) },
	"capitals": func(n int) []byte { return []byte(strings.Repeat("\u0301AB", n/4)) },
	"symbols":  func(n int) []byte { return []byte(strings.Repeat("=-", n/2)) },
	"han":      func(n int) []byte { return []byte(strings.Repeat("语言", n/6)) },
	"letters": func(n int) []byte {
		b, x := make([]byte, n), uint32(1)
		for i := range b {
			x = x*1664525 + 1013904223
			b[i] = 'a' + byte(x>>24)%26
		}
		return b
	},
}

// Ten times the text takes about ten times as long, whatever the text is.
func TestHostileTextIsNotQuadratic(t *testing.T) {
	const small, most = 100_000 / race.Slower, 30 // times as long for ten times the text
	for name, build := range hostile {
		for _, o := range oracles() {
			short, long := build(small), build(10*small)
			ratio := 0.0
			for range 3 { // a busy machine may spoil one try
				a, b := best(o.ours, short, 3), best(o.ours, long, 1)
				if ratio = float64(b) / float64(a); ratio <= most {
					break
				}
			}
			if ratio > most {
				t.Errorf("%s, %s: 1 MB takes %.0f times as long as 100 KB", name, o.ours.Name(), ratio)
			}
		}
	}
}

// The memory for long pieces does not grow with them.
func TestHostileTextTakesLittleMemory(t *testing.T) {
	for name, build := range hostile {
		for _, o := range oracles() {
			var s Scratch
			o.ours.count(build(300_000/race.Slower), &s)
			if n := cap(s.nodes)*12 + cap(s.heap)*8; n > 64<<10 {
				t.Errorf("%s, %s: 300 KB of text took %d bytes", name, o.ours.Name(), n)
			}
		}
	}
}

func best(e *Encoding, text []byte, tries int) time.Duration {
	least := time.Duration(1<<63 - 1)
	for range tries {
		start := time.Now()
		e.Count(text)
		least = min(least, time.Since(start))
	}
	return least
}

// Ordinary text is counted without allocation.
func TestCountAllocates(t *testing.T) {
	for _, size := range []int{4 << 10, 100 << 10} {
		text := english(size)
		for _, o := range oracles() {
			if n := testing.AllocsPerRun(5, func() { o.ours.Count(text) }); n != 0 {
				t.Errorf("%s: counting %d bytes of English allocates %v times", o.ours.Name(), size, n)
			}
		}
	}
}

// A processor counts 50 MB of English a second, and estimates 4 KiB in less than
// five microseconds.
func TestSpeed(t *testing.T) {
	if race.Slower > 1 {
		t.Skip("the race detector takes its time")
	}
	text := english(100 << 10)
	for _, o := range oracles() {
		least := cputime.Least(t, 100, func() { o.ours.Count(text) })
		speed := float64(len(text)) / least.Seconds() / 1e6
		if t.Logf("%s: %.0f MB/s of English", o.ours.Name(), speed); speed < 50 {
			t.Errorf("%s: %.0f MB/s of English, must be 50 or more", o.ours.Name(), speed)
		}
	}
	const each = 100
	for name, text := range map[string][]byte{"english": english(4 << 10), "chinese": filled(4<<10, seeds()["chinese"]...)[:4<<10]} {
		t.Run(name, func(t *testing.T) {
			cputime.Budget(t, 5*time.Microsecond, 1000, each, func() {
				for range each {
					EstimateOf(FamilyO200k, text)
				}
			})
		})
	}
}

func english(size int) []byte {
	return []byte(strings.Repeat(strings.Join(seeds()["english"], " ")+"\n", size/3000+1)[:size])
}

// Every token is found, wherever it stands in a text, and what differs from one
// in a byte, its length or what follows is not.
func TestLookup(t *testing.T) {
	for _, o := range oracles() {
		for id, name := range o.names {
			text := []byte("\xff" + name + "\xffabcdefgh")
			for _, b := range [][]byte{text, text[:len(name)+1]} {
				if got := o.ours.table.lookup(b, 1, 1+len(name)); got != uint32(id) {
					t.Fatalf("%s: %q is %d, want %d", o.ours.Name(), name, got, id)
				}
			}
			for _, wrong := range []string{name + "\xff", "\xfe" + name, name + "\x00", strings.ToUpper(name) + name} {
				want, ok := o.ranks[wrong]
				if !ok {
					want = int(none)
				}
				if got := o.ours.table.lookup([]byte(wrong), 0, len(wrong)); got != uint32(want) {
					t.Fatalf("%s: %q is %d, want %d", o.ours.Name(), wrong, got, want)
				}
			}
		}
		if got := o.ours.table.lookup([]byte("abc"), 1, 1); got != none {
			t.Errorf("no bytes at all are the token %d", got)
		}
	}
}
