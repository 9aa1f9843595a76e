package tokens

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// sample is a text of the test corpus.
type sample struct {
	kind string
	text []byte
}

// seeds are the texts that the corpus is put together from, by file: sentences,
// or pieces of code.
var seeds = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{}
	for _, name := range []string{"english", "chinese", "japanese", "russian", "arabic", "european", "scripts", "code"} {
		b, err := os.ReadFile("testdata/" + name + ".txt")
		if err != nil {
			panic(err)
		}
		sep := "\n"
		if name == "code" {
			sep = "\n---\n"
		}
		all[name] = strings.Split(strings.TrimSuffix(string(b), "\n"), sep)
	}
	return all
})

// kinds are what prompts are made of. Each gives one text of its kind.
var kinds = []struct {
	name string
	text func(r *rand.Rand) string
}{
	{"english", prose("english", " ")},
	{"english", prose("english", "\n\n")},
	{"chinese", prose("chinese", "")},
	{"chinese", prose("chinese", "\n")},
	{"code", prose("code", "\n\n")},
	{"code", prose("code", "\n")},
	{"json", func(r *rand.Rand) string { return jsonText(r, "") }},
	{"json", func(r *rand.Rand) string { return jsonText(r, "  ") }},
	{"japanese", prose("japanese", "")},
	{"russian", prose("russian", " ")},
	{"arabic", prose("arabic", " ")},
	{"european", prose("european", " ")},
	{"scripts", prose("scripts", " ")},
	{"chinese and english", func(r *rand.Rand) string {
		return prose("chinese", "")(r) + " " + prose("english", " ")(r) + prose("chinese", "\n")(r)
	}},
	{"markdown", markdown},
	{"english and code", func(r *rand.Rand) string {
		return prose("english", " ")(r) + "\n```\n" + pick(r, seeds()["code"]) + "\n```\n" + pick(r, seeds()["english"])
	}},
}

// hard are texts that nobody writes and somebody sends.
var hard = []func(r *rand.Rand) string{
	func(r *rand.Rand) string {
		return repeat(r, pick(r, []string{"a", " ", "\n", "\u0301", "あ", "A", "'", "-", "0", "'s"}))
	},
	func(r *rand.Rand) string { return fromRunes(r, " \t\n\r\v\f\u00a0\u0085\u2003\u3000\u2028x") },
	func(r *rand.Rand) string { return fromRunes(r, "0123456789.,²½٣५Ⅷ ") },
	func(r *rand.Rand) string {
		return fromRunes(r, "😀👍🏽👨\u200d👩\u200d👧🇩🇪❤\ufe0f✨ a")
	},
	func(r *rand.Rand) string { return fromRunes(r, "'sStTrReEvVmMlLdDſ' xI’") },
	func(r *rand.Rand) string {
		return fromRunes(r, "\x00\x01\x07\x08\x1b\x1f\x7f\u0080\u009f\u200b\ufeff\ufffd a")
	},
	func(r *rand.Rand) string { return fromRunes(r, "aAǅʰあ中\u0301\u0903ßİıſK -/\n") },
	func(r *rand.Rand) string { return fromRunes(r, "{}[]()<>=+-*/\\|&^%$#@!~`;:,.?\"'_ \n/") },
	func(r *rand.Rand) string { return fromRunes(r, "abcdefghijklmnopqrstuvwxyz") },
	func(r *rand.Rand) string { return fromRunes(r, "etaoinshr ETAOIN.") },
	func(r *rand.Rand) string {
		b := make([]byte, r.IntN(300))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return base64.StdEncoding.EncodeToString(b)
	},
	func(r *rand.Rand) string { // any characters at all
		var b []byte
		for range r.IntN(200) {
			if c := rune(r.IntN(utf8.MaxRune + 1)); utf8.ValidRune(c) {
				b = utf8.AppendRune(b, c)
			}
		}
		return string(b)
	},
	func(r *rand.Rand) string { // any characters of the planes that people use
		var b []byte
		for range r.IntN(200) {
			if c := rune(r.IntN(0x3100)); utf8.ValidRune(c) {
				b = utf8.AppendRune(b, c)
			}
		}
		return string(b)
	},
	func(r *rand.Rand) string {
		return "<|endoftext|>" + pick(r, seeds()["english"]) + "<|im_start|>system<|endofprompt|>"
	},
}

