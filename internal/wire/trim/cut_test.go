package trim

import (
	"encoding/json"
	"math/rand"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire/jsonspan"
	"github.com/headgate-ai/headgate/internal/wire/tokens"
)

func TestBoundary(t *testing.T) {
	for _, c := range []struct{ text, want string }{ // the limit is at the bar
		{"One. Two. Th|ree.", "One. Two."},
		{"One.| Two.", "One."},
		{"One|. Two.", "One"},
		{"Why? Be|cause.", "Why?"},
		{"No! N|ever.", "No!"},
		{"3.14 is p|i", "3.14 is"},
		{"first line\nsecond li|ne", "first line"},
		{"first line\r\n\r\nsecond| line", "first line"},
		{"一。二。三|四。", "一。二。"},
		{"一二三|四", "一二三"},
		{"one two th|ree", "one two"},
		{"one two|  three", "one two"},
		{"  \n one|two", "  \n one"},
		{"  \n one. t|wo", "  \n one."},
		{"oneword|again", "oneword"},
		{"\U0001F6B0\U0001F30A|\U0001F6B0", "\U0001F6B0\U0001F30A"},
		{"whole. text|", "whole. text"},
		{"A. " + strings.Repeat("b", lookBack) + "|b", "A. " + strings.Repeat("b", lookBack)},
	} {
		before, after, _ := strings.Cut(c.text, "|")
		text := []byte(before + after)
		if got := string(text[:boundary(text, len(before))]); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
	for i, want := range map[int]int{0: 0, 1: 0, 2: 0, 3: 0, 4: 4} {
		if got := runeStart([]byte("\U0001F6B0x"), i); got != want {
			t.Errorf("the character around byte %d begins at %d, want %d", i, got, want)
		}
	}
}

// Where a text is cut in its JSON form, by decoding what stands before.
func TestWritten(t *testing.T) {
	pieces := []string{`a`, `\n`, `\"`, `\\`, `\/`, `é`, `\u00e9`, `世`, `\u4e16`, `😀`, `\ud83d\ude00`, `\ud83d`, `\ude00`, `\u0041`, ` `}
	random := rand.New(rand.NewSource(1))
	for range 3000 {
		var inside string
		for range random.Intn(12) {
			inside += pieces[random.Intn(len(pieces))]
		}
		quoted := []byte(`"` + inside + `"`)
		whole, ok := jsonspan.Unquote(nil, quoted, jsonspan.Value{Span: jsonspan.Span{End: len(quoted)}, Kind: jsonspan.KindString})
		if !ok {
			t.Fatal(inside)
		}
		for n := range len(whole) + 1 {
			if runeStart(whole, n) != n {
				continue
			}
			at := written([]byte(inside), n)
			var got string
			if err := json.Unmarshal([]byte(`"`+inside[:at]+`"`), &got); err != nil || got != string(whole[:n]) {
				t.Fatalf("the first %d bytes of %s are %s: %q, %v", n, inside, inside[:at], got, err)
			}
		}
	}
}

// What limit finds is as long as it may be, by counting every beginning.
func TestLimit(t *testing.T) {
	r := rule{encoding: tokens.O200k()}
	random := &talk{Rand: rand.New(rand.NewSource(2))}
	for range 40 {
		text := []byte(random.text(120))
		most := float64(random.Intn(1 + r.encoding.Count(text)))
		at := r.limit(text, most)
		// Steps may end within a word of a text without white space.
		const off = 4
		if n := r.of(text[:at]); n > most+off || at < len(text) && r.of(text[:min(at+16, len(text))]) < most-off {
			t.Errorf("%d of %d bytes have %v tokens, and %v are allowed", at, len(text), n, most)
		}
	}
}

func TestShorten(t *testing.T) {
	r := rule{encoding: tokens.CL100k()}
	for name, text := range map[string]string{
		"letters": strings.Repeat("a", 9000), "signs": strings.Repeat("=-", 9000), "han": strings.Repeat("闸门", 3000),
		"spaces": strings.Repeat(" ", 9000) + "x", "bytes": strings.Repeat("\xff\x80", 3000), "lines": strings.Repeat("\n", 9000),
	} {
		whole := r.of([]byte(text))
		for _, part := range []float64{0, 0.1, 0.5, 0.99} {
			cut, kept := shorten([]byte(text), &r, whole*part)
			switch {
			case cut == len(text):
				if leastOf([]byte(text)) < len(text) {
					t.Errorf("%s: not cut to %v", name, part)
				}
			case kept != r.of([]byte(text[:cut])):
				t.Errorf("%s: %v tokens of %d bytes", name, kept, cut)
			case kept > whole*part && cut > leastOf([]byte(text)):
				t.Errorf("%s: %v tokens are kept, and %v were allowed", name, kept, whole*part)
			}
		}
	}
}

// Messages by themselves are as many tokens as they add to a body.
func TestGaugeOfMessages(t *testing.T) {
	const one, two = `{"role":"user","content":"Who opens it at night?"}`, `{"role":"assistant","content":"Nobody."}`
	count := func(body []byte, exact int) tokens.Count {
		return tokens.Prompt(body, llm.OpenAI, llm.Chat, "gpt-4o", tokens.Calibration{}, exact)
	}
	g := newGauge("gpt-4o", tokens.Calibration{}, tokens.ClassLatin, count)
	frames := 2*(3+1) + tokens.O200k().Count([]byte("Who opens it at night?")) + tokens.O200k().Count([]byte("Nobody."))
	if got := g.messages("messages", []byte(one+" , "+two)); got != float64(frames) {
		t.Errorf("%v tokens, want %d", got, frames)
	}
	if g.turns != ExactBytes-len(one+" , "+two) {
		t.Errorf("%d bytes are left to be counted exactly", g.turns)
	}
}
