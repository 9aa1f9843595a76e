package tokens

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/llm"
)

// slowMeasure is measure without packing.
func slowMeasure(fitted *[pairs]int32, prev uint8, text []byte) (tokens float64, counts classCounts) {
	for _, c := range text {
		kind := kindOf[c]
		tokens += float64(fitted[int(prev)*byteKinds+int(kind)]) / fittedUnit
		if class := classOfKind[kind]; class < classes {
			counts[class]++
		}
		prev = kind
	}
	return tokens, counts
}

// Sums of weights do not run over into each other, whatever the text; and rounding
// the weights makes no difference that anyone would see.
func TestMeasure(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	texts := [][]byte{nil, joined(5, 50<<10), bytes.Repeat([]byte("\xcc\xcd"), 1000)}
	for range 200 {
		text := make([]byte, r.IntN(500))
		few := 1 + r.IntN(256)
		for i := range text {
			text[i] = byte(r.IntN(few))
		}
		texts = append(texts, text)
	}
	for _, text := range texts {
		for prev := range uint8(byteKinds) {
			want, wantCounts := slowMeasure(&fittedCL100k, prev, text)
			sum, counts := weightsCL100k.measure(prev, text)
			if off := math.Abs(float64(sum)/weightUnit - want); off > 0.001*float64(len(text)) || counts != wantCounts {
				t.Fatalf("%.50q behind %d: %d and %v, want %.3f tokens and %v", text, prev, sum, counts, want, wantCounts)
			}
		}
	}
	for i := range pairs {
		for _, w := range []*weights{weightsO200k, weightsCL100k} {
			if most := int64(1) << (63 - lanes); block*(w[i]>>lanes) >= most || block*(w[i]>>lanes) < -most || block > laneMask {
				t.Errorf("%d bytes of the pair %d are too heavy", block, i)
			}
		}
	}
}

// offByChunks is how far the estimate of a text by chunks is from that of the whole.
func offByChunks(text []byte, piece int) (off float64, counts classCounts) {
	whole := meter{weights: weightsO200k, whole: math.MaxInt}
	some := meter{weights: weightsO200k, whole: wholeMeasured}
	for part := range slices.Chunk(text, piece) {
		whole.add(part)
		some.add(part)
	}
	want, _ := whole.result()
	got, counts := some.result()
	return got/want - 1, counts
}

// Chunks of a long text stand for all of it, of one kind or of many, in one piece or
// in many.
func TestEstimateByChunks(t *testing.T) {
	for _, piece := range []int{math.MaxInt, 700} {
		var errs []float64
		for seed := range uint64(20) {
			byKind := map[string][]byte{"all kinds": joined(seed, 100<<10)}
			for _, s := range corpus(seed, 240) {
				byKind[s.kind] = append(byKind[s.kind], s.text...)
			}
			for kind, text := range byKind {
				if len(text) <= 4*wholeMeasured {
					continue
				}
				off, counts := offByChunks(text, piece)
				if errs = append(errs, math.Abs(off)); math.Abs(off) > 0.15 {
					t.Errorf("%s, %d bytes: off by %.2f", kind, len(text), off)
				}
				if n := counts.total(); n == 0 || n > len(text) {
					t.Errorf("%s: %d characters of %d bytes", kind, n, len(text))
				}
			}
		}
		slices.Sort(errs)
		p50, p95 := percentile(errs, 50), percentile(errs, 95)
		t.Logf("%d texts: median %.1f %%, p95 %.1f %%", len(errs), 100*p50, 100*p95)
		if len(errs) < 40 || p50 > 0.016 || p95 > 0.07 {
			t.Error("chunks do not stand for the whole")
		}
	}
}

// Texts of lines of one length, whatever it is, do not fall in with the chunks.
func TestChunksHaveNoRhythm(t *testing.T) {
	for width := 8; width <= 2048; width += 1 + width/20 {
		line := []byte(strings.Repeat("0123456789", width)[:width/2])
		line = append(line, strings.Repeat("word ", width)[:width-len(line)]...)
		for _, lines := range []int{8 << 10 / width, 64 << 10 / width, 500 << 10 / width} {
			if off, _ := offByChunks(bytes.Repeat(line, lines), math.MaxInt); math.Abs(off) > 0.10 {
				t.Errorf("%d lines of %d bytes: off by %+.3f", lines, width, off)
			}
		}
	}
}

// Chunks of a string with escapes are chunks of what it stands for.
func TestChunksOfEscapes(t *testing.T) {
	for kind, sentences := range seeds() {
		plain := chatBody(string(filled(40<<10, sentences...)))
		want := Prompt(plain, llm.OpenAI, llm.Chat, "some-model", Calibration{}, 0)
		for _, body := range [][]byte{plain, inASCII(plain)} {
			s := Scratch{Parts: true}
			got := s.Prompt(body, llm.OpenAI, llm.Chat, "some-model", Calibration{}, 0)
			if off := float64(got.Tokens)/float64(want.Tokens) - 1; math.Abs(off) > 0.05 {
				t.Errorf("%s: %d tokens by chunks, %d as a whole", kind, got.Tokens, want.Tokens)
			}
			if len(s.text) != 0 {
				t.Errorf("%s: the whole text was decoded", kind)
			}
		}
	}
}

// Chunks go on from text to text, however short those are.
func TestChunksOfManyTexts(t *testing.T) {
	var turns []string
	for i := range 2000 {
		turns = append(turns, `{"role":"user","content":"`+strings.Repeat("word, \\n", i%30)+`"}`)
	}
	body := []byte(`{"messages":[` + strings.Join(turns, ",") + `]}`)
	s := Scratch{Parts: true}
	got := s.Prompt(body, llm.OpenAI, llm.Chat, "some-model", Calibration{}, 0)
	want := Prompt(body, llm.OpenAI, llm.Chat, "some-model", Calibration{}, 0)
	if off := float64(got.Tokens)/float64(want.Tokens) - 1; math.Abs(off) > 0.03 {
		t.Errorf("%d tokens by chunks, %d as a whole", got.Tokens, want.Tokens)
	}
}

func TestChunksAllocate(t *testing.T) {
	s := Scratch{Parts: true}
	for _, body := range [][]byte{conversation(64 << 10), inASCII(chatBody(string(joined(3, 64<<10))))} {
		if n := testing.AllocsPerRun(20, func() { s.Prompt(body, llm.OpenAI, llm.Chat, "some-model", Calibration{}, 0) }); n != 0 {
			t.Errorf("estimating a long prompt allocates %v times", n)
		}
	}
}