// corpus has n texts that people write, of all kinds in turn.
func corpus(seed uint64, n int) (all []sample) {
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range n {
		k := kinds[i%len(kinds)]
		all = append(all, sample{k.name, []byte(k.text(r))})
	}
	return all
}

// hardCorpus has n texts that nobody writes.
func hardCorpus(seed uint64, n int) (all []sample) {
	r := rand.New(rand.NewPCG(seed, 2))
	for i := range n {
		all = append(all, sample{"hard", []byte(hard[i%len(hard)](r))})
	}
	return all
}

func pick(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

func repeat(r *rand.Rand, s string) string { return strings.Repeat(s, r.IntN(300)) }

func fromRunes(r *rand.Rand, set string) string {
	from := []rune(set)
	out := make([]rune, r.IntN(200))
	for i := range out {
		out[i] = from[r.IntN(len(from))]
	}
	return string(out)
}

// prose makes texts of several seeds of a file.
func prose(file, sep string) func(r *rand.Rand) string {
	return func(r *rand.Rand) string {
		parts := make([]string, 1+r.IntN(12))
		for i := range parts {
			parts[i] = pick(r, seeds()[file])
		}
		return strings.Join(parts, sep)
	}
}

func markdown(r *rand.Rand) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", strings.TrimRight(pick(r, seeds()["english"]), ".?!"))
	for i := range 2 + r.IntN(6) {
		switch r.IntN(4) {
		case 0:
			fmt.Fprintf(&b, "%d. **%s** %s\n", i+1, word2(r), pick(r, seeds()["english"]))
		case 1:
			fmt.Fprintf(&b, "- `%s_%s`: %s\n", word2(r), word2(r), pick(r, seeds()["english"]))
		case 2:
			fmt.Fprintf(&b, "| %s | %d | %.2f |\n|---|---|---|\n", word2(r), r.IntN(10000), r.Float64()*100)
		case 3:
			fmt.Fprintf(&b, "\n> %s\n\nSee [%s](https://example.com/%s/%s?page=%d).\n", pick(r, seeds()["english"]), word2(r), word2(r), word2(r), r.IntN(50))
		}
	}
	return b.String()
}

// word2 is a word of an English sentence, in lower case and bare.
func word2(r *rand.Rand) string {
	words := strings.Fields(pick(r, seeds()["english"]))
	return strings.ToLower(strings.Trim(pick(r, words), ".,;:?!'"))
}

func jsonText(r *rand.Rand, indent string) string {
	b, err := json.MarshalIndent(jsonValue(r, 3), "", indent)
	if indent == "" {
		b, err = json.Marshal(jsonValue(r, 3))
	}
	if err != nil {
		panic(err)
	}
	return string(b)
}

func jsonValue(r *rand.Rand, depth int) any {
	kind := r.IntN(7)
	if depth == 3 {
		kind = 5 + r.IntN(2)
	}
	if depth == 0 {
		kind = r.IntN(5)
	}
	switch kind {
	case 0:
		return r.IntN(100000)
	case 1:
		return float64(r.IntN(100000)) / 100
	case 2:
		return r.IntN(2) == 0
	case 3:
		return word2(r) + " " + word2(r)
	case 4:
		return fmt.Sprintf("%s_%x", word2(r), r.Uint32())
	case 5:
		list := make([]any, 1+r.IntN(5))
		for i := range list {
			list[i] = jsonValue(r, depth-1)
		}
		return list
	}
	object := map[string]any{}
	for range 2 + r.IntN(6) {
		name := word2(r)
		if r.IntN(2) == 0 {
			name += "_" + word2(r)
		}
		object[name] = jsonValue(r, depth-1)
	}
	return object
}

// joined is the corpus as one text of at least size bytes.
func joined(seed uint64, size int) []byte {
	var b []byte
	for n := uint64(0); len(b) < size; n++ {
		for _, s := range corpus(seed+n, len(kinds)) {
			b = append(append(b, s.text...), "\n\n"...)
		}
	}
	return b
}

func TestCorpusIsLarge(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range corpus(1, 480) {
		seen[string(s.text)] = true
	}
	if len(seen) < 400 {
		t.Errorf("the corpus has %d different texts, want 400", len(seen))
	}
}
