package trim

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/headgate-ai/headgate/internal/llm"
	"github.com/headgate-ai/headgate/internal/wire/tokens"
)

// One document of 8192 tokens becomes one of 4096.
func TestHalfOfOneDocument(t *testing.T) {
	const sentence = "The canal was dry for nine days. "
	body := func(system string, n int) []byte {
		raw, err := json.Marshal(object{"messages": []any{
			object{"role": "system", "content": system},
			object{"role": "user", "content": strings.TrimSpace(strings.Repeat(sentence, n))},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	count := func(raw []byte) int {
		return promptOf(raw, llm.OpenAI, llm.Chat, "gpt-4o", tokens.Calibration{})
	}
	each := count(body("", 2)) - count(body("", 1))
	half := 4096 / each
	if 4096%each != 0 {
		t.Fatalf("a sentence has %d tokens, which does not divide 4096", each)
	}
	system := "Be brief" // and as long as the sum asks for
	for range each {
		if (8192-count(body(system, 1)))%each == 0 {
			break
		}
		system += " and"
	}
	n := 1 + (8192-count(body(system, 1)))/each
	out, report := checkEdits(t, body(system, n), llm.OpenAI, llm.Chat, "gpt-4o", tokens.Calibration{}, 4096)
	if !bytes.Equal(out, body(system, n-half)) {
		t.Errorf("the document has become %d bytes and not half", len(out))
	}
	if want := (Report{From: 8192, To: 4096, Cut: 1, Fits: true}); report != want || report.Header() != "from=8192;to=4096" {
		t.Errorf("%+v, %s", report, report.Header())
	}
}

// Bodies and what becomes of them, byte for byte.
func TestGolden(t *testing.T) {
	long := strings.Repeat("It was a dark and stormy night. ", 100)
	for name, c := range map[string]struct {
		dialect   llm.Dialect
		op        llm.Operation
		raw, want string
		less      int // tokens than the body has
	}{
		"the oldest turn": {llm.OpenAI, llm.Chat,
			`{ "messages" : [ {"role":"system","content":"s"} , {"role":"user","content":"one"} , {"role":"assistant","content":"1"}, {"role":"user","content":"two"},{"role":"user","content":"three"},{"role":"user","content":"four"} ] , "n":1.0}`,
			`{ "messages" : [ {"role":"system","content":"s"} , {"role":"user","content":"two"},{"role":"user","content":"three"},{"role":"user","content":"four"} ] , "n":1.0}`, 1},
		"a system message within a dropped turn": {llm.OpenAI, llm.Chat,
			`{"messages":[{"role":"user","content":"one"}, {"role":"developer","content":"d"}, {"role":"assistant","content":"1"}, {"role":"user","content":"two"},{"role":"user","content":"three"},{"role":"user","content":"four"}]}`,
			`{"messages":[{"role":"developer","content":"d"}, {"role":"user","content":"two"},{"role":"user","content":"three"},{"role":"user","content":"four"}]}`, 6},
		"a greeting": {llm.OpenAI, llm.Chat,
			`{"messages":[{"role":"assistant","content":"Hello!"},{"role":"user","content":"one"}]}`,
			`{"messages":[{"role":"user","content":"one"}]}`, 1},
		"the older function calls": {llm.OpenAI, llm.Chat,
			`{"messages":[{"role":"user","content":"a"},{"role":"assistant","function_call":{"name":"f","arguments":"{}"}},{"role":"user","content":"b"},{"role":"function","name":"f","content":"1"},{"role":"user","content":"c"},{"role":"user","content":"d"},{"role":"user","content":"e"}]}`,
			`{"messages":[{"role":"user","content":"c"},{"role":"user","content":"d"},{"role":"user","content":"e"}]}`, 1},
		"Anthropic's results begin no turn": {llm.Anthropic, llm.Chat,
			`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"1"}]},{"role":"user","content":"b"},{"role":"user","content":"c"},{"role":"user","content":"d"}],"system":"s"}`,
			`{"messages":[{"role":"user","content":"b"},{"role":"user","content":"c"},{"role":"user","content":"d"}],"system":"s"}`, 1},
		"what the provider has stays": {llm.OpenAI, llm.Responses,
			`{"input":[{"type":"function_call_output","call_id":"x","output":"1"},{"role":"user","content":"a"},{"role":"user","content":"b"},{"role":"user","content":"c"},{"role":"user","content":"d"}],"previous_response_id":"r"}`,
			`{"input":[{"type":"function_call_output","call_id":"x","output":"1"},{"role":"user","content":"b"},{"role":"user","content":"c"},{"role":"user","content":"d"}],"previous_response_id":"r"}`, 1},
		"a role that nobody knows stays": {llm.OpenAI, llm.Chat,
			`{"messages":[{"role":"user","content":"a"},{"role":"critic","content":"x"},{"role":"user","content":"b"},{"role":"user","content":"c"},{"role":"user","content":"d"},{"role":"user","content":"e"}]}`,
			`{"messages":[{"role":"user","content":"a"},{"role":"critic","content":"x"},{"role":"user","content":"c"},{"role":"user","content":"d"},{"role":"user","content":"e"}]}`, 1},
		"the role is escaped": {llm.OpenAI, llm.Chat,
			`{"messages":[{"role":"syst\u0065m","content":"one two three four five six seven eight nine ten"},{"role":"user","cont\u0065nt":"One \u4e16\ud83d\ude00 two three. Four five six seven eight."}]}`,
			`{"messages":[{"role":"syst\u0065m","content":"one two three four five six seven eight nine ten"},{"role":"user","cont\u0065nt":"One \u4e16\ud83d\ude00 two three."}]}`, 6},
		"a role twice": {llm.OpenAI, llm.Chat,
			`{"messages":[{"role":"user","role":"system","content":"One two three four five six seven. Eight nine ten."}]}`,
			`{"messages":[{"role":"user","role":"system","content":"One two three four five six seven. Eight nine ten."}]}`, 3},
		"the latest question last": {llm.OpenAI, llm.Chat,
			`{"messages":[{"role":"user","content":"One two three four five. Six seven eight nine ten."},{"role":"assistant","content":"One two three four five. Six seven eight nine ten."},{"role":"user","content":"One two three four five. Six seven eight nine ten."},{"role":"assistant","content":"One two three four five. Six seven eight nine ten."}]}`,
			`{"messages":[{"role":"user","content":"One two three four five."},{"role":"assistant","content":"One two three four five."},{"role":"user","content":"One two three four five. Six seven eight nine ten."},{"role":"assistant","content":"One two three four five."}]}`, 18},
		"a tool's result before the question": {llm.Anthropic, llm.Chat,
			`{"messages":[{"role":"user","content":"One two three four five. Six seven eight nine ten."},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"One two three four five. Six seven eight nine ten."}]}]}`,
			`{"messages":[{"role":"user","content":"One two three four five. Six seven eight nine ten."},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"One two three four five."}]}]}`, 6},
		"a completion": {llm.OpenAI, llm.Completion,
			`{"prompt":"One two three four five six seven. Eight nine ten.","suffix":"and so on and on and on and on"}`,
			`{"prompt":"One two three four five six seven.","suffix":"and so on and on and on and on"}`, 3},
		"completions": {llm.OpenAI, llm.Completion,
			`{"prompt":["Short.","` + long + `"]}`,
			`{"prompt":["Short.","` + long[:32*91-1] + `"]}`, 80},
		"a response": {llm.OpenAI, llm.Responses,
			`{"input":"One two three four five six seven. Eight nine ten.","instructions":"Be very brief indeed, and friendly."}`,
			`{"input":"One two three four five six seven.","instructions":"Be very brief indeed, and friendly."}`, 3},
		"an embedding stays": {llm.OpenAI, llm.Embeddings, `{"input":"One two three."}`, `{"input":"One two three."}`, 2},
		"to count stays":     {llm.Anthropic, llm.CountTokens, `{"messages":[{"role":"user","content":"One two three."}]}`, `{"messages":[{"role":"user","content":"One two three."}]}`, 2},
		"Gemini stays":       {llm.Gemini, llm.Chat, `{"contents":[{"parts":[{"text":"One two three."}]}]}`, `{"contents":[{"parts":[{"text":"One two three."}]}]}`, 2},
		"two conversations":  {llm.OpenAI, llm.Chat, `{"messages":[{"role":"user","content":"` + long + `"}],"messages":[]}`, `{"messages":[{"role":"user","content":"` + long + `"}],"messages":[]}`, 9},
		"not JSON":           {llm.OpenAI, llm.Chat, `{"messages":[{"role":"user","content":"` + long, `{"messages":[{"role":"user","content":"` + long, 9},
		"a thought stays": {llm.Anthropic, llm.Chat,
			`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"` + long + `","signature":"x"}]}]}`,
			`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"` + long + `","signature":"x"}]}]}`, 9},
		"a PDF stays, a text does not": {llm.Anthropic, llm.Chat,
			`{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0xLjQK"}},{"type":"document","source":{"type":"content","content":[{"type":"text","text":"` + long + `"}]}}]}]}`,
			`{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0xLjQK"}},{"type":"document","source":{"type":"content","content":[{"type":"text","text":"` + long[:32*91-1] + `"}]}}]}]}`, 80},
	} {
		raw := []byte(c.raw)
		budget := promptOf(raw, c.dialect, c.op, "gpt-4o", tokens.Calibration{}) - c.less
		out, report := checkEdits(t, raw, c.dialect, c.op, "gpt-4o", tokens.Calibration{}, budget)
		if string(out) != c.want {
			t.Errorf("%s: %+v where %d are asked for\ngot  %s\nwant %s", name, report, budget, out, c.want)
		}
		if wantFit := c.want != c.raw; report.Fits != wantFit {
			t.Errorf("%s: %+v where %d are asked for", name, report, budget)
		}
	}
}

// The longest document goes first, down to what a document keeps, and the next
// one only if that is not enough.
func TestDocumentsByLength(t *testing.T) {
	text := func(n int) string { return strings.Repeat("The canal was dry for nine days. ", n) }
	raw, err := json.Marshal(object{"messages": []any{
		object{"role": "user", "content": text(120)},
		object{"role": "assistant", "content": text(10)},
		object{"role": "user", "content": text(300)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	whole := promptOf(raw, llm.OpenAI, llm.Chat, "gpt-4o", tokens.Calibration{})
	each := tokens.O200k().Count([]byte(text(2))) - tokens.O200k().Count([]byte(text(1)))
	for _, c := range []struct {
		less int
		keep [3]int // sentences
	}{
		{100 * each, [3]int{120, 10, 200}},
		{(300 - documentTokens/each) * each, [3]int{120, 10, documentTokens / each}},
		{(300 - documentTokens/each + 10) * each, [3]int{110, 10, documentTokens / each}},
	} {
		out, report := checkEdits(t, raw, llm.OpenAI, llm.Chat, "gpt-4o", tokens.Calibration{}, whole-c.less)
		var keep [3]int
		for i, v := range decode(t, out)["messages"].([]any) {
			keep[i] = strings.Count(v.(object)["content"].(string), ".")
		}
		if keep != c.keep || !report.Fits {
			t.Errorf("%d tokens less: %v sentences are left, want %v; %+v", c.less, keep, c.keep, report)
		}
	}
}
