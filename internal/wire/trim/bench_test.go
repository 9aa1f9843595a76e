package trim

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire/tokens"
)

// chat is a chat of about so many bytes in messages of some
// sentences.
func chat(size, sentencesEach int) []byte {
	var list []any
	for n, i := 0, 0; n < size; i++ {
		var b strings.Builder
		for k := range sentencesEach {
			b.WriteString(sentences[(i+k)%6])
		}
		list = append(list, object{"role": []string{"user", "assistant"}[i%2], "content": b.String()})
		n += b.Len() + 40
	}
	raw, err := json.Marshal(object{"model": "m", "messages": list})
	if err != nil {
		panic(err) // the values are ours
	}
	return raw
}

func BenchmarkEdits(b *testing.B) {
	bodies := map[string][]byte{"turns": chat(64<<10, 12), "documents": chat(64<<10, 300), "MiB": chat(1<<20, 100), "tiny": chat(1<<20, 1)}
	for _, name := range []string{"turns", "documents", "MiB", "tiny"} {
		raw := bodies[name]
		for _, model := range []string{"gpt-4o", "claude-sonnet-4-5"} {
			whole := promptOf(raw, llm.OpenAI, llm.Chat, model, tokens.Calibration{})
			for _, percent := range []int{100, 50, 10} {
				b.Run(fmt.Sprintf("%s/%s/%d%%", name, model, percent), func(b *testing.B) {
					var s tokens.Scratch
					b.SetBytes(int64(len(raw)))
					b.ReportAllocs()
					for b.Loop() {
						Edits(raw, llm.OpenAI, llm.Chat, model, tokens.Calibration{}, whole*percent/100, &s)
					}
				})
			}
		}
	}
}

// A prompt that fits costs its count and nothing else.
func TestFitsWithoutAllocation(t *testing.T) {
	raw := chat(16<<10, 12)
	var s tokens.Scratch
	for _, model := range []string{"gpt-4o", "claude-sonnet-4-5"} {
		n := testing.AllocsPerRun(20, func() {
			if _, report := Edits(raw, llm.OpenAI, llm.Chat, model, tokens.Calibration{}, 1<<20, &s); !report.Fits {
				t.Fatalf("%+v", report)
			}
		})
		if n > 1 {
			t.Errorf("%s: %v allocations for a prompt that fits", model, n)
		}
	}
}
